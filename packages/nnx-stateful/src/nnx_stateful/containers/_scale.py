"""Scale: multiplication by a constant."""

import jax

from .._output import PyTree
from .._validate import check_number
from ._stateless import Stateless


class Scale(Stateless):
    """Multiplies every array of the input by a fixed factor.

    Args:
      factor: the factor, finite.

    Raises:
      TypeError: if ``factor`` is no number.
      ValueError: if it is not finite.

    Example:
      >>> import jax.numpy as jnp
      >>> Scale(0.5)((), jnp.ones(2)).output
      Array([0.5, 0.5], dtype=float32)
    """

    def __init__(self, factor: float):
        check_number("Scale", "factor", factor)
        self.factor = float(factor)

    def transform(self, x: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf: leaf * self.factor, x)
