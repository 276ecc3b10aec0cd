"""From a network's heads to what PPO reads."""

from nnx_ppo_train import PPOAdapter

__all__ = ["PPOAdapter"]
