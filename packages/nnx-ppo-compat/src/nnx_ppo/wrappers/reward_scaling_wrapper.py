"""RewardScalingWrapper, which calls its factor ``reward_scale``."""

from typing import Any

import nnx_ppo_train

__all__ = ["RewardScalingWrapper"]


class RewardScalingWrapper(nnx_ppo_train.RewardScalingWrapper):
    """As :class:`nnx_ppo_train.RewardScalingWrapper`; ``reward_scale`` is its ``scale``.

    Example:
      >>> from nnx_ppo_train import make_env
      >>> RewardScalingWrapper(make_env("cartpole"), reward_scale=0.1).reward_scale
      0.1
    """

    def __init__(self, env: Any, reward_scale: float):
        super().__init__(env, reward_scale)
        self.reward_scale = self.scale
