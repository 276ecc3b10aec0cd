"""Running mean and variance, merged batch by batch, with an exact count."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, UInt

Count = UInt[Array, "2"]
"""A count below 2**64 as two 32-bit words, (high, low): exact, also where floats no longer are."""


def merge_moments(
    count: Count,
    mean: Float[Array, "*F"],
    m2: Float[Array, "*F"],
    values: Float[Array, "N *F"],
    counted: Bool[Array, " N"] | None = None,
) -> tuple[Float[Array, "*F"], Float[Array, "*F"]]:
    """Folds N further samples into a mean and a sum of squared deviations.

    With n samples of mean ``a`` and deviations ``M`` so far, and N new ones of mean ``b`` and
    deviations ``M'`` (Chan, Golub and LeVeque, 1979)::

        d     = b - a
        mean  = a + d * N / (n + N)
        M2    = M + M' + d^2 * n * N / (n + N)

    Args:
      count: the n samples folded in so far.
      mean: their mean.
      m2: their summed squared deviations from it.
      values: the new samples.
      counted: which of them to fold in; all if None.

    Returns:
      The mean and the squared deviations of all samples.

    Example:
      >>> count, zero = jnp.zeros(2, jnp.uint32), jnp.zeros(())
      >>> mean, m2 = merge_moments(count, zero, zero, jnp.array([1.0, 2.0, 3.0]))
      >>> float(mean), float(m2)
      (2.0, 2.0)
    """
    values = values.astype(mean.dtype)
    old = count_as_float(count, mean.dtype)
    if counted is None:
        new = jnp.asarray(values.shape[0], mean.dtype)
        kept = jnp.ones((), bool)
    else:
        new = jnp.sum(counted, dtype=mean.dtype)
        kept = counted.reshape((-1,) + (1,) * mean.ndim)
    fraction = new / jnp.maximum(old + new, 1)
    new_mean = jnp.sum(jnp.where(kept, values, 0), axis=0) / jnp.maximum(new, 1)
    new_m2 = jnp.sum(jnp.where(kept, jnp.square(values - new_mean), 0), axis=0)
    shift = new_mean - mean
    return mean + shift * fraction, m2 + new_m2 + jnp.square(shift) * (old * fraction)


def add_to_count(count: Count, new: int | UInt[Array, ""]) -> Count:
    """Returns the count plus ``new``, which is below 2**32.

    Example:
      >>> add_to_count(jnp.array([0, 2**32 - 1], jnp.uint32), 3).tolist()
      [1, 2]
    """
    high, low = count[0], count[1]
    total = low + jnp.asarray(new, jnp.uint32)
    return jnp.stack([high + (total < low).astype(jnp.uint32), total])


def count_as_float(count: Count, dtype: jnp.dtype) -> Float[Array, ""]:
    """Returns the count rounded to a float."""
    return count[0].astype(dtype) * 2.0**32 + count[1].astype(dtype)
