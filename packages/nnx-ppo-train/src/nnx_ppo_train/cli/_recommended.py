"""Recommended settings for environments and networks: the defaults of ``nnx-ppo train``.

To tune an environment, edit its row. Each row holds for the environments and networks that its two
patterns match (as shell wildcards); later rows win over earlier ones.
"""

import dataclasses
from fnmatch import fnmatchcase
from typing import Any

from .._config import TrainConfig
from .._logging_level import LoggingLevel
from ..presets import NetworkOptions

DEFAULT_ENV = "cartpole-positions"
DEFAULT_NETWORK = "graph"
LOGGED = (
    LoggingLevel.LOSSES
    | LoggingLevel.ACTOR_EXTRA
    | LoggingLevel.CRITIC_EXTRA
    | LoggingLevel.GRAD_NORM
    | LoggingLevel.THROUGHPUT
)
"""What tells how a training goes and costs next to nothing."""

ROWS: list[tuple[str, str, dict[str, Any]]] = [
    (
        "*",
        "*",
        {
            "ppo.n_envs": 256,
            "ppo.rollout_length": 32,
            "ppo.total_steps": 2_000_000,
            "ppo.gradient_clipping": 1.0,
            "ppo.logging_level": LOGGED,
            "eval.every_steps": 100_000,
            "checkpoint_every_steps": 250_000,
            "video.episode_length": 200,
        },
    ),
    (
        "cartpole*",
        "*",
        {
            "ppo.n_envs": 256,
            "ppo.rollout_length": 64,
            "ppo.total_steps": 8_000_000,
            "ppo.learning_rate_schedule": "linear",
            "eval.every_steps": 500_000,
            "eval.n_envs": 128,
            "eval.max_episode_length": 500,
            "checkpoint_every_steps": 2_000_000,
            "net.hidden_size": 32,
        },
    ),
    (
        "recall",
        "*",
        {
            "ppo.rollout_length": 18,
            "ppo.total_steps": 600_000,
            "ppo.learning_rate": 3e-3,
            "ppo.learning_rate_schedule": "linear",
            "eval.n_envs": 4096,
            "eval.max_episode_length": 10,
            "net.normalize_obs": False,
        },
    ),
    ("recall", "graph", {"net.delay": 5}),
    (
        "repeat-previous",
        "*",
        {
            "ppo.n_envs": 128,
            "ppo.total_steps": 600_000,
            "ppo.learning_rate": 5e-3,
            "ppo.learning_rate_schedule": "linear",
            "ppo.discounting_factor": 0.0,  # answers do not change what comes
            "ppo.n_minibatches": 8,
            "eval.n_envs": 256,
            "eval.max_episode_length": 32,
            "net.normalize_obs": False,
        },
    ),
    ("repeat-previous", "graph", {"net.delay": 4}),
    (
        "count-recall",
        "*",
        {
            "ppo.n_envs": 128,
            "ppo.rollout_length": 24,
            "ppo.total_steps": 600_000,
            "ppo.learning_rate": 5e-3,
            "ppo.learning_rate_schedule": "linear",
            "ppo.discounting_factor": 0.0,  # answers do not change what comes
            "ppo.n_minibatches": 8,
            "eval.n_envs": 256,
            "eval.max_episode_length": 24,
            "net.share": False,
            "net.normalize_obs": False,
        },
    ),
    ("point-mass", "*", {"eval.max_episode_length": 200}),
    ("body-chain", "*", {"eval.max_episode_length": 100}),
    (
        "*-limit",
        "*",
        {
            "ppo.total_steps": 500_000,
            "ppo.discounting_factor": 0.9,
            "eval.max_episode_length": 10,
        },
    ),
    (
        "constant-reward",
        "*",
        {
            "ppo.total_steps": 500_000,
            "ppo.discounting_factor": 0.9,
            "eval.max_episode_length": 10,
        },
    ),
    (
        "*-choice",
        "*",
        {
            "ppo.total_steps": 300_000,
            "ppo.learning_rate": 3e-3,
            "ppo.learning_rate_schedule": "linear",
            "ppo.discounting_factor": 0.5,
            "eval.max_episode_length": 10,
            "net.hidden_size": 32,
            "net.entropy_weight": 1e-3,
        },
    ),
    (
        "playground/*",
        "*",
        {
            "ppo.n_envs": 128,
            "ppo.total_steps": 5_000_000,
            "ppo.learning_rate_schedule": "linear",
            "eval.every_steps": 500_000,
            "eval.n_envs": 32,
            "eval.max_episode_length": 1_000,
            "checkpoint_every_steps": 500_000,
        },
    ),
]


def recommended(env: str, network: str) -> tuple[TrainConfig, NetworkOptions]:
    """Returns the settings for an environment and a network, by their names.

    Args:
      env: a name as ``--env`` takes it.
      network: a name as ``--network`` takes it.

    Example:
      >>> recommended("recall", "graph")[1].delay
      5
    """
    chosen: dict[str, Any] = {}
    for env_pattern, network_pattern, settings in ROWS:
        if fnmatchcase(env, env_pattern) and fnmatchcase(network, network_pattern):
            chosen |= settings
    config = TrainConfig()
    parts: dict[str, Any] = {}
    for part in ("ppo", "eval", "video"):
        parts[part] = dataclasses.replace(getattr(config, part), **_below(chosen, part))
    top = {name: value for name, value in chosen.items() if "." not in name}
    options = NetworkOptions(**_below(chosen, "net"))
    return dataclasses.replace(config, **parts, **top), options


def _below(settings: dict[str, Any], part: str) -> dict[str, Any]:
    prefix = f"{part}."
    return {k.removeprefix(prefix): v for k, v in settings.items() if k.startswith(prefix)}
