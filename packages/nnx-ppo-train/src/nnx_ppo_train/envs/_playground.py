"""Tasks of MuJoCo Playground, an optional extra; import this module only when one is wanted."""

import difflib
from typing import Any

import jax
from mujoco_playground import registry

from ..wrappers import EpisodeWrapper


def make_playground_env(task: str) -> Any:
    """Load a task of MuJoCo Playground, with its episode length as the time limit.

    On CPU it is loaded with MuJoCo's JAX implementation, which is many times faster there than
    its default.

    Args:
        task: Name in Playground's registry, such as `"CartpoleBalance"`.

    Returns:
        The environment, unbatched.

    Raises:
        ValueError: If there is no such task; the message has the nearest names.
    """
    if task not in registry.ALL_ENVS:
        near = difflib.get_close_matches(task, registry.ALL_ENVS, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ValueError(
            f"MuJoCo Playground has no task {task!r}{hint}"
            f" It has {len(registry.ALL_ENVS)}, from {registry.ALL_ENVS[0]!r} "
            f"to {registry.ALL_ENVS[-1]!r}"
        )
    config = registry.get_default_config(task)
    overrides = {"impl": "jax"} if jax.default_backend() == "cpu" and "impl" in config else None
    env = registry.load(task, config=config, config_overrides=overrides)
    return EpisodeWrapper(env, config.episode_length)
