"""The network's actions in the form that the environment takes."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from nnx_stateful import PyTree


def for_environment(env: Any, env_state: Any, actions: PyTree) -> PyTree:
    """Returns ``actions``, or their one entry where the environment takes a bare array.

    Args:
      env: the environment; its ``action_size`` decides if it has one, else a shape evaluation
        of its step.
      env_state: states or their shapes, leaves (B, ...).
      actions: the network's action tree, leaves (B, ...).
    """
    if not isinstance(actions, dict) or len(jax.tree.leaves(actions)) != 1:
        return actions
    size = getattr(env, "action_size", None)
    if isinstance(size, Mapping):
        return actions
    (leaf,) = jax.tree.leaves(actions)
    if isinstance(size, int | np.integer | tuple | list):
        return leaf
    return actions if steps_with(env, env_state, actions) is None else leaf


def steps_with(env: Any, env_state: Any, actions: PyTree) -> Exception | None:
    """Returns None if the environment can step with these actions, else why it cannot."""
    try:
        jax.eval_shape(jax.vmap(env.step), env_state, actions)
    except Exception as error:
        return error
    return None
