"""Surrogate: a spike, and the derivative that it is given in training."""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._validate import check_number

SHAPES: dict[str, Callable[[Array], Array]] = {
    "fast_sigmoid": lambda s: 1 / jnp.square(1 + jnp.abs(s)),
    "sigmoid": lambda s: 4 * jax.nn.sigmoid(s) * jax.nn.sigmoid(-s),
    "arctan": lambda s: 1 / (1 + jnp.square(math.pi / 2 * s)),
    "triangular": lambda s: jnp.maximum(0, 1 - jnp.abs(s)),
    "boxcar": lambda s: (jnp.abs(s) < 0.5).astype(s.dtype),
}
"""Derivatives by name; each is 1 at 0."""


@dataclasses.dataclass(frozen=True)
class Surrogate:
    """What stands in for the derivative of a spike, ``z = 1 if u >= 0 else 0``.

    The step has no useful derivative. In its place, ``dz/du = height * shape(slope * u)``, with

    ==============  ============================  ========================================
    name            shape(s)                      source
    ==============  ============================  ========================================
    fast_sigmoid    1 / (1 + abs(s))^2            SuperSpike (Zenke and Ganguli, 2018)
    sigmoid         4 sigmoid(s) sigmoid(-s)      Zenke and Vogels, 2021
    arctan          1 / (1 + (pi s / 2)^2)        Fang et al., 2021
    triangular      max(0, 1 - abs(s))            Bellec et al., 2018, with a height of 0.3
    boxcar          1 if abs(s) < 1/2 else 0      Wu et al., 2018
    ==============  ============================  ========================================

    Attributes:
      name: which shape. For one of your own, subclass and override :meth:`derivative`.
      slope: how steep the step is taken to be, per unit of potential: the larger, the fewer units
        learn.
      height: the derivative at u = 0; below 1 it dampens what grows over many steps.

    Raises:
      TypeError: if ``name`` is no str, or another field is no number.
      ValueError: if no shape has that name, or another field is not positive.

    Example:
      >>> import jax
      >>> surrogate = Surrogate("triangular", slope=2.0)
      >>> surrogate.spike(jnp.array([-0.25, 0.25])).tolist()
      [0.0, 1.0]
      >>> jax.grad(surrogate.spike)(0.25).item()
      0.5
    """

    name: str = "fast_sigmoid"
    slope: float = 10.0
    height: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(
                f"Surrogate: name: expected one of {sorted(SHAPES)}, got {self.name!r} of type "
                f"{type(self.name).__name__}"
            )
        if self.name not in SHAPES:
            raise ValueError(
                f"Surrogate: name: expected one of {sorted(SHAPES)}, got {self.name!r}"
            )
        check_number("Surrogate", "slope", self.slope, "positive")
        check_number("Surrogate", "height", self.height, "positive")

    def spike(self, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Returns 1 where ``u`` is at least 0 and 0 elsewhere, in the dtype of ``u``."""
        return _spike(self, u)

    def derivative(self, u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """Returns what stands in for the derivative of :meth:`spike` at ``u``."""
        return self.height * SHAPES[self.name](self.slope * u)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _spike(surrogate: Surrogate, u: Array) -> Array:
    u = jnp.asarray(u)
    return (u >= 0).astype(u.dtype)


@_spike.defjvp
def _spike_jvp(
    surrogate: Surrogate, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    (u,), (du,) = primals, tangents
    return _spike(surrogate, u), surrogate.derivative(u) * du
