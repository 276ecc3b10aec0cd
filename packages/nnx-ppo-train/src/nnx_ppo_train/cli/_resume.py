"""``nnx-ppo resume``."""

import dataclasses

from rich.console import Console

from .._checkpoint import latest_checkpoint, load_checkpoint
from .._checkpoint_files import checkpoints_in, step_of
from ._arguments import ResumeArguments
from ._errors import UsageError, user_errors
from ._lock import RunLock
from ._resolve import make_run
from ._run_config import RunConfig, read_end, read_run_config, update_run_config
from ._run_folder import RunFolder, find_run_folder
from ._session import Session, say
from ._trust import import_folders


def resume(arguments: ResumeArguments, console: Console) -> int:
    """Goes on with a run; returns the exit code.

    Args:
      arguments: what the flags say.
      console: where to print.

    Raises:
      UsageError: if there is no such run, no checkpoint in it, or one that does not fit; if
        another process works in the folder, or its code is not trusted.
    """
    folder = find_run_folder(arguments.run)
    with user_errors():
        run = read_run_config(folder.config)
        if arguments.total_steps is not None:
            run = _extended(run, arguments.total_steps)
    folders = import_folders(run, folder.path, arguments.trust)
    with RunLock(folder.path) as lock:
        new_end = arguments.total_steps is not None
        return go_on(
            console, folder, lock, run, folders, new_end, allow_partial=arguments.allow_partial
        )


def go_on(
    console: Console,
    folder: RunFolder,
    lock: RunLock,
    run: RunConfig,
    import_path: tuple[str, ...],
    new_end: bool = False,
    *,
    allow_partial: bool = False,
) -> int:
    """Trains on from a folder's newest checkpoint; returns the exit code.

    Args:
      console: where to print.
      folder: the run folder.
      lock: the lock on it.
      run: what to do, which replaces what the folder's config says.
      import_path: folders from which the run's own code may be imported.
      new_end: whether the run's number of steps was given anew, and must not lie behind.
      allow_partial: whether to load what fits of a checkpoint that does not fit as a whole.
    """
    env, network = make_run(run, import_path)
    with user_errors():
        checkpoint = latest_checkpoint(folder.checkpoints)
        state = load_checkpoint(checkpoint, network, env, run.train, allow_partial=allow_partial)
    total = run.train.ppo.total_steps
    if new_end and state.steps_taken > total:
        raise UsageError(
            f"--total-steps: expected at least {state.steps_taken}, the steps that "
            f"{checkpoint} has already; got {total}"
        )
    with user_errors():
        update_run_config(folder.config, run)
    if state.steps_taken >= total:
        say(console, f"{folder.path}: all {total:,} steps are done; --total-steps sets a new end.")
    else:
        say(
            console,
            f"Resuming {run.network} on {run.env} at {state.steps_taken:,} of {total:,} steps\n"
            f"Run folder: {folder.path}\nCompiling.",
        )
    return Session(console, folder, lock, run, env, network).train(state)


def finished_because(folder: RunFolder, total_steps: int) -> str | None:
    """Returns why a run has nothing left to do, or None if it has."""
    found = checkpoints_in(folder.checkpoints)
    steps = step_of(found[-1]) if found else -1
    if steps >= total_steps:
        return f"all {total_steps:,} steps are done"
    ended = read_end(folder.config)
    if ended is not None and ended[0] == steps:
        return f"it ended at {steps:,} of {total_steps:,} steps: {ended[1]}"
    return None


def _extended(run: RunConfig, total_steps: int) -> RunConfig:
    ppo = dataclasses.replace(run.train.ppo, total_steps=total_steps)
    return dataclasses.replace(run, train=dataclasses.replace(run.train, ppo=ppo))
