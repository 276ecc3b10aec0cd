"""``nnx-ppo train``."""

import os

from rich.console import Console

from ._arguments import TrainArguments
from ._errors import UsageError, user_errors
from ._recommended import recommended
from ._resolve import make_run
from ._run_config import RunConfig, write_run_config
from ._run_folder import new_run_folder
from ._session import Session

_NO_EFFECT = {
    "graph": ("hidden_layers", "actor_obs", "critic_obs"),
    "mlp": ("delay",),
    "lstm": ("delay", "hidden_layers"),
    "gru": ("delay", "hidden_layers"),
    "lru": ("delay", "hidden_layers"),
}
"""Options that a built-in network has no use for: to set one is a mistake."""


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
    folder.path.mkdir(parents=True)
    write_run_config(folder.config, run, command)
    session = Session(console, folder, run, env, network)
    session.say(
        f"Training {run.network} on {run.env}: {config.ppo.total_steps:,} steps, "
        f"{config.ppo.n_envs} environments, seed {config.seed}\n"
        f"Run folder: {folder.path}\n"
        "Compiling; the first time this takes a while, later starts find the result on disk."
    )
    return session.train()


def _check_network_options(arguments: TrainArguments) -> None:
    """Raises UsageError where an option is set that the network has no use for."""
    usual = recommended(arguments.env, arguments.network)[1]
    own = ":" in arguments.network
    for name in vars(usual) if own else _NO_EFFECT.get(arguments.network, ()):
        if getattr(arguments.net, name) != getattr(usual, name):
            flag = f"--net.{name.replace('_', '-')}"
            remedy = "set it in its factory" if own else "leave it out, or choose another network"
            raise UsageError(f"{flag}: {arguments.network!r} has no use for it; {remedy}")
