"""Apply: any pure function as a module."""

from collections.abc import Callable

from .._output import PyTree
from ._stateless import Stateless


class Apply(Stateless):
    """Makes a module of a pure function of the input batch.

    Args:
      fn: takes and returns a tree with leaves (B, ...). It need not be row-wise: a sequence is
        mapped over time, one batch after the other.

    Raises:
      TypeError: if ``fn`` cannot be called.

    Example:
      >>> import jax.numpy as jnp
      >>> Apply(jnp.square)((), 3.0 * jnp.ones(2)).output
      Array([9., 9.], dtype=float32)
    """

    folds_time = False

    def __init__(self, fn: Callable[[PyTree], PyTree]):
        if not callable(fn):
            raise TypeError(f"Apply: expected a function, got {type(fn).__name__}")
        self.fn = fn

    def transform(self, x: PyTree) -> PyTree:
        return self.fn(x)
