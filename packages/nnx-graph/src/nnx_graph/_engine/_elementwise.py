"""Whether an activation treats every number by itself, found by looking at what it computes."""

import re
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from .._declaration._spec import Activation

ROWS = 10_007
"""Rows of the batch that is traced: a number that no size or constant is likely to be."""

_PRIMITIVES = (  # on numbers in the same place of all operands
    "abs add add_any and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy "
    "copy_p cos cosh div eq erf erfc exp exp2 expm1 floor ge gt integer_pow is_finite le lgamma "
    "log log1p logistic lt max min mul ne neg nextafter not or pow rem round rsqrt select_n sign "
    "sin sinh sqrt square stop_gradient sub tan tanh xor"
)
_CALLS = (
    "closed_call core_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr jit pjit "
    "remat checkpoint"
)


@lru_cache(maxsize=1024)
def is_elementwise(function: Activation, size: int, width: int) -> bool:
    """Whether populations side by side may be activated as one.

    That is so if each number of the result depends on the number in its own place alone, and not
    on the size either. What cannot be told is answered with False.

    Args:
      function: an activation, from (B, size) to (B, size).
      size: number of units of one population.
      width: number of units of all of them.

    Example:
      >>> is_elementwise(jnp.tanh, 3, 12), is_elementwise(jax.nn.softmax, 3, 12)
      (True, False)
    """
    apart, together = _trace(function, size), _trace(function, width)
    if apart is None or together is None or not _all_in_place(apart, (ROWS, size)):
        return False
    return _without_shape(apart, size) == _without_shape(together, width)


def _trace(function: Activation, size: int) -> Any:
    try:
        return jax.make_jaxpr(function)(jax.ShapeDtypeStruct((ROWS, size), jnp.float32))
    except Exception:  # whatever the function objects to: it is then called as it was declared
        return None


def _without_shape(traced: Any, size: int) -> str:
    """The operations as text, without the size."""
    return re.sub(rf"{ROWS}, ?{size}\b", "rows", str(traced))


def _all_in_place(closed: Any, shape: tuple[int, ...]) -> bool:
    """Whether a traced function has operations on numbers in their place alone."""
    jaxpr = getattr(closed, "jaxpr", closed)
    if any(jnp.shape(const) for const in getattr(closed, "consts", ())):
        return False
    return all(_in_place(equation, shape) for equation in jaxpr.eqns)


def _in_place(equation: Any, shape: tuple[int, ...]) -> bool:
    name = equation.primitive.name
    if any(variable.aval.shape not in ((), shape) for variable in equation.outvars):
        return False
    if name == "broadcast_in_dim":
        return equation.invars[0].aval.shape in ((), shape)
    if name in _CALLS.split():
        return all(
            _all_in_place(value, shape)
            for value in equation.params.values()
            if hasattr(value, "eqns") or hasattr(value, "jaxpr")
        )
    return name in _PRIMITIVES.split()
