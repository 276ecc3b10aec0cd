"""What can be said on the command line, as typed records that tyro turns into flags."""

import argparse
import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from .._config import EvalConfig, TrainConfig, VideoConfig
from .._config_json import flag_from_text, flag_to_text
from .._logging_level import LoggingLevel
from .._ppo_config import DecayMask, PPOConfig, Schedule
from ..presets import NetworkOptions
from ._recommended import DEFAULT_ENV, DEFAULT_NETWORK, recommended

DESCRIPTION = (
    "Train stateful networks with PPO. `nnx-ppo train` without anything else trains a delayed "
    "graph network on a cart-pole that hides its velocities, and leaves a run folder."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainArguments:
    """Train a network and leave a run folder: config, metrics, checkpoints, pictures.

    The defaults below are those recommended for the chosen --env and --network.

    Attributes:
      env: a built-in environment (see `nnx-ppo envs`), `playground/TaskName` of MuJoCo Playground,
        or your own as `package.module:make_env`, called without arguments.
      network: a built-in network (see `nnx-ppo envs`), or your own as
        `package.module:make_network`, called with (env, rngs).
      run_dir: the run folder, which must not exist yet; by default
        runs/ENV-NETWORK-SEED-TIME.
      resume_if_exists: go on with the run in --run-dir if there is one, as job scripts need; all
        settings but the total steps and logging must be those of the run.
      total_steps: short for --ppo.total-steps.
      seed: seed of everything: parameters, environments, noise, minibatches.
      seeds: train that many seeds side by side, counted from --seed; each leaves a run folder of
        its own inside the run folder, beside a common learning curve.
      target_return: stop when an evaluation's mean return reaches this (with several seeds: all of
        them).
      checkpoint_every_steps: environment steps between checkpoints; the newest three are kept.
      checkpoint_every_minutes: minutes after which there is a checkpoint in any case.
      init_from: begin with the parameters of another run: its folder, or a checkpoint.
      init_take: patterns of the parameters to take, by their paths in the network (* stands for any
        text, a module's path for all inside); by default all.
      init_freeze: patterns of the parameters that are not trained.
      profile: record where the time of one iteration goes, in the run folder's profile/, which
        Perfetto (ui.perfetto.dev) and TensorBoard open; for one seed.
      net: the network; for built-in ones.
      ppo: the algorithm.
      eval: evaluation by deterministic episodes.
      video: animations during training, in the run folder's videos/.
    """

    env: str = DEFAULT_ENV
    network: str = DEFAULT_NETWORK
    run_dir: Path | None = None
    resume_if_exists: bool = False
    total_steps: int | None = None
    seed: int = TrainConfig.seed
    seeds: int = 1
    target_return: float | None = None
    checkpoint_every_steps: int = TrainConfig.checkpoint_every_steps
    checkpoint_every_minutes: float | None = TrainConfig.checkpoint_every_minutes
    init_from: Path | None = None
    init_take: tuple[str, ...] = ("*",)
    init_freeze: tuple[str, ...] = ()
    profile: bool = False
    net: NetworkOptions = dataclasses.field(default_factory=NetworkOptions)
    ppo: PPOConfig = dataclasses.field(default_factory=PPOConfig)
    eval: EvalConfig = dataclasses.field(default_factory=EvalConfig)
    video: VideoConfig = dataclasses.field(default_factory=VideoConfig)

    def config(self) -> TrainConfig:
        """The training config that the flags make up."""
        ppo = self.ppo
        if self.total_steps is not None:
            ppo = dataclasses.replace(ppo, total_steps=self.total_steps)
        return TrainConfig(
            ppo=ppo,
            eval=self.eval,
            video=self.video,
            seed=self.seed,
            checkpoint_every_steps=self.checkpoint_every_steps,
            checkpoint_every_minutes=self.checkpoint_every_minutes,
            target_return=self.target_return,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalArguments:
    """Evaluate a run's newest checkpoint and print a table.

    Attributes:
      run: the run folder; or a checkpoint, or a folder of checkpoints.
      episodes: number of episodes, run in parallel.
      seed: seed of the initial states.
      max_episode_length: steps after which an episode is cut; by default as in training.
      deterministic: whether the network acts by its most likely action, or samples.
      best: evaluate the checkpoint with the best evaluation instead of the newest.
      trust: import code that the run's config names even if it lies outside the current folder.
      env: of a checkpoint that Python wrote, the environment.
      network: of a checkpoint that Python wrote, the network.
      net: of a checkpoint that Python wrote, options of a built-in network.
    """

    run: tyro.conf.Positional[Path]
    episodes: int = 100
    seed: int = 0
    max_episode_length: int | None = None
    deterministic: bool = True
    best: bool = False
    trust: bool = False
    env: str | None = None
    network: str | None = None
    net: NetworkOptions = dataclasses.field(default_factory=NetworkOptions)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResumeArguments:
    """Go on with a run from its newest checkpoint, as if it had not stopped.

    Attributes:
      run: the run folder.
      total_steps: train to this number of steps, counted from the run's beginning, instead of the
        number it was started with.
      allow_partial: load what fits of a checkpoint whose network, environment or config is not the
        one that is there now; what does not fit begins anew, and is named.
      trust: import code that the run's config names even if it lies outside the current folder.
    """

    run: tyro.conf.Positional[Path]
    total_steps: int | None = None
    allow_partial: bool = False
    trust: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnvsArguments:
    """List environments and networks."""


Arguments = TrainArguments | EvalArguments | ResumeArguments | EnvsArguments
COMMANDS = {
    "train": TrainArguments,
    "eval": EvalArguments,
    "resume": ResumeArguments,
    "envs": EnvsArguments,
}
_ANY = (
    Annotated[TrainArguments, tyro.conf.subcommand("train")]
    | Annotated[EvalArguments, tyro.conf.subcommand("eval")]
    | Annotated[ResumeArguments, tyro.conf.subcommand("resume")]
    | Annotated[EnvsArguments, tyro.conf.subcommand("envs")]
)
_REGISTRY = ConstructorRegistry()


@_REGISTRY.primitive_rule
def _flags(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """Reads `LOSSES,GRAD_NORM`; tyro alone takes one flag only."""
    if info.type is not LoggingLevel:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="NAME[,NAME...]",
        instance_from_str=lambda words: flag_from_text(LoggingLevel, words[0], "logging level"),
        is_instance=lambda value: isinstance(value, LoggingLevel),
        str_from_instance=lambda value: [flag_to_text(value)],
    )


@_REGISTRY.primitive_rule
def _number_not_schedule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """Reads a number where Python would take a schedule, too."""
    if info.type != (float | Schedule):
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="FLOAT",
        instance_from_str=lambda words: float(words[0]),
        is_instance=lambda value: isinstance(value, int | float),
        str_from_instance=lambda value: [str(value)],
    )


@_REGISTRY.primitive_rule
def _name_not_function(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """Reads one of the names where Python would take a function, too."""
    if info.type != (Literal["kernels", "all"] | DecayMask):
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="{kernels,all}",
        instance_from_str=lambda words: words[0],
        is_instance=lambda value: isinstance(value, str),
        str_from_instance=lambda value: [str(value)],
        choices=("kernels", "all"),
    )


def parse(words: list[str]) -> Arguments:
    """Reads the command line; errors and ``--help`` end the program as they do everywhere.

    Args:
      words: the words after the program's name.

    Raises:
      SystemExit: with 2 after an error, with 0 after help.
    """
    words = words or ["--help"]
    command = COMMANDS.get(words[0])
    if command is None:
        return tyro.cli(
            _ANY,  # type: ignore[arg-type]
            prog="nnx-ppo",
            description=DESCRIPTION,
            args=words,
            registry=_REGISTRY,
        )
    rest: dict[str, Any] = {"prog": f"nnx-ppo {words[0]}", "args": words[1:], "registry": _REGISTRY}
    if command is TrainArguments:
        return tyro.cli(TrainArguments, default=_train_defaults(words[1:]), **rest)
    return tyro.cli(command, **rest)


def _train_defaults(words: list[str]) -> TrainArguments:
    """The settings recommended for the environment and network that the words name."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--env", nargs="?", default=DEFAULT_ENV)
    first.add_argument("--network", nargs="?", default=DEFAULT_NETWORK)
    named, _ = first.parse_known_args(words)
    env, network = named.env or DEFAULT_ENV, named.network or DEFAULT_NETWORK
    config, options = recommended(env, network)
    return TrainArguments(
        env=env,
        network=network,
        seed=config.seed,
        checkpoint_every_steps=config.checkpoint_every_steps,
        checkpoint_every_minutes=config.checkpoint_every_minutes,
        net=options,
        ppo=config.ppo,
        eval=config.eval,
        video=config.video,
    )
