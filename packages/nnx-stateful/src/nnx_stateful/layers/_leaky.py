"""LeakyIntegrator: a low-pass filter, all time steps at once."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._state import reset_rows
from .._unroll import sequence_length
from ._inputs import check_features
from ._linear_recurrence import joined_steps, recurrence
from ._per_unit import Decay, PerUnit, check_units, per_unit, time_range


class LeakyIntegrator(StatefulModule):
    """Integrates its input and forgets: ``tau dv/dt = x - v`` for each unit.

    A step is the exact solution for an input that is constant during the step (Rotter and
    Diesmann, 1999)::

        decay = exp(-dt / tau)
        v' = decay * v + (1 - decay) * x

    For tau much longer than dt that is ``v + (dt / tau) * (x - v)``. Output and carry are v',
    (B, size); v is 0 at the start of an episode.

    Because the recurrence is linear, ``unroll`` is an associative scan on an accelerator, O(log T)
    deep, and so is its gradient. Differentiate it in reverse (``jax.grad``): ``jax.jvp`` of it is a
    TypeError.

    Args:
      size: number of units.
      rngs: the source of drawn time constants.
      time_constant: tau, in the unit of ``dt``: a number, one for each unit (size,), or an
        initializer ``f(key, shape, dtype)`` that draws them.
      learnable: whether tau is trained, for each unit its own. The parameter is the logit of the
        decay, so that tau stays positive.
      dt: duration of a step.

    Attributes:
      decay: holds the parameter ``decay.logit``.

    Raises:
      TypeError: if an argument is of another kind; on call, if the input is no array.
      ValueError: if a number is not positive, a time constant longer than 2**23 steps, or there is
        another number of them than units; on call, if the input has another number of features.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> layer = LeakyIntegrator(1, nnx.Rngs(0), time_constant=1.0)
      >>> v = layer.unroll(layer.initialize_state(1), jnp.ones((3, 1, 1))).output
      >>> [round(value, 3) for value in v[:, 0, 0].tolist()]  # 1 - exp(-t)
      [0.632, 0.865, 0.95]
    """

    def __init__(
        self,
        size: int,
        rngs: nnx.Rngs,
        *,
        time_constant: PerUnit = 10.0,
        learnable: bool = False,
        dt: float = 1.0,
    ):
        check_units("LeakyIntegrator", size, rngs, learnable, dt)
        self.size = size
        between = time_range(dt)
        tau = per_unit("LeakyIntegrator", "time_constant", time_constant, size, rngs, between)
        self.decay = Decay(tau, dt, learnable)

    @property
    def time_constant(self) -> Float[Array, " size"]:
        """Tau, one for each unit, in the unit of dt."""
        return self.decay.time_constants

    def initialize_state(self, batch_size: int) -> Float[Array, "B size"]:
        return jnp.zeros((batch_size, self.size), self.decay.logit[...].dtype)

    def reset_state(self, prev_state: Float[Array, " size"]) -> Float[Array, " size"]:
        return jnp.zeros_like(prev_state)

    def __call__(
        self,
        state: Float[Array, "B size"],
        x: Float[Array, "B size"],
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        del rollout_extras
        decay, drive = self._drive(x)
        v = drive + decay * state
        return StatefulModuleOutput(v, v, 0.0, {})

    def unroll(
        self,
        state: Float[Array, "B size"],
        xs: Float[Array, "T B size"],
        done: Bool[Array, "T B"] | None = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        length = sequence_length(self, xs, done, rollout_extras)
        decay, drive = self._drive(xs)
        (v,) = recurrence((decay,), (drive,), (state,), joined_steps(done))
        last = v[-1] if done is None else reset_rows(self, v[-1], done[-1])
        return StatefulModuleOutput(last, v, jnp.zeros(length, v.dtype), {})

    def _drive(self, x: Float[Array, "*lead size"]) -> tuple[Array, Float[Array, "*lead size"]]:
        """Returns the decay, and what the input adds."""
        check_features(self, x, self.size)
        decay, rest = self.decay.factors()
        return decay, rest * x.astype(rest.dtype)
