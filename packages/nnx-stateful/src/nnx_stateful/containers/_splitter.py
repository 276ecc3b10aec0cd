"""Splitter: names for slices of the feature axis."""

from .._output import PyTree
from .._validate import check_int
from ._stateless import Stateless


class Splitter(Stateless):
    """Cuts the last axis of an array (B, F) into named slices, in the order given.

    Features beyond the declared sizes are dropped.

    Args:
      **sizes: width of each slice, positive.

    Raises:
      TypeError: if a size is no int, or (on call) the input is no array.
      ValueError: if there are no slices, a size is not positive, or (on call) the input is
        narrower than the sizes together.

    Example:
      >>> import jax.numpy as jnp
      >>> split = Splitter(action_params=4, value=1)
      >>> out = split((), jnp.ones((2, 5))).output
      >>> out["value"].shape
      (2, 1)
    """

    def __init__(self, **sizes: int):
        if not sizes:
            raise ValueError("Splitter: expected at least one named size, got none")
        for name, size in sizes.items():
            check_int("Splitter", f"size of {name!r}", size)
        self.sizes = tuple(sizes.items())

    def transform(self, x: PyTree) -> PyTree:
        needed = sum(size for _, size in self.sizes)
        if not hasattr(x, "shape"):
            raise TypeError(
                f"Splitter: expected an array of at least {needed} features, got "
                f"{type(x).__name__}; pick an entry with a Filter or a Map"
            )
        if x.shape[-1] < needed:
            raise ValueError(
                f"Splitter: expected an input of at least {needed} features "
                f"({', '.join(f'{n}={s}' for n, s in self.sizes)}), got shape {x.shape}; "
                "widen the layer before it"
            )
        slices, start = {}, 0
        for name, size in self.sizes:
            slices[name] = x[..., start : start + size]
            start += size
        return slices
