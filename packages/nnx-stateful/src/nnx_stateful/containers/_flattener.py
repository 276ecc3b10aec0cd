"""Flattener: trees of arrays to flat feature vectors."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from .._output import PyTree
from .._validate import check_int
from ._stateless import Stateless


class Flattener(Stateless):
    """Flattens a tree of arrays (B, ...) into one array (B, F), in the tree's leaf order.

    Args:
      preserve_levels: how many levels of dict, list or tuple to keep; below them everything is
        flattened into one array each.

    Raises:
      ValueError: if ``preserve_levels`` is negative, or the input has no arrays.
      TypeError: if ``preserve_levels`` is no int; on call, if a level to keep is an array already.

    Example:
      >>> import jax.numpy as jnp
      >>> x = {"eye": jnp.ones((2, 3, 3)), "skin": {"left": jnp.ones((2, 4))}}
      >>> Flattener()((), x).output.shape
      (2, 13)
      >>> {k: v.shape for k, v in Flattener(preserve_levels=1)((), x).output.items()}
      {'eye': (2, 9), 'skin': (2, 4)}
    """

    def __init__(self, preserve_levels: int = 0):
        check_int("Flattener", "preserve_levels", preserve_levels, minimum=0)
        self.preserve_levels = preserve_levels

    def transform(self, x: PyTree) -> PyTree:
        return _flatten(x, self.preserve_levels)


def _flatten(x: PyTree, levels: int) -> PyTree:
    if levels == 0:
        leaves = jax.tree.leaves(x)
        if not leaves:
            raise ValueError("Flattener: expected at least one array to flatten, got none")
        return jnp.concatenate([leaf.reshape((leaf.shape[0], -1)) for leaf in leaves], axis=-1)
    if isinstance(x, Mapping):
        return {key: _flatten(value, levels - 1) for key, value in x.items()}
    if isinstance(x, list | tuple):
        entries = [_flatten(value, levels - 1) for value in x]
        return type(x)(*entries) if hasattr(x, "_fields") else type(x)(entries)
    raise TypeError(
        f"Flattener: expected {levels} more level(s) of dict, list or tuple to keep, got "
        f"{type(x).__name__}; lower preserve_levels"
    )
