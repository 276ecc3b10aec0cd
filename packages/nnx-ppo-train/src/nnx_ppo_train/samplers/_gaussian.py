"""What the two Gaussian samplers share: parameters, noise and the normal density."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key
from nnx_stateful import PyTree

from .._validate import number
from ._base import ActionSampler

LOG_2PI = 1.8378770664093453


class GaussianSampler(ActionSampler):
    """Reads (B, 2A): the mean, and the scale before ``softplus``.

    Args:
      rngs: gives one key.
      entropy_weight: weight of the entropy bonus.
      min_std: added to the standard deviation, above 0.
      std_scale: factor of the standard deviation, above 0.
    """

    def __init__(
        self,
        rngs: nnx.Rngs,
        entropy_weight: float = 0.0,
        min_std: float = 1e-3,
        std_scale: float = 1.0,
    ):
        super().__init__(rngs, entropy_weight)
        self.min_std = min_std
        self.std_scale = std_scale
        number(self, "min_std", above=0.0)
        number(self, "std_scale", above=0.0)

    def draw(self, key: Key[Array, ""], features: int) -> Array:
        return jax.random.normal(key, (features // 2,))

    def act(self, params: Float[Array, "*lead F"], noise: PyTree | None) -> dict[str, Array]:
        mean, std = self.mean_and_std(params)
        eps = jnp.zeros_like(mean) if noise is None else jnp.asarray(noise, mean.dtype)
        return {"raw_action": mean + std * eps, "noise": eps}

    def mean_and_std(
        self, params: Float[Array, "*lead F"]
    ) -> tuple[Float[Array, "*lead A"], Float[Array, "*lead A"]]:
        """Splits the parameters into mean and standard deviation."""
        if params.shape[-1] % 2:
            raise ValueError(
                f"{type(self).__name__}: expected an even number of features (mean and scale of "
                f"each action), got shape {params.shape}; use a layer of width 2 * action_size "
                "before it"
            )
        mean, scale = jnp.split(params, 2, axis=-1)
        return mean, (jax.nn.softplus(scale) + self.min_std) * self.std_scale


def normal_log_density(x: Array, mean: Array, std: Array) -> Array:
    """Log density of N(mean, std) at ``x``, per component."""
    return -0.5 * jnp.square((x - mean) / std) - jnp.log(std) - 0.5 * LOG_2PI


def normal_entropy(std: Array) -> Array:
    """Entropy of N(., std) in nats, per component: 1/2 + 1/2 log(2 pi) + log(std)."""
    return 0.5 + 0.5 * LOG_2PI + jnp.log(std)
