"""NormalSampler: a Gaussian on unbounded actions."""

from jaxtyping import Array, Float

from ._base import Evaluation
from ._gaussian import GaussianSampler, normal_entropy, normal_log_density


class NormalSampler(GaussianSampler):
    """Samples unbounded actions from a diagonal Gaussian; the entropy is exact.

    The input, (B, 2A), is the mean and the scale before ``softplus``; or the mean alone, (B, A),
    where ``state_independent_std`` is set.

    Args:
      rngs: gives one key.
      entropy_weight: weight of the entropy bonus.
      min_std: added to the standard deviation.
      std_scale: factor of the standard deviation.
      state_independent_std: action size A, to learn one standard deviation per component that no
        input changes (the parameter ``log_std``); None to read it from the input.
      initial_std: where such a standard deviation starts; None for 1.

    Raises:
      TypeError: if an option is of the wrong kind; on call, if the input is no array.
      ValueError: if an option has an illegal value; on call, if the width of the input is odd, or
        is not ``state_independent_std``.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> sampler = NormalSampler(nnx.Rngs(0))
      >>> sampler(sampler.initialize_state(3), jnp.zeros((3, 4))).output["action"].shape
      (3, 2)
      >>> free = NormalSampler(nnx.Rngs(0), state_independent_std=4, initial_std=0.5)
      >>> out = free(free.initialize_state(3), jnp.zeros((3, 4)))
      >>> out.metrics["sigma"][0].round(3).tolist()
      [0.5, 0.5, 0.5, 0.5]
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
