"""Configs of a whole training run: frozen records that validate themselves."""

import dataclasses
from typing import Any, Literal

from ._logging_level import LoggingLevel, check_logging
from ._ppo_config import PPOConfig
from ._validate import boolean, instance, number, one_of, whole_number

LARGEST_SEED = 2**32 - 1
"""JAX reads the lower 32 bits of a seed and no more; a larger one would repeat a smaller one."""
LARGEST_LENGTH = 2**31 - 1
"""Steps that an int32 can count."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """Evaluation: whole episodes beside the training.

    Attributes:
      enabled: whether to evaluate at all.
      every_steps: environment steps between evaluations; there is one at the start and the end.
      n_envs: episodes per evaluation.
      max_episode_length: steps after which an episode is cut.
      seeds: "fixed": the same initial states every time, so that two evaluations differ by the
        network alone. "fresh": new ones every time.
      deterministic: whether stochastic layers act by mode or mean; False lets them draw.
      logging_level: ENV_METRICS and NETWORK_METRICS add their averages over the episodes.
      logging_percentiles: percentiles of return and length to report, or None.
      group_by: key of the environment's ``info`` whose value at the start of an episode, an int,
        is the index of the episode's group; None for no groups.
      group_names: names of the groups; each gets metrics ``eval/NAME/...`` of its own.
    """

    enabled: bool = True
    every_steps: int = 50_000
    n_envs: int = 64
    max_episode_length: int = 1000
    seeds: Literal["fixed", "fresh"] = "fixed"
    deterministic: bool = True
    logging_level: LoggingLevel = LoggingLevel.NONE
    logging_percentiles: tuple[int, ...] | None = (0, 25, 50, 75, 100)
    group_by: str | None = None
    group_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("enabled", "deterministic"):
            boolean(self, name)
        for name in ("every_steps", "n_envs"):
            whole_number(self, name, at_least=1)
        whole_number(self, "max_episode_length", at_least=1, at_most=LARGEST_LENGTH)
        one_of(self, "seeds", ("fixed", "fresh"))
        check_logging(self)
        _check_groups(self)


_TAKEN = ("env", "net", "ends", "episode_reward", "lifespan", "nonfinite", "deterministic")
"""Names that may follow ``eval/`` in names of metrics."""


def _check_groups(config: EvalConfig) -> None:
    """Raises unless key and names of groups are both given or both left out."""
    instance(config, "group_by", str, "'terrain'", optional=True)
    names = config.group_names
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(
            "EvalConfig.group_names: expected a tuple of str, such as ('flat', 'stairs'), got "
            f"{names!r}"
        )
    if (config.group_by is None) != (not names):
        field = "group_names" if config.group_by is None else "group_by"
        raise ValueError(
            f"EvalConfig.{field}: expected a key of info together with group_names, a name for "
            f"each index, got {config.group_by!r} and {names!r}; give both, or neither"
        )
    odd = [name for name in names if not name or "/" in name or name in _TAKEN]
    if odd or len(set(names)) < len(names):
        raise ValueError(
            "EvalConfig.group_names: expected different names without '/' that are none of "
            f"{', '.join(_TAKEN)}, got {names!r}; rename "
            f"{', '.join(map(repr, odd)) or 'the double'}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class VideoConfig:
    """Rendering of episodes for ``video_fn``.

    Attributes:
      enabled: whether to render.
      every_steps: environment steps between videos.
      episode_length: steps to render.
      render_kwargs: keyword arguments of the environment's ``render``.
    """

    enabled: bool = False
    every_steps: int = 200_000
    episode_length: int = 1000
    render_kwargs: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {"height": 480, "width": 640}
    )

    def __post_init__(self) -> None:
        boolean(self, "enabled")
        for name in ("every_steps", "episode_length"):
            whole_number(self, name, at_least=1)
        instance(self, "render_kwargs", dict, "{'height': 480}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """A whole training run.

    Attributes:
      ppo: the algorithm.
      eval: evaluation.
      video: rendering.
      seed: the run's seed, in [0, 2**32): environments, noise, minibatches.
      checkpoint_every_steps: environment steps between calls of ``checkpoint_fn``; there is one
        at the start and the end.
      checkpoint_every_minutes: minutes of wall time after which ``checkpoint_fn`` is called in
        any case, or None.
      target_return: stop when an evaluation's mean return reaches this, or None.

    Example:
      >>> TrainConfig(ppo=PPOConfig(n_envs=64, total_steps=100_000)).ppo.n_envs
      64
    """

    ppo: PPOConfig = dataclasses.field(default_factory=PPOConfig)
    eval: EvalConfig = dataclasses.field(default_factory=EvalConfig)
    video: VideoConfig = dataclasses.field(default_factory=VideoConfig)
    seed: int = 17
    checkpoint_every_steps: int = 500_000
    checkpoint_every_minutes: float | None = 5.0
    target_return: float | None = None

    def __post_init__(self) -> None:
        instance(self, "ppo", PPOConfig, "PPOConfig(n_envs=64)")
        instance(self, "eval", EvalConfig, "EvalConfig(n_envs=8)")
        instance(self, "video", VideoConfig, "VideoConfig(enabled=True)")
        whole_number(self, "seed", at_least=0, at_most=LARGEST_SEED)
        whole_number(self, "checkpoint_every_steps", at_least=1)
        number(self, "checkpoint_every_minutes", above=0.0, optional=True)
        number(self, "target_return", optional=True)
        if self.target_return is not None and not self.eval.enabled:
            raise ValueError(
                "TrainConfig.target_return: expected None where eval.enabled=False (no evaluation "
                f"would reach it), got {self.target_return}; enable evaluation or leave it out"
            )
