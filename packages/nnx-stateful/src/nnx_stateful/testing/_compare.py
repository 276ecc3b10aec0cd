"""Comparisons of trees that say which leaf differs, and how."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._noise import NoiseState
from .._output import PyTree

EXACT = (0.0, 0.0)
"""Tolerances (relative, absolute) of a comparison bit for bit."""


class BrokenLawError(AssertionError):
    """A stateful module breaks a law; the message names the law, the module and the leaf."""


def assert_same_types(what: str, expected: PyTree, got: PyTree) -> None:
    """Raises BrokenLawError unless both trees agree in structure, shapes and dtypes."""
    wanted, found = jax.tree.structure(expected), jax.tree.structure(got)
    if wanted != found:
        raise BrokenLawError(f"{what}: expected structure {wanted}, got {found}")
    pairs = zip(jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(got), strict=True)
    for (path, old), new in pairs:
        name = f"{what}{jax.tree_util.keystr(path)}"
        if jnp.shape(old) != jnp.shape(new):
            raise BrokenLawError(f"{name}: expected shape {jnp.shape(old)}, got {jnp.shape(new)}")
        if jnp.asarray(old).dtype != jnp.asarray(new).dtype:
            raise BrokenLawError(
                f"{name}: expected dtype {jnp.asarray(old).dtype}, got {jnp.asarray(new).dtype}"
            )


def assert_close(
    what: str, expected: PyTree, got: PyTree, tolerance: tuple[float, float] = EXACT
) -> None:
    """Raises BrokenLawError unless both trees agree in structure, shapes and values.

    Args:
      what: name of the trees; leaf paths are appended to it.
      expected: the tree as it should be.
      got: the tree as it is.
      tolerance: relative and absolute, for floats; everything else must be equal. NaN equals
        nothing, not even NaN: what is NaN on both sides has not been shown to agree.
    """
    wanted, found = jax.tree.structure(expected), jax.tree.structure(got)
    if wanted != found:
        raise BrokenLawError(f"{what}: expected structure {wanted}, got {found}")
    pairs = zip(jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(got), strict=True)
    for (path, old), new in pairs:
        _assert_leaf_close(f"{what}{jax.tree_util.keystr(path)}", old, new, tolerance)


def _assert_leaf_close(name: str, old: Any, new: Any, tolerance: tuple[float, float]) -> None:
    old, new = to_numpy(old), to_numpy(new)
    if old.shape != new.shape:
        raise BrokenLawError(f"{name}: expected shape {old.shape}, got {new.shape}")
    if np.issubdtype(old.dtype, np.inexact):
        same = np.isclose(new, old, rtol=tolerance[0], atol=tolerance[1])
    else:
        same = new == old
    if not np.all(same):
        where = tuple(int(i) for i in np.argwhere(~same)[0])
        raise BrokenLawError(
            f"{name}: expected {old[where]}, got {new[where]} at index {where} "
            f"({int(np.sum(~same))} of {same.size} values differ)"
        )


def to_numpy(leaf: Any) -> np.ndarray:
    """Returns the values of an array or scalar; of typed keys, their bits."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    leaf = np.asarray(leaf)
    return leaf.astype(np.float32) if leaf.dtype == jnp.bfloat16 else leaf


def without_noise(state: PyTree) -> PyTree:
    """Returns the carry state with every NoiseState taken out."""

    def is_noise(node: Any) -> bool:
        return isinstance(node, NoiseState)

    return jax.tree.map(lambda node: () if is_noise(node) else node, state, is_leaf=is_noise)
