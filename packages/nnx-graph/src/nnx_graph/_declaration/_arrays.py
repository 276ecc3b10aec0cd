"""Arrays that users pass, of whatever kind, as JAX and NumPy have them."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


def as_array(where: str, wanted: str, given: Any) -> Any:
    """Returns an array, NumPy's unless it is JAX's or traced values are in it.

    Args:
      where: its place, for errors.
      wanted: what it should be, for errors.
      given: an array, a number, or nested lists of these.

    Raises:
      TypeError: if it makes no array.
      ValueError: if its parts have different lengths, or numbers that no array holds.

    Example:
      >>> as_array("here", "numbers", [1.0, 2.0]).tolist()
      [1.0, 2.0]
    """
    if isinstance(given, jax.Array | np.ndarray):
        return given
    try:
        if isinstance(given, Iterator):
            raise TypeError("it can be read only once")
        return jnp.asarray(given) if _is_traced(given) else np.asarray(given)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        same = TypeError if isinstance(error, TypeError) else ValueError
        raise same(
            f"{where}: expected {wanted}, got a {type(given).__name__} that makes no array "
            f"({str(error)[:200]}); pass nested lists of one length"
        ) from error


def as_jax_array(where: str, wanted: str, given: Any) -> jax.Array:
    """Returns an array of numbers or booleans as JAX has it.

    Raises:
      TypeError, ValueError: see :func:`as_array`; or if it has other entries.
    """
    array = as_array(where, wanted, given)
    if isinstance(array, jax.Array):
        return array
    if array.dtype.kind not in "biufc" and not jnp.issubdtype(array.dtype, jnp.number):
        raise TypeError(f"{where}: expected {wanted}, got an array of {array.dtype}; pass numbers")
    with np.errstate(over="ignore"):  # what is too large for float32 is inf there
        return jnp.asarray(array)


def _is_traced(given: Any, levels: int = 8) -> bool:
    """Whether there are traced values in nested lists; JAX's own search ends on deep ones."""
    if isinstance(given, list | tuple) and levels:
        return any(_is_traced(part, levels - 1) for part in given)
    return isinstance(given, Tracer)
