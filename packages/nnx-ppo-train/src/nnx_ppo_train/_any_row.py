"""Conditions on any row that stay one condition when many trainings run at once."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool
from nnx_stateful import PyTree


@jax.custom_batching.custom_vmap
def any_row(mask: Bool[Array, "*rows"]) -> Bool[Array, ""]:
    """Whether any entry is set; under ``vmap`` whether any is, in any element of the batch.

    ``lax.cond`` on a condition that differs between elements runs both branches under ``vmap``;
    on this one it stays a ``cond``, and work that no element needs is skipped. What is computed
    must therefore be selected by the element's own mask.
    """
    return jnp.any(mask)


@any_row.def_vmap
def _any_row_of_any(
    axis_size: int, in_batched: list[bool], mask: Bool[Array, "*rows"]
) -> tuple[Bool[Array, ""], bool]:
    del axis_size, in_batched
    return any_row(mask), False


@jax.custom_batching.custom_vmap
def where_met(condition: Bool[Array, ""], computed: PyTree, otherwise: PyTree) -> PyTree:
    """What was computed because ``any_row(condition)`` holds, for whom it holds.

    Alone, the branch of a ``cond`` is taken only where the condition holds, so nothing is selected;
    under ``vmap`` elements that do not meet it get ``otherwise``.
    """
    del condition, otherwise
    return computed


@where_met.def_vmap
def _where_met_by_some(
    axis_size: int, in_batched: list[PyTree], *arguments: PyTree
) -> tuple[PyTree, PyTree]:
    axes = jax.tree.map(lambda batched: 0 if batched else None, tuple(in_batched))

    def select(condition: Array, computed: PyTree, otherwise: PyTree) -> PyTree:
        return jax.tree.map(lambda a, b: jnp.where(condition, a, b), computed, otherwise)

    chosen = jax.vmap(select, in_axes=axes, axis_size=axis_size)(*arguments)
    return chosen, jax.tree.map(lambda _: True, chosen)
