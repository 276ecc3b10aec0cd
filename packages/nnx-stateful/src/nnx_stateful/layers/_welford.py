"""Running mean and variance, merged batch by batch, with an exact count.

Sums of many samples outgrow one float: at 7e10 samples a float32 sum of squares rounds what a
rollout of 1e5 adds by up to 4 %, at 2e12 it rounds it away. So mean and squared deviations are each
the sum of two floats, the second one what the first has no digits for: 48 bits in float32.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, UInt

Count = UInt[Array, "2"]
"""A count below 2**64 as two 32-bit words, (high, low): exact, also where floats no longer are."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Moments:
    """Mean and summed squared deviations of the samples so far, each the sum of two floats.

    Attributes:
      mean: the mean, rounded.
      mean_low: what it lacks.
      m2: the summed squared deviations from the mean, rounded.
      m2_low: what they lack.
    """

    mean: Float[Array, "*F"]
    mean_low: Float[Array, "*F"]
    m2: Float[Array, "*F"]
    m2_low: Float[Array, "*F"]


def merge_moments(
    count: Count,
    moments: Moments,
    values: Float[Array, "N *F"],
    counted: Bool[Array, " N"] | None = None,
) -> Moments:
    """Folds N further samples into a mean and a sum of squared deviations.

    With n samples of mean ``a`` and deviations ``M`` so far, and N new ones of mean ``b`` and
    deviations ``M'`` (Chan, Golub and LeVeque, 1979)::

        d     = b - a
        mean  = a + d * N / (n + N)
        M2    = M + M' + d^2 * n * N / (n + N)

    Args:
      count: the n samples folded in so far.
      moments: their mean and summed squared deviations from it.
      values: the new samples.
      counted: which of them to fold in; all if None.

    Returns:
      The moments of all samples.

    Example:
      >>> count, zero = jnp.zeros(2, jnp.uint32), jnp.zeros(())
      >>> merged = merge_moments(count, Moments(*[zero] * 4), jnp.array([1.0, 2.0, 3.0]))
      >>> float(merged.mean), float(merged.m2)
      (2.0, 2.0)
    """
    dtype = moments.mean.dtype
    values = values.astype(dtype)
    if counted is None:
        counted = jnp.ones(values.shape[0], bool)
    old, new = count_as_float(count, dtype), jnp.sum(counted, dtype=jnp.uint32).astype(dtype)
    kept = counted.reshape((-1,) + (1,) * moments.mean.ndim)
    fraction = new / jnp.maximum(old + new, 1)
    new_mean = jnp.sum(jnp.where(kept, values, 0), axis=0) / jnp.maximum(new, 1)
    new_m2 = jnp.sum(jnp.where(kept, jnp.square(values - new_mean), 0), axis=0)
    shift = (new_mean - moments.mean) - moments.mean_low
    return Moments(
        *_add(moments.mean, moments.mean_low, shift * fraction),
        *_add(moments.m2, moments.m2_low, new_m2 + jnp.square(shift) * (old * fraction)),
    )


def usable_samples(
    samples: Sequence[Float[Array, "N ..."]], counted: Bool[Array, " N"] | None = None
) -> Bool[Array, " N"]:
    """Returns which samples to fold in: those that count and whose every number is usable.

    A number is usable if it is finite and its magnitude at most 1e15 (1e120 in float64), so that
    the sum of the squares of many stays finite.

    Args:
      samples: the parts of each sample, N rows each.
      counted: which rows count at all; all if None.

    Example:
      >>> usable_samples([jnp.array([[1.0], [jnp.nan], [1e25]])]).tolist()
      [True, False, False]
    """
    usable = jnp.ones(samples[0].shape[0], bool) if counted is None else counted
    for part in samples:
        bound = 1e120 if part.dtype == jnp.float64 else 1e15
        within = jnp.abs(part) <= bound  # False for NaN
        usable = usable & jnp.all(within, axis=tuple(range(1, part.ndim)))
    return usable


def _add(high: Array, low: Array, term: Array) -> tuple[Array, Array]:
    """Adds a term to a sum of two floats; the error of the first addition goes to the second."""
    total = high + term
    rounded = total - high
    low = low + ((high - (total - rounded)) + (term - rounded))
    renewed = total + low
    return renewed, low - (renewed - total)


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
