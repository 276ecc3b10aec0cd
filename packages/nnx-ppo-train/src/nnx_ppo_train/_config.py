"""What a training run can be told: frozen records that validate themselves."""

import dataclasses
import enum
from typing import Any, Literal

from ._validate import boolean, instance, number, one_of, percentiles, whole_number

LARGEST_SEED = 2**32 - 1
"""JAX reads the lower 32 bits of a seed and no more; a larger one would repeat a smaller one."""


class LoggingLevel(enum.Flag):
    """Which groups of metrics are computed; combine them with ``|``."""

    NONE = 0
    LOSSES = enum.auto()
    CRITIC_EXTRA = enum.auto()
    ACTOR_EXTRA = enum.auto()
    ROLLOUT_STATS = enum.auto()
    ROLLOUT_OBS = enum.auto()
    ENV_METRICS = enum.auto()
    NETWORK_METRICS = enum.auto()
    GRAD_NORM = enum.auto()
    WEIGHTS = enum.auto()
    THROUGHPUT = enum.auto()
    BASIC = LOSSES
    ALL = (
        LOSSES
        | CRITIC_EXTRA
        | ACTOR_EXTRA
        | ROLLOUT_STATS
        | ENV_METRICS
        | NETWORK_METRICS
        | GRAD_NORM
        | WEIGHTS
        | THROUGHPUT
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """The algorithm.

    Attributes:
      n_envs: environments stepped in parallel, B.
      rollout_length: steps per environment and iteration, T.
      total_steps: environment steps to train for; the last iteration may overshoot.
      gae_lambda: lambda of generalised advantage estimation, in [0, 1].
      discounting_factor: discount per step, in [0, 1].
      clip_range: half-width of the interval around 1 to which the likelihood ratio is clipped.
      learning_rate: step size of Adam.
      learning_rate_schedule: "constant", or "linear": from ``learning_rate`` down to 0 at
        ``total_steps``.
      normalize_advantages: shift and scale advantages to mean 0, std 1 in each minibatch.
      combine_advantages: sum the advantages of all reward keys and train every action on the sum.
      n_epochs: passes over the rollout per iteration.
      n_minibatches: parts into which the environments are split per pass; divides ``n_envs``.
      critic_loss_weight: weight of the value loss.
      gradient_clipping: largest global gradient norm, or None.
      weight_decay: decoupled weight decay of AdamW, or None for Adam.
      logging_level: groups of metrics to compute.
      logging_percentiles: report distributions by these percentiles, or None for mean and std.
      truncation: what a time limit means. "bootstrap": the return goes on with the value of the
        last observation. "mask": the truncated step leaves the losses, the advantage statistics and
        the running statistics.
      env_resets: "pool": fresh states are made for all environments at once when needed and
        handed out one by one. "fresh": a reset of all environments at every step in which an
        episode ends.
    """

    n_envs: int = 256
    rollout_length: int = 20
    total_steps: int = 512_000
    gae_lambda: float = 0.95
    discounting_factor: float = 0.99
    clip_range: float = 0.2
    learning_rate: float = 1e-4
    normalize_advantages: bool = True
    combine_advantages: bool = False
    n_epochs: int = 4
    n_minibatches: int = 4
    critic_loss_weight: float = 1.0
    gradient_clipping: float | None = None
    weight_decay: float | None = None
    logging_level: LoggingLevel = LoggingLevel.LOSSES
    logging_percentiles: tuple[int, ...] | None = None
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    truncation: Literal["bootstrap", "mask"] = "bootstrap"
    env_resets: Literal["pool", "fresh"] = "pool"

    def __post_init__(self) -> None:
        for name in ("n_envs", "rollout_length", "total_steps", "n_epochs", "n_minibatches"):
            whole_number(self, name, at_least=1)
        for name in ("gae_lambda", "discounting_factor"):
            number(self, name, at_least=0.0, at_most=1.0)
        for name in ("clip_range", "learning_rate"):
            number(self, name, above=0.0)
        number(self, "critic_loss_weight", at_least=0.0)
        for name in ("gradient_clipping", "weight_decay"):
            number(self, name, above=0.0, optional=True)
        for name in ("normalize_advantages", "combine_advantages"):
            boolean(self, name)
        _check_logging(self)
        one_of(self, "learning_rate_schedule", ("constant", "linear"))
        one_of(self, "truncation", ("bootstrap", "mask"))
        one_of(self, "env_resets", ("pool", "fresh"))
        if self.n_envs % self.n_minibatches:
            nearest = max(1, round(self.n_envs / self.n_minibatches)) * self.n_minibatches
            raise ValueError(
                f"PPOConfig.n_envs: expected a multiple of n_minibatches={self.n_minibatches} "
                f"(minibatches split the environments), got {self.n_envs}; the nearest legal "
                f"value is {nearest}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """Evaluation: deterministic episodes beside the training.

    Attributes:
      enabled: whether to evaluate at all.
      every_steps: environment steps between evaluations; there is one at the start and the end.
      n_envs: episodes per evaluation.
      max_episode_length: steps after which an episode is cut.
      logging_level: ENV_METRICS and NETWORK_METRICS add their averages over the episodes.
      logging_percentiles: percentiles of return and length to report, or None.
    """

    enabled: bool = True
    every_steps: int = 50_000
    n_envs: int = 64
    max_episode_length: int = 1000
    logging_level: LoggingLevel = LoggingLevel.NONE
    logging_percentiles: tuple[int, ...] | None = (0, 25, 50, 75, 100)

    def __post_init__(self) -> None:
        boolean(self, "enabled")
        for name in ("every_steps", "n_envs", "max_episode_length"):
            whole_number(self, name, at_least=1)
        _check_logging(self)


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

    Example:
      >>> TrainConfig(ppo=PPOConfig(n_envs=64, total_steps=100_000)).ppo.n_envs
      64
    """

    ppo: PPOConfig = dataclasses.field(default_factory=PPOConfig)
    eval: EvalConfig = dataclasses.field(default_factory=EvalConfig)
    video: VideoConfig = dataclasses.field(default_factory=VideoConfig)
    seed: int = 17
    checkpoint_every_steps: int = 500_000

    def __post_init__(self) -> None:
        instance(self, "ppo", PPOConfig, "PPOConfig(n_envs=64)")
        instance(self, "eval", EvalConfig, "EvalConfig(n_envs=8)")
        instance(self, "video", VideoConfig, "VideoConfig(enabled=True)")
        whole_number(self, "seed", at_least=0, at_most=LARGEST_SEED)
        whole_number(self, "checkpoint_every_steps", at_least=1)


def _check_logging(config: PPOConfig | EvalConfig) -> None:
    instance(config, "logging_level", LoggingLevel, "LoggingLevel.BASIC")
    percentiles(config, "logging_percentiles")
