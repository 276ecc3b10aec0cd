"""The tasks and settings of `memory.py`, for both libraries."""

from typing import Any

from jax.nn.initializers import variance_scaling
from nnx_ppo_train.envs import make_env

TASKS: dict[str, dict[str, Any]] = {
    "repeat-previous": {"n_suits": 4, "delay": 4, "deck_size": 32},
    "count-recall": {"n_values": 2, "n_copies": 12},
}
"""Options of each task's environment."""

HIDDEN = 64
ENTROPY_WEIGHT = 1e-2
READOUT_INIT = variance_scaling(0.01, "fan_in", "truncated_normal")  # of the action read-out
GRADIENT_NORM = 1.0

SETTINGS: dict[str, Any] = {
    "n_envs": 128,
    "rollout_length": 32,
    "total_steps": 300_000,
    "learning_rate": 5e-3,  # falls linearly to 0
    "discounting_factor": 0.0,  # answers do not change what comes
    "gae_lambda": 0.95,
    "n_epochs": 4,
    "n_minibatches": 8,
    "clip_range": 0.2,
}


def make_task(name: str) -> Any:
    """The environment of a task."""
    return make_env(name, **TASKS[name])


def settings(task: str, n_steps: int | None) -> dict[str, Any]:
    """The settings for a task: rollouts are whole episodes."""
    steps = {} if n_steps is None else {"total_steps": n_steps}
    return SETTINGS | {"rollout_length": make_task(task).episode_length} | steps
