"""A condition on any row that stays one condition when many trainings run at once."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool


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
