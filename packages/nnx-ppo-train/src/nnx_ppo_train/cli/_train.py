"""``nnx-ppo train``."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from .._checkpoint_files import checkpoints_in
from .._config import LARGEST_SEED, TrainConfig
from .._validate import check_whole_number
from ._arguments import TrainArguments
from ._errors import UsageError, user_errors
from ._lock import RunLock
from ._many_session import ManySession
from ._recommended import recommended
from ._resolve import make_run
from ._resume import finished_because, go_on
from ._run_config import RunConfig, read_run_config, write_run_config
from ._run_folder import RunFolder, check_new, is_unused, make_run_folder, newest_checkpoint
from ._same_run import check_same
from ._session import Session, say

MOST_SEEDS = 10_000


def train(arguments: TrainArguments, console: Console, command: list[str]) -> int:
    """Starts a run, or goes on with it on request; returns the exit code.

    Args:
      arguments: what the flags say.
      console: where to print.
      command: the words of the command line, for the record.

    Raises:
      UsageError: if something is wrong with them; no folder is left then.
    """
    with user_errors():
        config = arguments.config()
    seeds = _seeds(arguments)
    _check_combinations(arguments)
    run = _run_config(arguments, config)
    path = arguments.run_dir
    if path is not None and not (arguments.resume_if_exists and os.path.lexists(path)):
        check_new(path)
    if arguments.resume_if_exists and path is not None and os.path.lexists(path):
        return _train_in(path, run, arguments, console, command)
    env, network = make_run(run, begins=True)
    try:
        folder = make_run_folder(path, run.env, run.network, config.seed)
    except UsageError:
        if path is None or not arguments.resume_if_exists or not path.is_dir():
            raise
        return _train_in(path, run, arguments, console, command)  # another job was faster
    with RunLock(folder.path) as lock:
        with _writable(folder):
            if len(seeds) == 1:
                write_run_config(folder.config, run, command)
        _announce(console, folder, run, seeds)
        if len(seeds) > 1:
            return ManySession(console, folder, lock, run, env, seeds, command).train()
        return Session(console, folder, lock, run, env, network, arguments.profile).train()


def _train_in(
    path: Path, run: RunConfig, arguments: TrainArguments, console: Console, command: list[str]
) -> int:
    """Goes on with the run in a folder, or starts it where it has saved nothing yet."""
    folder = RunFolder(path)
    if not path.is_dir() or not (os.path.isfile(folder.config) or is_unused(path)):
        raise UsageError(
            f"--run-dir {path}: expected a run folder, an empty folder or none, got something "
            "else; choose another --run-dir"
        )
    with RunLock(path) as lock:
        if os.path.isfile(folder.config):
            with user_errors():
                saved = read_run_config(folder.config)
                check_same(path, saved, run)
                why = finished_because(folder, run.train.ppo.total_steps)
            if why is not None:
                say(console, f"{path}: {why}.")
                return 0
            if checkpoints_in(folder.checkpoints):
                return go_on(console, folder, lock, run, run.import_path)
        env, network = make_run(run, begins=True)
        with _writable(folder):
            write_run_config(folder.config, run, command)
        _announce(console, folder, run, range(run.train.seed, run.train.seed + 1))
        return Session(console, folder, lock, run, env, network, arguments.profile).train()


def _run_config(arguments: TrainArguments, config: TrainConfig) -> RunConfig:
    return RunConfig(
        env=arguments.env,
        network=arguments.network,
        net=None if ":" in arguments.network else arguments.net,
        train=config,
        import_path=(os.getcwd(),),
        init_from=_other_run(arguments),
        init_take=arguments.init_take,
        init_freeze=arguments.init_freeze,
    )


def _other_run(arguments: TrainArguments) -> str | None:
    """The checkpoint that ``--init-from`` names, by a run folder or by itself."""
    path = arguments.init_from
    if path is None:
        if arguments.init_take != ("*",):
            raise UsageError(
                "--init-take: expected --init-from beside it, there is none; name the run to take "
                "from, or leave it out"
            )
        return None
    with user_errors():
        return str(newest_checkpoint(path).absolute())


def _announce(console: Console, folder: RunFolder, run: RunConfig, seeds: range) -> None:
    config = run.train
    which = f"seed {config.seed}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    say(
        console,
        f"Training {run.network} on {run.env}: {config.ppo.total_steps:,} steps, "
        f"{config.ppo.n_envs} environments, {which}\n"
        f"Run folder: {folder.path}\n"
        "Compiling; the first time this takes a while, later starts find the result on disk.",
    )


def _seeds(arguments: TrainArguments) -> range:
    """The seeds to train.

    Raises:
      UsageError: if there are none or too many, one is too large, or videos are asked for of
        several.
    """
    with user_errors():
        check_whole_number(arguments.seeds, "--seeds", 1, MOST_SEEDS)
        last = arguments.seed + arguments.seeds - 1
        check_whole_number(last, "--seed (the last of --seeds)", 0, LARGEST_SEED)
    if arguments.seeds > 1 and arguments.video.enabled:
        raise UsageError(
            "--video.enabled: expected no videos with several --seeds; an episode of the median "
            "seed is drawn at the end"
        )
    return range(arguments.seed, last + 1)


def _check_combinations(arguments: TrainArguments) -> None:
    """Raises UsageError where one flag leaves no room for another."""
    if arguments.profile and arguments.seeds > 1:
        raise UsageError(
            f"--profile: expected one seed, got --seeds {arguments.seeds}; profile a run of one"
        )
    if arguments.resume_if_exists and arguments.run_dir is None:
        raise UsageError(
            "--resume-if-exists: expected --run-dir beside it, without which every run has a new "
            "folder; name the folder"
        )
    if arguments.resume_if_exists and arguments.seeds > 1:
        raise UsageError(
            f"--resume-if-exists: expected one seed, got --seeds {arguments.seeds}; give each seed "
            "a job and a folder of its own"
        )
    _check_network_options(arguments)


def _check_network_options(arguments: TrainArguments) -> None:
    """Raises UsageError where an option is set for a network of the user's own."""
    if ":" not in arguments.network:
        return  # make_network knows what its networks have no use for
    usual = recommended(arguments.env, arguments.network)[1]
    for name, value in vars(usual).items():
        given = getattr(arguments.net, name)
        if given != value:
            raise UsageError(
                f"--net.{name.replace('_', '-')}: {arguments.network!r} has no use for it, "
                f"expected {value!r} (the default), got {given!r}; set it in its factory"
            )


@contextlib.contextmanager
def _writable(folder: RunFolder) -> Iterator[None]:
    """Context in which the folder's first file is written: it may be on a full disk."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{folder.path}: expected a folder that can be written, got {error.strerror!r}; "
            "choose another --run-dir"
        ) from error
