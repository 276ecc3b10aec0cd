"""NormalTanhSampler: a Gaussian squashed to (-1, 1)."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._base import Evaluation
from ._gaussian import GaussianSampler, normal_entropy, normal_log_density


class NormalTanhSampler(GaussianSampler):
    """Samples actions in (-1, 1): the tanh of a diagonal Gaussian.

    The input, (B, 2A), is the mean and the scale before ``softplus``. The entropy has no closed
    form; it is estimated without bias from the noise that the rollout drew, so nothing is drawn
    in the replay.

    Args:
      rngs: gives one key.
      entropy_weight: weight of the entropy bonus.
      min_std: added to the standard deviation.
      std_scale: factor of the standard deviation.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> sampler = NormalTanhSampler(nnx.Rngs(0), entropy_weight=1e-2)
      >>> out = sampler(sampler.initialize_state(3), jnp.zeros((3, 4)))
      >>> out.output["action"].shape, out.output["log_likelihood"].shape
      ((3, 2), (3,))
    """

    def evaluate(self, params: Float[Array, "*lead F"], extras: dict[str, Array]) -> Evaluation:
        mean, std = self.mean_and_std(params)
        raw = extras["raw_action"]
        density = normal_log_density(raw, mean, std) - log_tanh_slope(raw)
        entropy = normal_entropy(std) + log_tanh_slope(mean + std * extras["noise"])
        return Evaluation(
            action=jnp.tanh(raw),
            log_likelihood=density.sum(-1),
            entropy=entropy.sum(-1),
            metrics={"mu": mean, "sigma": std},
        )


def log_tanh_slope(x: Array) -> Array:
    """log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x)), without cancellation."""
    return 2.0 * (math.log(2.0) - x - jax.nn.softplus(-2.0 * x))
