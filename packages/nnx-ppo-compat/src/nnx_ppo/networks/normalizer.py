"""Normalizer, which takes a list of ints for a shape as well."""

from typing import Any

import nnx_stateful
from nnx_stateful import NormalizerStatistics

__all__ = ["Normalizer", "NormalizerStatistics"]


class Normalizer(nnx_stateful.Normalizer):
    """As :class:`nnx_stateful.Normalizer`; a list of ints counts as one shape.

    Args:
      shape: an int, a tuple or list of ints, or a tree of ints and tuples of ints.
      **options: those of :class:`nnx_stateful.Normalizer`.

    Example:
      >>> Normalizer([2, 3]).mean.get_value().shape
      (2, 3)
    """

    def __init__(self, shape: Any, **options: Any):
        is_shape = isinstance(shape, list) and all(isinstance(size, int) for size in shape)
        super().__init__(tuple(shape) if is_shape else shape, **options)
