"""Values that are not finite: found by row, replaced, counted, and told."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool
from nnx_stateful import PyTree

LARGEST = 1e15
"""Largest magnitude of an observation, reward or network output that counts as finite: the squares
of larger ones, summed up by a Normalizer or a value loss, overflow in float32."""

PATIENCE = 10
"""Iterations without an applied update after which training ends."""

SAMPLES = "nonfinite/samples"
"""Metric: samples of an iteration that were left out."""

KINDS = ("observation", "carry", "output", "reward")
"""Kinds of values that are checked in every step of a rollout, in the order of the report."""


class NonFiniteError(ArithmeticError):
    """Training met values that are not finite: the first one, or ten iterations of nothing else.

    It is raised once the state was saved; the network that was trained holds the last finite
    parameters.

    Attributes:
      result: the TrainResult or ManyResult of what was trained before; None if there is none.
    """

    result: Any = None


def is_usable(x: Array) -> Bool[Array, "..."]:
    """Returns where values are finite and of a magnitude of at most ``LARGEST``.

    Example:
      >>> is_usable(jnp.array([1.0, jnp.nan, jnp.inf, 1e25])).tolist()
      [True, False, False, False]
    """
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return jnp.ones(x.shape, bool)
    if float(jnp.finfo(x.dtype).max) < LARGEST:  # float16, in which the bound would be infinite
        return jnp.isfinite(x)
    return jnp.abs(x) <= LARGEST  # false for NaN


def unusable_rows(tree: PyTree, n_rows: int) -> Bool[Array, " B"]:
    """Returns the rows in which any leaf (B, ...) has a value that is not usable."""
    return _any_row_of(tree, n_rows, lambda leaf: ~is_usable(leaf))


def nonfinite_rows(tree: PyTree, n_rows: int) -> Bool[Array, " B"]:
    """Returns the rows in which any leaf (B, ...) has NaN or infinity; large values pass."""
    return _any_row_of(tree, n_rows, lambda leaf: ~jnp.isfinite(leaf))


def without_unusable(tree: PyTree) -> PyTree:
    """Replaces every value that is not usable by zero."""
    return jax.tree.map(
        lambda leaf: jnp.where(is_usable(leaf), leaf, 0) if _has_floats(leaf) else leaf, tree
    )


def finite_in_rows(tree: PyTree, rows: Bool[Array, " B"]) -> PyTree:
    """Replaces NaN and infinity by zero in the given rows of leaves (B, ...)."""

    def cleaned(leaf: Array) -> Array:
        if not _has_floats(leaf):
            return leaf
        return jnp.where(_over_row(rows, leaf) & ~jnp.isfinite(leaf), 0, leaf)

    return jax.tree.map(cleaned, tree)


def zero_in_rows(tree: PyTree, rows: Bool[Array, " B"]) -> PyTree:
    """Replaces whole rows of the floating leaves (B, ...) by zeros."""
    return jax.tree.map(
        lambda leaf: jnp.where(_over_row(rows, leaf), 0, leaf) if _has_floats(leaf) else leaf, tree
    )


def all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Returns whether no leaf has NaN or infinity."""
    found = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree) if _has_floats(leaf)]
    return jnp.all(jnp.stack(found)) if found else jnp.ones((), bool)


def unless_newly_nonfinite(new: PyTree, old: PyTree) -> tuple[PyTree, Bool[Array, ""]]:
    """Returns ``new``, or ``old`` if a leaf that was finite there is no longer, and which it is.

    A leaf that holds infinity on purpose, such as the start of a running minimum, may keep it.
    """
    pairs = zip(jax.tree.leaves(new), jax.tree.leaves(old), strict=True)
    lost = [all_finite(before) & ~all_finite(after) for after, before in pairs]
    kept = ~jnp.any(jnp.stack(lost)) if lost else jnp.ones((), bool)
    return jax.tree.map(lambda a, b: jnp.where(kept, a, b), new, old), kept


def flags_by_leaf(tree: PyTree, n_rows: int, large: bool = True) -> dict[str, Bool[Array, " B"]]:
    """Returns for each floating leaf (B, ...), by its path, the rows that are not finite.

    Args:
      tree: leaves (B, ...).
      n_rows: B.
      large: whether a magnitude above ``LARGEST`` counts too.
    """
    rows = unusable_rows if large else nonfinite_rows
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): rows(leaf, n_rows)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
        if _has_floats(leaf)
    }


def _any_row_of(tree: PyTree, n_rows: int, is_bad: Any) -> Bool[Array, " B"]:
    found = jnp.zeros(n_rows, bool)
    for leaf in jax.tree.leaves(tree):
        if _has_floats(leaf) and leaf.ndim and leaf.size:
            found = found | jnp.any(is_bad(leaf).reshape(n_rows, -1), axis=1)
        elif _has_floats(leaf) and leaf.size:
            found = found | is_bad(leaf)
    return found


def _over_row(rows: Bool[Array, " B"], leaf: Array) -> Array:
    return rows.reshape(rows.shape + (1,) * (leaf.ndim - rows.ndim))


def _has_floats(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)
