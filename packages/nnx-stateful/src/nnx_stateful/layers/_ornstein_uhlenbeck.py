"""OrnsteinUhlenbeckNoise: noise with a memory on top of the input."""

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from .._noise import noise_state
from .._output import PyTree, StatefulModuleOutput
from .._state import reset_rows
from .._unroll import sequence_length
from ._inputs import check_features
from ._linear_recurrence import joined_steps, recurrence
from ._per_unit import Decay, PerUnit, check_units, parameter, per_unit, time_range
from ._stochastic import StochasticModule


class OrnsteinUhlenbeckNoise(StochasticModule):
    """Adds Gaussian noise n that changes slowly: ``tau dn = -n dt + scale * sqrt(2 tau) dW``.

    A step is exact, whatever its length dt (Gillespie, 1996), with eps ~ N(0, 1)::

        n' = decay * n + scale * sqrt(1 - decay^2) * eps      decay = exp(-dt / tau)
        n' = scale * eps                                      in the first step of an episode
        output = x + n'

    So n has standard deviation ``scale`` at every step, and correlation ``exp(-|t| / tau)`` over a
    time t. The eps, (B, size), come from the carry, are emitted, and are replayed; so gradients
    reach the input, the scale and tau. In ``eval()`` they are zero. The carry is
    ``{"noise": NoiseState, "last": n, (B, size), "has_last": (B,) bool}``.

    ``unroll`` solves the recurrence as :class:`LeakyIntegrator` does; differentiate it in reverse
    (``jax.grad``): ``jax.jvp`` of it is a TypeError.

    Args:
      size: number of units.
      rngs: source of the noise key.
      scale: standard deviation of n: a number, one for each unit (size,), or an initializer
        ``f(key, shape, dtype)`` that draws them.
      time_constant: tau, likewise, in the unit of ``dt``.
      learnable: whether scale and tau are trained, for each unit its own. The parameters are the
        logarithm of the one and the logit of the decay, so that both stay positive.
      dt: duration of a step.

    Attributes:
      log_scale: (size,).
      decay: holds the parameter ``decay.logit``.

    Raises:
      TypeError: if an argument is of another kind; on call, if the input is no array.
      ValueError: if a number is not positive, a time constant longer than 2**23 steps, or there is
        another number of them than units; on call, if the input has another number of features.

    References:
      Gillespie, Exact numerical simulation of the Ornstein-Uhlenbeck process and its integral,
      1996.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> layer = OrnsteinUhlenbeckNoise(3, nnx.Rngs(0), scale=0.5, time_constant=20.0)
      >>> layer.unroll(layer.initialize_state(2), jnp.zeros((4, 2, 3))).output.shape
      (4, 2, 3)
    """

    def __init__(
        self,
        size: int,
        rngs: nnx.Rngs,
        *,
        scale: PerUnit = 0.1,
        time_constant: PerUnit = 10.0,
        learnable: bool = False,
        dt: float = 1.0,
    ):
        kind = "OrnsteinUhlenbeckNoise"
        check_units(kind, size, rngs, learnable, dt)
        super().__init__(rngs)
        self.size = size
        self.log_scale = parameter(jnp.log(per_unit(kind, "scale", scale, size, rngs)), learnable)
        tau = per_unit(kind, "time_constant", time_constant, size, rngs, time_range(dt))
        self.decay = Decay(tau, dt, learnable)

    @property
    def scale(self) -> Float[Array, " size"]:
        """Standard deviation of the noise of each unit."""
        return jnp.exp(self.log_scale[...])

    @property
    def time_constant(self) -> Float[Array, " size"]:
        """Tau, one for each unit, in the unit of dt."""
        return self.decay.time_constants

    def initialize_state(self, batch_size: int) -> dict[str, Any]:
        return {
            "noise": noise_state(self.noise_key[...], batch_size),
            "last": jnp.zeros((batch_size, self.size), self.log_scale[...].dtype),
            "has_last": jnp.zeros(batch_size, bool),
        }

    def reset_state(self, prev_state: dict[str, Any]) -> dict[str, Any]:
        return {
            "noise": prev_state["noise"],
            "last": jnp.zeros_like(prev_state["last"]),
            "has_last": jnp.zeros_like(prev_state["has_last"]),
        }

    def __call__(
        self, state: dict[str, Any], x: Float[Array, "B size"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        check_features(self, x, self.size)
        noise, last = state["noise"], state["last"]
        eps = self.normal(noise, (self.size,), rollout_extras, dtype=last.dtype)
        decay, drive = self._drive(eps, state["has_last"])
        value = drive + decay * last
        next_state = _state(noise.advance(), value)
        return StatefulModuleOutput(next_state, x.astype(value.dtype) + value, 0.0, {}, eps)

    def unroll(
        self,
        state: dict[str, Any],
        xs: Float[Array, "T B size"],
        done: Bool[Array, "T B"] | None = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        steps = sequence_length(self, xs, done, rollout_extras)
        check_features(self, xs, self.size)
        noise, last = state["noise"], state["last"]
        eps = self.normal(noise, (self.size,), rollout_extras, steps, last.dtype)
        joined = joined_steps(done)
        goes_on = jnp.ones(xs.shape[:2], bool) if joined is None else joined
        decay, drive = self._drive(eps, goes_on.at[0].set(state["has_last"]))
        (values,) = recurrence((decay,), (drive,), (last,), joined)
        next_state = _state(noise.advance(steps), values[-1])
        if done is not None:
            next_state = reset_rows(self, next_state, done[-1])
        output = xs.astype(values.dtype) + values
        return StatefulModuleOutput(next_state, output, jnp.zeros(steps, output.dtype), {}, eps)

    def _drive(
        self, eps: Float[Array, "*lead size"], goes_on: Bool[Array, "*lead"]
    ) -> tuple[Array, Float[Array, "*lead size"]]:
        """Returns the decay, and what a step adds."""
        decay, rest = self.decay.factors()
        kick = jnp.sqrt(rest * (1 + decay))
        return decay, self.scale * jnp.where(goes_on[..., None], kick, 1) * eps


def _state(noise: Any, value: Float[Array, "B size"]) -> dict[str, Any]:
    return {"noise": noise, "last": value, "has_last": jnp.ones(value.shape[0], bool)}
