"""Which steps of a rollout count for running statistics."""

import contextlib
import contextvars
from collections.abc import Iterator

import jax.numpy as jnp
from jaxtyping import Array, Bool

_mask: contextvars.ContextVar[Bool[Array, "T B"] | None] = contextvars.ContextVar(
    "mask", default=None
)


@contextlib.contextmanager
def counting_only(mask: Bool[Array, "T B"]) -> Iterator[None]:
    """Makes ``update_statistics`` leave out the steps that ``mask`` does not set.

    The extras of a rollout keep their shape (T, B, ...) whatever is left out, also under jit; a
    module with running statistics asks :func:`counted_steps` what to count.

    Args:
      mask: (T, B), true where the step of the row counts.

    Example:
      >>> import jax.numpy as jnp
      >>> from nnx_stateful import Normalizer
      >>> norm = Normalizer(1)
      >>> with counting_only(jnp.array([[True, False], [True, False]])):
      ...     norm.update_statistics(jnp.array([[[1.0], [9.0]], [[3.0], [9.0]]]))
      >>> norm.sample_count, norm.mean[...].tolist()
      (2, [2.0])
    """
    token = _mask.set(mask)
    try:
        yield
    finally:
        _mask.reset(token)


def counted_steps() -> Bool[Array, "T B"] | None:
    """Returns the mask of the :func:`counting_only` around the call; None if all steps count."""
    return _mask.get()


def counting_repeated(times: int, axis: int) -> contextlib.AbstractContextManager[None]:
    """Fits the mask of :func:`counting_only` to extras with ``times`` entries for each one of it.

    Args:
      times: how many steps, or rows, a child is given for one of the rollout.
      axis: 0 for steps, 1 for rows.
    """
    mask = counted_steps()
    if mask is None:
        return contextlib.nullcontext()
    return counting_only(jnp.repeat(mask, times, axis))
