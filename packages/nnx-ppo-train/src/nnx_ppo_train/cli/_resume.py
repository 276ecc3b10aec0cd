"""``nnx-ppo resume``."""

import dataclasses

from rich.console import Console

from .._checkpoint import latest_checkpoint, load_checkpoint
from ._arguments import ResumeArguments
from ._errors import UsageError, user_errors
from ._resolve import make_run
from ._run_config import RunConfig, read_run_config, update_run_config
from ._run_folder import find_run_folder
from ._session import Session, say


def resume(arguments: ResumeArguments, console: Console) -> int:
    """Goes on with a run; returns the exit code.

    Args:
      arguments: what the flags say.
      console: where to print.

    Raises:
      UsageError: if there is no such run, no checkpoint in it, or one that does not fit.
    """
    folder = find_run_folder(arguments.run)
    with user_errors():
        run = read_run_config(folder.config)
        if arguments.total_steps is not None:
            run = _extended(run, arguments.total_steps)
    env, network = make_run(run)
    with user_errors():
        checkpoint = latest_checkpoint(folder.checkpoints)
        state = load_checkpoint(checkpoint, network, env, run.train)
    total = run.train.ppo.total_steps
    if arguments.total_steps is not None and state.steps_taken > total:
        raise UsageError(
            f"--total-steps: expected at least {state.steps_taken}, the steps that "
            f"{checkpoint} has already; got {total}"
        )
    update_run_config(folder.config, run)
    session = Session(console, folder, run, env, network)
    if state.steps_taken >= total:
        say(console, f"{folder.path}: all {total:,} steps are done; --total-steps sets a new end.")
    else:
        say(
            console,
            f"Resuming {run.network} on {run.env} at {state.steps_taken:,} of {total:,} steps\n"
            f"Run folder: {folder.path}\nCompiling.",
        )
    return session.train(state)


def _extended(run: RunConfig, total_steps: int) -> RunConfig:
    ppo = dataclasses.replace(run.train.ppo, total_steps=total_steps)
    return dataclasses.replace(run, train=dataclasses.replace(run.train, ppo=ppo))
