"""VariationalBottleneck: a noisy latent with a Kullback-Leibler loss."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from .._noise import NoiseState
from .._output import PyTree, StatefulModuleOutput
from .._unroll import sequence_length
from .._validate import check_int, check_number
from ._inputs import check_features
from ._stochastic import StochasticModule


class VariationalBottleneck(StochasticModule):
    """Samples a latent, z = mu + sigma * eps, and charges its distance from a standard normal.

    The input, (B, 2 * latent_size), is mu beside a raw scale: sigma = softplus(raw) + min_std.
    The loss of a row is ``kl_weight`` times KL(N(mu, sigma) || N(0, 1)), summed over the latent.
    The noise eps comes from the carry, is emitted, and is replayed; in ``eval()`` it is zero and
    the output is mu. Metrics: mu, sigma (B, latent_size), kl_divergence (B,).

    Args:
      latent_size: size of the latent.
      rngs: source of the noise key.
      kl_weight: weight of the loss.
      min_std: smallest sigma, which keeps the logarithm finite.

    Raises:
      TypeError: if an argument is of another kind; on call, if the input is no array.
      ValueError: if the size is not positive, a weight is negative, or ``min_std`` is not
        positive; on call, if the input does not have 2 * latent_size features.

    References:
      Alemi et al., Deep variational information bottleneck, 2017.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> layer = VariationalBottleneck(4, nnx.Rngs(0), kl_weight=0.1)
      >>> out = layer(layer.initialize_state(2), jnp.zeros((2, 8)))
      >>> out.output.shape, out.regularization_loss.shape
      ((2, 4), (2,))
    """

    def __init__(
        self,
        latent_size: int,
        rngs: nnx.Rngs | nnx.RngStream,
        kl_weight: float = 1.0,
        min_std: float = 1e-6,
    ):
        super().__init__(rngs)
        check_latent(self, latent_size, min_std, kl_weight=kl_weight)
        self.latent_size = latent_size
        self.kl_weight = kl_weight
        self.min_std = min_std

    def __call__(
        self, state: NoiseState, x: Float[Array, "B doubled"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        check_features(self, x, 2 * self.latent_size)
        eps = self.normal(state, (self.latent_size,), rollout_extras, dtype=x.dtype)
        return self._forward(x, eps).replace(next_state=state.advance())

    def unroll(
        self,
        state: NoiseState,
        xs: Float[Array, "T B doubled"],
        done: PyTree = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        steps = sequence_length(self, xs, done, rollout_extras)
        check_features(self, xs, 2 * self.latent_size)
        eps = self.normal(state, (self.latent_size,), rollout_extras, steps, xs.dtype)
        return self._forward(xs, eps).replace(next_state=state.advance(steps))

    def _forward(self, x: Array, eps: Array) -> StatefulModuleOutput:
        mu, sigma = split_latent(x, self.min_std)
        kl = kl_to_standard_normal(mu, sigma)
        return StatefulModuleOutput(
            next_state=None,
            output=mu + sigma * eps,
            regularization_loss=self.kl_weight * kl,
            metrics={"mu": mu, "sigma": sigma, "kl_divergence": kl},
            rollout_extras=eps,
        )


def check_latent(
    module: StochasticModule, latent_size: int, min_std: float, **weights: float
) -> None:
    """Raises unless the size and min_std are positive and the weights are not negative."""
    kind = type(module).__name__
    check_int(kind, "latent_size", latent_size)
    check_number(kind, "min_std", min_std, "positive")
    for name, weight in weights.items():
        check_number(kind, name, weight, "nonnegative")


def split_latent(
    x: Float[Array, "*lead doubled"], min_std: float
) -> tuple[Float[Array, "*lead L"], Float[Array, "*lead L"]]:
    """Cuts the input into mu and sigma = softplus(raw) + min_std."""
    mu, raw = jnp.split(x, 2, axis=-1)
    return mu, jax.nn.softplus(raw) + min_std


def kl_to_standard_normal(
    mu: Float[Array, "*lead L"], sigma: Float[Array, "*lead L"]
) -> Float[Array, "*lead"]:
    """KL(N(mu, sigma) || N(0, 1)) of independent normals, summed over the last axis.

    ``sum((mu^2 + sigma^2 - 1) / 2 - log(sigma))``

    Example:
      >>> float(kl_to_standard_normal(jnp.zeros(3), jnp.ones(3)))
      0.0
    """
    return jnp.sum((mu**2 + sigma**2 - 1) / 2 - jnp.log(sigma), axis=-1)
