"""Carry state: made in one place, reset in one place, compared in one place."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from ._output import PyTree, Steps
from ._validate import check_int


def initial_state(module: Steps, batch_size: int) -> PyTree:
    """Returns ``module.initialize_state(batch_size)``, checked and without weak types.

    Args:
      module: the network.
      batch_size: number of rows B.

    Returns:
      The carry state, every leaf a JAX array that leads with B.

    Raises:
      TypeError: if ``batch_size`` is no int.
      ValueError: if it is negative or above 2**31 - 1; if a leaf does not lead with B.

    Example:
      >>> from nnx_stateful import GRU
      >>> from flax import nnx
      >>> initial_state(GRU(2, 4, nnx.Rngs(0)), 3).shape
      (3, 4)
    """
    check_int("initial_state", "batch_size", batch_size, minimum=0, maximum=2**31 - 1)

    def strong(path: Any, leaf: Any) -> Array:
        leaf = jnp.asarray(leaf)
        if leaf.shape[:1] != (batch_size,):
            raise ValueError(
                f"{type(module).__name__}.initialize_state({batch_size}): expected every leaf "
                f"to lead with the batch axis ({batch_size}, ...), got shape {leaf.shape} at "
                f"{_name(path)}; build it with that leading axis, also where rows share a value"
            )
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf
        return jax.lax.convert_element_type(leaf, leaf.dtype)

    return jax.tree_util.tree_map_with_path(strong, module.initialize_state(batch_size))


def reset_rows(
    module: Steps, state: PyTree, done: Bool[Array, "B"], previous: PyTree = None
) -> PyTree:
    """Resets the carry state of the rows whose episode has ended: the one reset there is.

    Args:
      module: the network whose ``reset_state`` says what a fresh row looks like.
      state: carry state, leaves (B, ...).
      done: (B,), true (or nonzero) where the row is reset.
      previous: carry state that ``reset_state`` sees, if another than ``state``: one without NaN.

    Returns:
      The carry state in which the done rows are fresh and the others untouched.

    Raises:
      ValueError: if ``reset_state`` fails on one row, or changes the tree, a shape or a dtype.
    """
    if not jax.tree.leaves(state):
        return state

    def fresh_row(row: PyTree) -> PyTree:
        where = f"{type(module).__name__}.reset_state"
        try:
            fresh = module.reset_state(row)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            shapes = jax.tree.map(jnp.shape, row)
            raise ValueError(
                f"{where}: expected the state of a fresh row, got {type(error).__name__} "
                f"({error}) for a row of shapes {shapes}; {_RESET_HINT}"
            ) from error
        check_same_state(row, fresh, where, _RESET_HINT)
        return jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), fresh, row)

    seen = state if previous is None else previous
    return select_rows(done, jax.vmap(fresh_row)(seen), state)


def select_rows(mask: Bool[Array, "B"], on_true: PyTree, on_false: PyTree) -> PyTree:
    """Picks whole rows: leaves (B, ...) of ``on_true`` where ``mask`` is set, else of the other."""
    mask = mask.astype(bool)

    def pick(new: Array, old: Array) -> Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (old.ndim - 1)), new, old)

    return jax.tree.map(pick, on_true, on_false)


def check_same_state(expected: PyTree, got: PyTree, where: str, hint: str) -> None:
    """Raises ValueError unless both trees agree in structure, shapes and dtypes.

    Args:
      expected: the state as it went in.
      got: the state as it came out.
      where: who made ``got``; begins the message.
      hint: what to do about it; ends the message.
    """
    expected_tree, got_tree = jax.tree.structure(expected), jax.tree.structure(got)
    if expected_tree != got_tree:
        raise ValueError(f"{where}: {_difference(expected, got)}; {hint}")
    pairs = zip(jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(got), strict=True)
    for (path, old), new in pairs:
        old_type, new_type = _shape_dtype(old), _shape_dtype(new)
        if old_type != new_type:
            raise ValueError(
                f"{where}: expected shape {old_type[0]} and dtype {old_type[1]} at "
                f"{_name(path)}, got {new_type[0]} and {new_type[1]}; {hint}"
            )


def _difference(expected: PyTree, got: PyTree) -> str:
    """Says which leaves two trees of different structure do not share."""
    wanted, found = (
        [_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
        for tree in (expected, got)
    )
    missing = [name for name in wanted if name not in found]
    extra = [name for name in found if name not in wanted]
    if not missing and not extra:  # other kinds of nodes
        return (
            f"expected a state of structure {jax.tree.structure(expected)}, "
            f"got {jax.tree.structure(got)}"
        )
    return (
        "expected a state of structure as it went in, got one that misses "
        f"{', '.join(missing) or 'nothing'} and has extra {', '.join(extra) or 'nothing'}"
    )


def _shape_dtype(leaf: Any) -> tuple[tuple[int, ...], str]:
    known = isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)
    typed = leaf if known else jax.eval_shape(lambda: leaf)  # which takes milliseconds
    return tuple(typed.shape), str(typed.dtype)


def _name(path: Any) -> str:
    return f"state{jax.tree_util.keystr(path)}"


_RESET_HINT = (
    "reset_state sees one row (no batch axis, it runs under vmap) and must return the same tree "
    "and shapes, for example jax.tree.map(jnp.zeros_like, prev_state)"
)
