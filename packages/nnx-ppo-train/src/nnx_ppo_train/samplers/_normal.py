"""NormalSampler: a Gaussian on unbounded actions."""

from jaxtyping import Array, Float

from ._base import Evaluation
from ._gaussian import GaussianSampler, normal_entropy, normal_log_density


class NormalSampler(GaussianSampler):
    """Samples unbounded actions from a diagonal Gaussian; the entropy is exact.

    The input, (B, 2A), is the mean and the scale before ``softplus``.

    Args:
      rngs: gives one key.
      entropy_weight: weight of the entropy bonus.
      min_std: added to the standard deviation.
      std_scale: factor of the standard deviation.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> sampler = NormalSampler(nnx.Rngs(0))
      >>> sampler(sampler.initialize_state(3), jnp.zeros((3, 4))).output["action"].shape
      (3, 2)
    """

    def evaluate(self, params: Float[Array, "*lead F"], extras: dict[str, Array]) -> Evaluation:
        mean, std = self.mean_and_std(params)
        action = extras["raw_action"]
        return Evaluation(
            action=action,
            log_likelihood=normal_log_density(action, mean, std).sum(-1),
            entropy=normal_entropy(std).sum(-1),
            metrics={"mu": mean, "sigma": std},
        )
