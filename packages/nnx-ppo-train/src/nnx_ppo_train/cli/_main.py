"""The entry point: which command, and what becomes of errors."""

import os
import sys

from rich.console import Console

from .._arguments import as_path
from ._arguments import (
    Arguments,
    EnvsArguments,
    EvalArguments,
    ResumeArguments,
    TrainArguments,
    parse,
)
from ._compilation_cache import use_compilation_cache
from ._ending import INTERRUPTED, USAGE_ERROR
from ._envs import list_choices
from ._errors import UsageError, complain, one_line, user_errors
from ._eval import evaluate
from ._resume import resume
from ._streams import forgiving_streams
from ._train import train


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line.

    Args:
      arguments: the words after ``nnx-ppo``; by default those the program was started with.

    Returns:
      The exit code: 0; 1 after a run that failed; 2 after a mistake of the user's; 130 after
      Ctrl-C, 143 after SIGTERM and 138 after SIGUSR1, once the state was saved.

    Raises:
      SystemExit: after ``--help`` (0) and after flags that cannot be parsed (2).
    """
    words = sys.argv[1:] if arguments is None else arguments
    with forgiving_streams():
        parsed = parse(words)
        try:
            if not isinstance(parsed, EnvsArguments):
                _check_current_folder()
                _check_paths(parsed)
            use_compilation_cache()
            return _run(parsed, Console(), ["nnx-ppo", *words])
        except UsageError as error:
            complain(one_line(error))
            return USAGE_ERROR
        except KeyboardInterrupt:
            complain("interrupted")
            return INTERRUPTED


def _check_current_folder() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(
            "expected a current folder that exists, it has been deleted; change into another one"
        ) from error


def _check_paths(parsed: Arguments) -> None:
    """Raises UsageError where a path is none that the system could have."""
    for name in ("run", "run_dir", "init_from"):
        path = getattr(parsed, name, None)
        if path is not None:
            with user_errors():
                as_path(path, "RUN" if name == "run" else f"--{name.replace('_', '-')}")


def _run(parsed: Arguments, console: Console, command: list[str]) -> int:
    if isinstance(parsed, TrainArguments):
        return train(parsed, console, command)
    if isinstance(parsed, ResumeArguments):
        return resume(parsed, console)
    if isinstance(parsed, EvalArguments):
        return evaluate(parsed, console)
    return list_choices(console)
