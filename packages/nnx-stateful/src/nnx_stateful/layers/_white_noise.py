"""Noise: white noise on top of the input."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from .._noise import NoiseState
from .._output import PyTree, StatefulModuleOutput
from .._unroll import sequence_length
from ._inputs import check_features
from ._per_unit import PerUnit, check_units, parameter, per_unit
from ._stochastic import StochasticModule


class Noise(StochasticModule):
    """Adds Gaussian noise that is new in each step: ``x + scale * eps``, eps ~ N(0, 1).

    The noise eps, (B, size), comes from the carry, a :class:`NoiseState`, is emitted, and is
    replayed; so gradients reach the input and the scale. In ``eval()`` it is zero. For noise with a
    memory see :class:`OrnsteinUhlenbeckNoise`.

    Args:
      size: number of units.
      rngs: source of the noise key.
      scale: standard deviation: a number, one for each unit (size,), or an initializer
        ``f(key, shape, dtype)`` that draws them.
      learnable: whether the scale is trained, for each unit its own. The parameter is its
        logarithm, so that it stays positive.

    Attributes:
      log_scale: (size,).

    Raises:
      TypeError: if an argument is of another kind; on call, if the input is no array.
      ValueError: if a number is not positive, or there is another number of scales than units; on
        call, if the input has another number of features.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> layer = Noise(3, nnx.Rngs(0), scale=0.5)
      >>> out = layer(layer.initialize_state(2), jnp.zeros((2, 3)))
      >>> bool((out.output == 0.5 * out.rollout_extras).all())
      True
    """

    def __init__(self, size: int, rngs: nnx.Rngs, *, scale: PerUnit = 0.1, learnable: bool = False):
        check_units("Noise", size, rngs, learnable)
        super().__init__(rngs)
        self.size = size
        self.log_scale = parameter(
            jnp.log(per_unit("Noise", "scale", scale, size, rngs)), learnable
        )

    @property
    def scale(self) -> Float[Array, " size"]:
        """Standard deviation of the noise of each unit."""
        return jnp.exp(self.log_scale[...])

    def __call__(
        self, state: NoiseState, x: Float[Array, "B size"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        return self._add(x, state, rollout_extras).replace(next_state=state.advance())

    def unroll(
        self,
        state: NoiseState,
        xs: Float[Array, "T B size"],
        done: PyTree = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        steps = sequence_length(self, xs, done, rollout_extras)
        out = self._add(xs, state, rollout_extras, steps)
        return out.replace(
            next_state=state.advance(steps), regularization_loss=jnp.zeros(steps, out.output.dtype)
        )

    def _add(
        self, x: Array, noise: NoiseState, rollout_extras: PyTree, steps: int | None = None
    ) -> StatefulModuleOutput:
        check_features(self, x, self.size)
        scale = self.scale
        eps = self.normal(noise, (self.size,), rollout_extras, steps, scale.dtype)
        return StatefulModuleOutput(None, x.astype(scale.dtype) + scale * eps, 0.0, {}, eps)
