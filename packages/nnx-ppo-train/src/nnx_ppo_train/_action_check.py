"""Whether the network's actions are those that the environment wants."""

from typing import Any

import jax
import jax.numpy as jnp
from nnx_stateful import PyTree

from ._action_kinds import ActionSpec, action_specs
from ._pairing import leaf_names


def check_actions(env: Any, actions: PyTree) -> None:
    """Compares actions, arrays or their shapes (B, ...), with what the environment says it wants.

    An environment without ``action_size`` says nothing. How many alternatives a discrete action
    was chosen from cannot be seen in it, so that is not compared.

    Raises:
      TypeError: if ``action_size`` is not of the form that ``action_kind`` wants.
      ValueError: if the actions differ in their names, or one in its dtype or shape.
    """
    wanted = action_specs(env)
    if wanted is None:
        return
    name = type(env).__name__
    specs, given = _by_path(wanted), _by_path(actions)
    if set(specs) != set(given):
        raise ValueError(
            f"{name}: the environment wants actions {leaf_names(wanted)}, the network gives "
            f"{leaf_names(actions)}; name the samplers of the action port like that"
        )
    for path, action in given.items():
        problem = _mismatch(specs[path], action)
        if problem:
            raise ValueError(f"{name}: action{path}: the environment wants {problem}")


def _mismatch(spec: ActionSpec, action: Any) -> str | None:
    """Says what is wrong with an action, or None."""
    rules = spec.rules
    if not any(jnp.issubdtype(action.dtype, dtype) for dtype in rules.dtypes):
        return f"{spec.kind} actions, the network gives dtype {action.dtype}; use {rules.sampler}"
    if action.shape[1:] == spec.shape:
        return None
    count = spec.shape[0] if spec.shape else "one"
    product = f"2 * {spec.size} = " if spec.kind == "continuous" else ""
    return (
        f"{count} per row, the network gives shape {action.shape}; the layer before a "
        f"{rules.sampler} has width {product}{spec.parameters}"
    )


def _by_path(tree: PyTree) -> dict[str, Any]:
    entries = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in entries}
