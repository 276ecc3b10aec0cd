"""Checks on the inputs of layers, and the plain form of input trees."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._output import PyTree


def check_features(module: Any, x: Array, features: int) -> None:
    """Raises unless ``x`` is an array of real numbers with that many features.

    Raises:
      TypeError: if it is no array, or complex.
      ValueError: if it has another number of features.
    """
    if not hasattr(x, "ndim"):
        entries = f" with entries {sorted(map(str, x))}" if isinstance(x, Mapping) else ""
        raise TypeError(
            f"{type(module).__name__}: expected an array with {features} features (..., "
            f"{features}), got {type(x).__name__}{entries}; put a Flattener() before it, or pick "
            "an entry with a Filter or a Map"
        )
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(
            f"{type(module).__name__}: expected an input of real numbers, got dtype {x.dtype}; "
            "pass real and imaginary part as features of their own"
        )
    if x.ndim < 1 or x.shape[-1] != features:
        raise ValueError(
            f"{type(module).__name__}: expected an input with {features} features (..., "
            f"{features}), got shape {tuple(x.shape)}; change the size given to the constructor "
            "or the layer before it"
        )


def canonical(tree: PyTree) -> PyTree:
    """Returns the tree with every mapping (FrozenDict, OrderedDict, ...) made a plain dict.

    JAX treats each kind of mapping as a node type of its own, so that a tree of statistics built
    from one could not be combined with an input of another. Leaves stay the same objects.
    """
    if isinstance(tree, Mapping):
        return {key: canonical(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [canonical(value) for value in tree]
    if isinstance(tree, tuple):
        entries = [canonical(value) for value in tree]
        return type(tree)(*entries) if hasattr(tree, "_fields") else tuple(entries)
    return tree


def match_input(kind: str, expected: PyTree, x: PyTree, lead: int = 1) -> PyTree:
    """Returns ``x`` in plain form after comparing it, leaf by leaf, with what is expected.

    Args:
      kind: name of the module, for messages.
      expected: a plain tree whose leaves have the shape of one row.
      x: the input.
      lead: number of leading axes of the input's leaves: 1 for (B, ...), 2 for (T, B, ...).

    Raises:
      ValueError: if an entry is missing, left over, or of another shape; the message names its
        path and both shapes.
    """
    x = canonical(x)
    wanted = _by_path(expected)
    found = _by_path(x)
    for path, leaf in wanted.items():
        if path not in found:
            raise ValueError(
                f"{kind}: input has no entry {path}; it has {sorted(found) or 'nothing'}, and "
                f"{kind} was built for {sorted(wanted)}"
            )
        got = tuple(found[path].shape)
        if len(got) < lead or got[lead:] != tuple(leaf.shape):
            axes = "T, B"[3 * (2 - lead) :]
            sizes = ", ".join(map(str, leaf.shape))
            raise ValueError(
                f"{kind}: expected shape ({axes}{', ' if sizes else ''}{sizes}) at {path}, got "
                f"{got}; change the sizes given to the constructor or the input"
            )
    for path in found:
        if path not in wanted:
            raise ValueError(
                f"{kind}: input has an entry {path} that {kind} was not built for; it was built "
                f"for {sorted(wanted)}. Put a Filter before it, or name the entry in the "
                "constructor"
            )
    return jax.tree.unflatten(jax.tree.structure(expected), [found[path] for path in wanted])


def _by_path(tree: PyTree) -> dict[str, Any]:
    entries = jax.tree_util.tree_leaves_with_path(tree)
    return {f"input{jax.tree_util.keystr(path)}": leaf for path, leaf in entries}
