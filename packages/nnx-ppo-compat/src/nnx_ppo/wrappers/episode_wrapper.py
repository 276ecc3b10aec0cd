"""EpisodeWrapper, which calls its limit ``max_len``."""

from typing import Any

import nnx_ppo_train

__all__ = ["EpisodeWrapper"]


class EpisodeWrapper(nnx_ppo_train.EpisodeWrapper):
    """As :class:`nnx_ppo_train.EpisodeWrapper`; ``max_len`` is its ``episode_length``.

    Every episode may last the whole ``max_len``; the count starts at 0 and is in
    ``info["steps"]``.

    Example:
      >>> from nnx_ppo_train import make_env
      >>> EpisodeWrapper(make_env("cartpole"), max_len=100).max_len
      100
    """

    def __init__(self, env: Any, max_len: int):
        super().__init__(env, max_len)
        self.max_len = max_len
