"""What `memory.py` trains: tasks, step budget and hyperparameters, the same for both libraries."""

import dataclasses
from collections.abc import Callable
from typing import Any

from nnx_ppo_train.envs import make_env

TASKS: dict[str, Callable[[], Any]] = {
    "repeat-previous": lambda: make_env("repeat-previous", n_suits=4, delay=4, deck_size=32),
    "count-recall": lambda: make_env("count-recall", n_values=2, n_copies=12),
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Hyperparameters of all runs.

    Attributes:
        n_envs: Environments side by side.
        rollout_length: Steps of each per iteration.
        hidden: Width of the encoder and of the memory.
        learning_rate: Of Adam at first; falls linearly to 0.
        discount: Per step.
        gae_lambda: Lambda.
        entropy_weight: Of the entropy bonus.
        n_epochs: Passes over each rollout.
        n_minibatches: Minibatches of each pass.
        gradient_clipping: Largest global gradient norm.
        clip_range: Of the likelihood ratio.
        eval_episodes: Episodes after training, by the most likely actions.
    """

    n_envs: int = 64
    rollout_length: int = 32
    hidden: int = 64
    learning_rate: float = 3e-3
    discount: float = 0.9
    gae_lambda: float = 0.95
    entropy_weight: float = 1e-2
    n_epochs: int = 4
    n_minibatches: int = 4
    gradient_clipping: float = 1.0
    clip_range: float = 0.2
    eval_episodes: int = 512


SETTINGS = Settings()
