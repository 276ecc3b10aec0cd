"""The entry point: which command, and what becomes of errors."""

import sys

from rich.console import Console

from ._arguments import Arguments, EvalArguments, ResumeArguments, TrainArguments, parse
from ._compilation_cache import use_compilation_cache
from ._envs import list_choices
from ._errors import UsageError
from ._eval import evaluate
from ._resume import resume
from ._session import INTERRUPTED
from ._train import train

USAGE_ERROR = 2


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line.

    Args:
      arguments: the words after ``nnx-ppo``; by default those the program was started with.

    Returns:
      The exit code: 0, 2 after a mistake of the user's, 130 after Ctrl-C.

    Raises:
      SystemExit: after ``--help`` (0) and after flags that cannot be parsed (2).
    """
    words = sys.argv[1:] if arguments is None else arguments
    parsed = parse(words)
    console = Console()
    try:
        use_compilation_cache()
        return _run(parsed, console, ["nnx-ppo", *words])
    except UsageError as error:
        print(f"nnx-ppo: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print("nnx-ppo: interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(parsed: Arguments, console: Console, command: list[str]) -> int:
    if isinstance(parsed, TrainArguments):
        return train(parsed, console, command)
    if isinstance(parsed, ResumeArguments):
        return resume(parsed, console)
    if isinstance(parsed, EvalArguments):
        return evaluate(parsed, console)
    return list_choices(console)
