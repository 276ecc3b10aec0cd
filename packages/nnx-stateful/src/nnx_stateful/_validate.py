"""Checks on what constructors are given."""

import math
import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.core import Tracer

LARGEST = 2**24
"""Largest size or number of steps: products of two and three of them still are int64."""


def check_int(kind: str, name: str, value: Any, minimum: int = 1, maximum: int = LARGEST) -> None:
    """Raises unless ``value`` is an int from ``minimum`` to ``maximum``.

    Raises:
      TypeError: if it is no int.
      ValueError: if it is smaller or larger.
    """
    expected = "a positive int" if minimum == 1 else f"an int of at least {minimum}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(
            f"{kind}: {name}: expected {expected}, got {value!r} of type {type(value).__name__}"
        )
    if value < minimum:
        raise ValueError(f"{kind}: {name}: expected {expected}, got {value!r}")
    if value > maximum:
        raise ValueError(f"{kind}: {name}: expected {expected} and at most {maximum}, got {value}")


_SMALLEST, _GREATEST = (float(edge) for edge in (np.finfo("f4").tiny, np.finfo("f4").max))
"""Positive numbers outside of these are 0 or infinite in float32."""


def check_bool(kind: str, name: str, value: Any) -> None:
    """Raises TypeError unless ``value`` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(
            f"{kind}: {name}: expected True or False, got {value!r} of type {type(value).__name__}"
        )


def check_number(kind: str, name: str, value: Any, sign: str = "any") -> None:
    """Raises unless ``value`` is a number, finite in float32; a traced one is taken on trust.

    Args:
      kind: name of the module.
      name: name of the argument.
      value: what was given.
      sign: "any", "nonnegative" or "positive".

    Raises:
      TypeError: if it is no number.
      ValueError: if it is not finite, or of another sign.
    """
    expected = {"any": "a finite number", "nonnegative": "a finite number of at least 0"}.get(
        sign, "a positive number"
    )
    scalar = isinstance(value, jax.Array | np.ndarray) and value.shape == ()
    if scalar and not any(
        jnp.issubdtype(value.dtype, kind) for kind in (jnp.floating, jnp.integer)
    ):
        scalar = False
    if not (scalar or isinstance(value, numbers.Real)):
        raise TypeError(
            f"{kind}: {name}: expected {expected}, got {value!r} of type {type(value).__name__}"
        )
    if isinstance(value, Tracer):
        return
    try:
        number = float(value)
    except OverflowError:  # of an int
        number = math.inf
    in_range = {"any": True, "nonnegative": number >= 0}.get(sign, number >= _SMALLEST)
    if not (abs(number) <= _GREATEST and in_range):
        raise ValueError(
            f"{kind}: {name}: expected {expected}, got {value}; pass a finite one in range"
        )


def known_number(kind: str, name: str, value: Any) -> Any:
    """Returns a number that can be compared, also while something else is traced.

    Raises:
      TypeError: if it is no number, or a traced one.
      ValueError: if it is not finite.
    """
    check_number(kind, name, value)
    if isinstance(value, Tracer):
        raise TypeError(f"{kind}: {name}: expected a number that is known, got a traced one")
    return np.asarray(value)[()] if isinstance(value, jax.Array) else value


def check_rngs(kind: str, rngs: Any, stream_allowed: bool = False) -> None:
    """Raises TypeError unless ``rngs`` is an ``nnx.Rngs`` (or a stream, where one will do)."""
    if isinstance(rngs, nnx.Rngs) or (stream_allowed and isinstance(rngs, nnx.RngStream)):
        return
    if isinstance(rngs, jax.Array):
        raise TypeError(f"{kind}: rngs: expected nnx.Rngs, got a key; write nnx.Rngs(key)")
    raise TypeError(
        f"{kind}: rngs: expected nnx.Rngs, got {type(rngs).__name__}; write nnx.Rngs(seed)"
    )


def check_function(kind: str, name: str, value: Any, optional: bool = False) -> None:
    """Raises TypeError unless ``value`` can be called (or is None, where that is an option)."""
    if callable(value) or (optional and value is None):
        return
    known = isinstance(value, str) and callable(getattr(nnx, value, None))
    raise TypeError(
        f"{kind}: {name}: expected a function{' or None' if optional else ''}, got {value!r}; "
        f"write {name}={f'nnx.{value}' if known else 'nnx.relu, or another function of arrays'}"
    )


def as_compute_dtype(kind: str, value: Any) -> np.dtype | None:
    """Returns the type that a ``compute_dtype`` names; None stands for no type in particular.

    Raises:
      TypeError: if it is neither the name of a type nor a type.
      ValueError: if there is no such type, or if it is not a floating type with the range and
        precision of bfloat16 at least: in a narrower range small gradients vanish.

    Example:
      >>> str(as_compute_dtype("my layer", "bfloat16"))
      'bfloat16'
    """
    if value is None:
        return None
    expected = (
        f"{kind}: compute_dtype: expected a floating type with the range of float32, or None, "
        f"got {value!r}"
    )
    try:
        if isinstance(value, jax.Array | np.ndarray | np.generic):  # their dtype is not meant
            raise TypeError
        dtype = jnp.dtype(value)
    except (TypeError, ValueError):
        error = ValueError if isinstance(value, str) else TypeError
        raise error(f"{expected}, which is no type; write compute_dtype='bfloat16'") from None
    least = jnp.finfo(jnp.bfloat16)
    if jnp.issubdtype(dtype, jnp.floating):
        info = jnp.finfo(dtype)
        if info.nexp >= least.nexp and info.nmant >= least.nmant:
            return dtype
    raise ValueError(f"{expected}; write compute_dtype='bfloat16'")
