"""Positive numbers of the units of a population, fixed or trained: scales and time constants."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.core import Tracer
from jaxtyping import Array, Float

from .._validate import check_bool, check_int, check_number, check_rngs

PerUnit = float | Array | np.ndarray | Sequence[float] | Callable[..., Array]
"""What a constructor takes: a number, one for each unit, or an initializer that draws them."""


LONGEST = 2.0**23
"""How many steps a time constant may last: beyond, the decay of a step is 1 in float32."""


class FixedParameter(nnx.Variable):
    """A number that belongs to a module like a parameter does, but is not trained."""


def check_units(kind: str, size: int, rngs: nnx.Rngs, learnable: bool, dt: float = 1.0) -> None:
    """Raises unless the arguments that all dynamics of units have are as they must be.

    Raises:
      TypeError: if one is of another kind.
      ValueError: if ``size`` or ``dt`` is not positive.
    """
    check_int(kind, "size", size)
    check_rngs(kind, rngs)
    check_bool(kind, "learnable", learnable)
    check_number(kind, "dt", dt, "positive")


def per_unit(
    kind: str,
    name: str,
    value: PerUnit,
    size: int,
    rngs: nnx.Rngs,
    between: tuple[float, float] = (0.0, np.inf),
) -> Float[Array, " size"]:
    """Returns one number for each unit.

    Args:
      kind: name of the module, for messages.
      name: name of the argument.
      value: a number, an array (size,), or an initializer ``f(key, shape, dtype)``.
      size: number of units.
      rngs: where the key of an initializer comes from; nothing is drawn otherwise.
      between: what each number must exceed, and the largest it may be; traced numbers are taken
        on trust.

    Raises:
      TypeError: if ``value`` is of another kind.
      ValueError: if it has another shape, is not finite, or not in this range.
    """
    above, largest = between
    limit = f" and at most {largest:g}" if np.isfinite(largest) else ""
    expected = (
        f"a number greater than {above:g}{limit}, an array ({size},) of them, or an initializer"
    )
    given = value
    if callable(value):
        try:
            given = value(rngs.params(), (size,), jnp.float32)
        except Exception as error:
            raise ValueError(
                f"{kind}: {name}: expected {expected} f(key, shape, dtype), got {value!r}, which "
                f"raised {type(error).__name__}: {error}"
            ) from error
    try:
        if isinstance(given, bool | str):
            raise TypeError
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
            values = jnp.asarray(given, jnp.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"{kind}: {name}: expected {expected}, got {given!r} of type {type(given).__name__}"
        ) from error
    if values.shape not in ((), (size,)):
        raise ValueError(f"{kind}: {name}: expected {expected}, got shape {values.shape}")
    if not isinstance(values, Tracer):
        known = np.atleast_1d(values)
        wrong = known[~(np.isfinite(known) & (known > above) & (known <= largest))]
        if wrong.size:
            raise ValueError(f"{kind}: {name}: expected {expected}, got {wrong[0]:g}")
    return jnp.broadcast_to(values, (size,))


def time_range(dt: float, euler: bool = False) -> tuple[float, float]:
    """Returns what a time constant must exceed, and the longest that there may be.

    A time constant of more than :data:`LONGEST` steps would never fade, and never train.
    """
    return (float(dt) if euler else 0.0), LONGEST * float(dt)


def parameter(values: Float[Array, " size"], learnable: bool) -> nnx.Variable[Array]:
    """Returns the variable for numbers that are trained or not."""
    return nnx.Param(values) if learnable else FixedParameter(values)


class Decay(nnx.Module):
    """What is left of a state after one step, given its time constant.

    The variable is the logit of the decay, ``decay = sigmoid(logit)``: whatever an optimiser makes
    of it, the decay lies between 0 and 1 and the time constant is positive. It relates to the time
    constant tau and the time step dt in one of two ways::

        exact    decay = exp(-dt / tau)      tau > 0
        Euler    decay = 1 - dt / tau        tau > dt

    Args:
      time_constants: tau, one for each unit, in the unit of ``dt``.
      dt: duration of a step.
      learnable: whether the logit is an ``nnx.Param``.
      euler: which of the two it is.

    Attributes:
      logit: the variable, (size,).
    """

    def __init__(
        self,
        time_constants: Float[Array, " size"],
        dt: float,
        learnable: bool,
        euler: bool = False,
    ):
        self.dt = float(dt)
        self.euler = euler
        ratio = self.dt / time_constants
        logit = jnp.log(1 / ratio - 1) if euler else -ratio - jnp.log(-jnp.expm1(-ratio))
        self.logit = parameter(logit, learnable)

    @property
    def time_constants(self) -> Float[Array, " size"]:
        """Tau, one for each unit, in the unit of dt."""
        logit = self.logit[...]
        if self.euler:
            return self.dt * (1 + jnp.exp(logit))
        return self.dt / jax.nn.softplus(-logit)

    def factors(self) -> tuple[Float[Array, " size"], Float[Array, " size"]]:
        """Returns the decay and ``1 - decay``, each to full precision."""
        logit = self.logit[...]
        return jax.nn.sigmoid(logit), jax.nn.sigmoid(-logit)
