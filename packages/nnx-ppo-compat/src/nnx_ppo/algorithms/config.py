"""Configurations, with the published spellings of weight decay."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

import nnx_ppo_train
from nnx_ppo_train import EvalConfig, TrainConfig, TrainResult, VideoConfig, VideoData

__all__ = ["EvalConfig", "PPOConfig", "TrainConfig", "TrainResult", "VideoConfig", "VideoData"]

DEFAULT_WEIGHT_DECAY = 1e-4
"""What ``weight_decay=True`` stands for: the default of ``optax.adamw``."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PPOConfig(nnx_ppo_train.PPOConfig):
    """As :class:`nnx_ppo_train.PPOConfig`, with the published defaults.

    ``weight_decay`` may be a bool or 0: True stands for the default of ``optax.adamw``, False and 0
    for none. As published, every parameter decays. ``normalize_values=True`` makes training
    independent of the unit of rewards.

    Example:
      >>> PPOConfig(weight_decay=True).weight_decay, PPOConfig(weight_decay=0.0).weight_decay
      (0.0001, None)
    """

    n_envs: int = 256
    rollout_length: int = 20
    total_steps: int = 512_000
    gae_lambda: float = 0.95
    discounting_factor: float | Mapping[str, float] = 0.99
    clip_range: float = 0.2
    learning_rate: float | Callable[[Any], Any] = 1e-4
    normalize_advantages: bool = True
    combine_advantages: bool = False
    n_epochs: int = 4
    n_minibatches: int = 4
    critic_loss_weight: float = 1.0
    gradient_clipping: float | None = None
    recompute_advantages: bool = True
    normalize_values: bool = False
    weight_decay_mask: Literal["kernels", "all"] | Callable[[str], bool] = "all"

    def __post_init__(self) -> None:
        decay = DEFAULT_WEIGHT_DECAY if self.weight_decay is True else self.weight_decay or None
        object.__setattr__(self, "weight_decay", decay)
        super().__post_init__()
