"""Configurations, with the published spellings of weight decay."""

import dataclasses
from collections.abc import Callable
from typing import Literal

import nnx_ppo_train
from nnx_ppo_train import EvalConfig, TrainConfig, TrainResult, VideoConfig, VideoData

__all__ = ["EvalConfig", "PPOConfig", "TrainConfig", "TrainResult", "VideoConfig", "VideoData"]

DEFAULT_WEIGHT_DECAY = 1e-4
"""What ``weight_decay=True`` stands for: the default of ``optax.adamw``."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PPOConfig(nnx_ppo_train.PPOConfig):
    """As :class:`nnx_ppo_train.PPOConfig`; ``weight_decay`` may be a bool or 0.

    True stands for the default of ``optax.adamw``, False and 0 for none. As published, every
    parameter decays.

    Example:
      >>> PPOConfig(weight_decay=True).weight_decay, PPOConfig(weight_decay=0.0).weight_decay
      (0.0001, None)
    """

    weight_decay_mask: Literal["kernels", "all"] | Callable[[str], bool] = "all"

    def __post_init__(self) -> None:
        decay = DEFAULT_WEIGHT_DECAY if self.weight_decay is True else self.weight_decay or None
        object.__setattr__(self, "weight_decay", decay)
        super().__post_init__()
