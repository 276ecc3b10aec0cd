"""``nnx-ppo train``."""

import os

from rich.console import Console

from .._config import LARGEST_SEED
from .._validate import check_whole_number
from ._arguments import TrainArguments
from ._errors import UsageError, user_errors
from ._many_session import ManySession
from ._recommended import recommended
from ._resolve import make_run
from ._run_config import RunConfig, write_run_config
from ._run_folder import RunFolder, new_run_folder
from ._session import Session, say


def train(arguments: TrainArguments, console: Console, command: list[str]) -> int:
    """Starts a run; returns the exit code.

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
    if arguments.profile and len(seeds) > 1:
        raise UsageError(
            f"--profile: expected one seed, got --seeds {arguments.seeds}; profile a run of one"
        )
    _check_network_options(arguments)
    run = RunConfig(
        env=arguments.env,
        network=arguments.network,
        net=arguments.net,
        train=config,
        import_path=(os.getcwd(),),
    )
    folder = new_run_folder(arguments.run_dir, run.env, run.network, config.seed)
    env, network = make_run(run)
    _make(folder)
    if len(seeds) == 1:
        write_run_config(folder.config, run, command)
    which = f"seed {config.seed}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    say(
        console,
        f"Training {run.network} on {run.env}: {config.ppo.total_steps:,} steps, "
        f"{config.ppo.n_envs} environments, {which}\n"
        f"Run folder: {folder.path}\n"
        "Compiling; the first time this takes a while, later starts find the result on disk.",
    )
    if len(seeds) > 1:
        return ManySession(console, folder, run, env, seeds, command).train()
    return Session(console, folder, run, env, network, arguments.profile).train()


def _seeds(arguments: TrainArguments) -> range:
    """The seeds to train.

    Raises:
      UsageError: if there are none, one is too large, or videos are asked for of several.
    """
    with user_errors():
        check_whole_number(arguments.seeds, "--seeds", at_least=1)
        last = arguments.seed + arguments.seeds - 1
        check_whole_number(last, "--seed (the last of --seeds)", 0, LARGEST_SEED)
    if arguments.seeds > 1 and arguments.video.enabled:
        raise UsageError(
            "--video.enabled: expected no videos with several --seeds; an episode of the median "
            "seed is drawn at the end"
        )
    return range(arguments.seed, last + 1)


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


def _make(folder: RunFolder) -> None:
    """Makes the run folder."""
    try:
        folder.path.mkdir(parents=True)
    except OSError as error:
        raise UsageError(
            f"--run-dir {folder.path}: expected a folder that can be made, got "
            f"{error.strerror!r}; choose another --run-dir"
        ) from error
