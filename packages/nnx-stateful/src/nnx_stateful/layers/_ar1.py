"""AR1VariationalBottleneck: a noisy latent that is asked to move slowly."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from .._noise import noise_state
from .._output import PyTree, StatefulModuleOutput
from .._state import reset_rows
from .._unroll import sequence_length
from .._validate import check_bool
from ._inputs import check_features
from ._stochastic import StochasticModule
from ._variational import check_latent, kl_to_standard_normal, split_latent


class AR1VariationalBottleneck(StochasticModule):
    """A variational bottleneck with a first-order autoregressive loss on top.

    As :class:`VariationalBottleneck`, and charges ``ar1_weight`` times l2_diff, the mean square
    of z minus the z of the step before; it is zero in the first step of an episode. The carry is
    ``{"noise": NoiseState, "last_z": (B, latent_size), "has_last": (B,) bool}``.
    Metrics: mu, sigma (B, latent_size), kl_divergence, l2_diff (B,).

    Args:
      latent_size: size of the latent.
      rngs: source of the noise key.
      kl_weight: weight of the Kullback-Leibler loss.
      min_std: smallest sigma.
      ar1_weight: weight of the autoregressive loss.
      backprop_through_time: whether the loss also pulls the previous z towards this one; if not,
        the previous z counts as a constant.

    Raises:
      TypeError: if an argument is of another kind; on call, if the input is no array.
      ValueError: if the size is not positive, a weight is negative, or ``min_std`` is not
        positive; on call, if the input does not have 2 * latent_size features.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> layer = AR1VariationalBottleneck(4, nnx.Rngs(0))
      >>> out = layer.unroll(layer.initialize_state(2), jnp.zeros((5, 2, 8)))
      >>> out.metrics["l2_diff"].shape, out.metrics["l2_diff"][0].tolist()
      ((5, 2), [0.0, 0.0])
    """

    def __init__(
        self,
        latent_size: int,
        rngs: nnx.Rngs | nnx.RngStream,
        kl_weight: float = 1.0,
        min_std: float = 1e-6,
        ar1_weight: float = 1.0,
        backprop_through_time: bool = True,
    ):
        super().__init__(rngs)
        check_latent(self, latent_size, min_std, kl_weight=kl_weight, ar1_weight=ar1_weight)
        check_bool(type(self).__name__, "backprop_through_time", backprop_through_time)
        self.latent_size = latent_size
        self.kl_weight = kl_weight
        self.min_std = min_std
        self.ar1_weight = ar1_weight
        self.backprop_through_time = backprop_through_time

    def initialize_state(self, batch_size: int) -> dict[str, Any]:
        return {
            "noise": noise_state(self.noise_key[...], batch_size),
            "last_z": jnp.zeros((batch_size, self.latent_size)),
            "has_last": jnp.zeros(batch_size, bool),
        }

    def reset_state(self, prev_state: dict[str, Any]) -> dict[str, Any]:
        return {
            "noise": prev_state["noise"],
            "last_z": jnp.zeros_like(prev_state["last_z"]),
            "has_last": jnp.zeros_like(prev_state["has_last"]),
        }

    def __call__(
        self, state: dict[str, Any], x: Float[Array, "B doubled"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        check_features(self, x, 2 * self.latent_size)
        noise, last_z = state["noise"], state["last_z"]
        eps = self.normal(noise, (self.latent_size,), rollout_extras, dtype=x.dtype)
        out = self._forward(x, eps, lambda z: (last_z, state["has_last"]))
        return out.replace(next_state=self._next(noise.advance(), out.output, last_z.dtype))

    def unroll(
        self,
        state: dict[str, Any],
        xs: Float[Array, "T B doubled"],
        done: Bool[Array, "T B"] | None = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        steps = sequence_length(self, xs, done, rollout_extras)
        check_features(self, xs, 2 * self.latent_size)
        noise, last_z = state["noise"], state["last_z"]
        eps = self.normal(noise, (self.latent_size,), rollout_extras, steps, xs.dtype)

        def previous(z: Array) -> tuple[Array, Array]:
            goes_on = jnp.ones(z.shape[:2], bool) if done is None else ~done.astype(bool)
            return _shift(last_z, z), _shift(state["has_last"], goes_on)

        out = self._forward(xs, eps, previous)
        next_state = self._next(noise.advance(steps), out.output[-1], last_z.dtype)
        if done is not None:
            next_state = reset_rows(self, next_state, done[-1])
        return out.replace(next_state=next_state)

    def _forward(self, x: Array, eps: Array, previous: Any) -> StatefulModuleOutput:
        """Computes everything but the next state; ``previous(z)`` gives last z and whether."""
        mu, sigma = split_latent(x, self.min_std)
        z = mu + sigma * eps
        last_z, has_last = previous(z)
        if not self.backprop_through_time:
            last_z = jax.lax.stop_gradient(last_z)
        step = jnp.where(has_last[..., None], z - last_z.astype(z.dtype), 0)
        l2_diff = jnp.mean(jnp.square(step), axis=-1)
        kl = kl_to_standard_normal(mu, sigma)
        return StatefulModuleOutput(
            next_state=None,
            output=z,
            regularization_loss=self.kl_weight * kl + self.ar1_weight * l2_diff,
            metrics={"mu": mu, "sigma": sigma, "kl_divergence": kl, "l2_diff": l2_diff},
            rollout_extras=eps,
        )

    def _next(self, noise: Any, z: Array, dtype: Any) -> dict[str, Any]:
        return {
            "noise": noise,
            "last_z": z.astype(dtype),
            "has_last": jnp.ones(z.shape[0], bool),
        }


def _shift(first: Array, values: Array) -> Array:
    """Moves a sequence (T, ...) one step later; ``first`` (...) takes step 0."""
    return jnp.concatenate([first[None].astype(values.dtype), values[:-1]], axis=0)
