"""Environments around environments: a limit on the length of episodes, and scaled rewards."""

from ._episode import EpisodeWrapper
from ._reward_scaling import RewardScalingWrapper

__all__ = ["EpisodeWrapper", "RewardScalingWrapper"]
