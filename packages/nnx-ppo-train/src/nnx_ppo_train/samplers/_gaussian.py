"""What the two Gaussian samplers share: parameters, noise and the normal density."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key
from nnx_stateful import PyTree

from .._validate import check_number, check_whole_number, number
from ._base import ActionSampler

LOG_2PI = math.log(2.0 * math.pi)


class GaussianSampler(ActionSampler):
    """Reads (B, 2A), the mean and the scale before ``softplus``; or the mean alone, (B, A).

    Args:
      rngs: gives one key.
      entropy_weight: weight of the entropy bonus.
      min_std: added to the standard deviation, above 0.
      std_scale: factor of the standard deviation, above 0.
      state_independent_std: action size A, to learn one standard deviation per component that no
        input changes; None to read it from the input.
      initial_std: where such a standard deviation starts; None for 1.

    Attributes:
      log_std: (A,), a parameter, or None: the standard deviation is
        ``(exp(log_std) + min_std) * std_scale``.
    """

    def __init__(
        self,
        rngs: nnx.Rngs,
        entropy_weight: float = 0.0,
        min_std: float = 1e-3,
        std_scale: float = 1.0,
        *,
        state_independent_std: int | None = None,
        initial_std: float | None = None,
    ):
        super().__init__(rngs, entropy_weight)
        kind = type(self).__name__
        check_number(min_std, f"{kind}.min_std", above=0.0)
        check_number(std_scale, f"{kind}.std_scale", above=0.0)
        if state_independent_std is not None:
            check_whole_number(state_independent_std, f"{kind}.state_independent_std", 1)
        if initial_std is not None:
            check_number(initial_std, f"{kind}.initial_std", above=0.0)
        self.state_independent_std = state_independent_std
        self.initial_std = initial_std
        self.min_std, self.std_scale = float(min_std), float(std_scale)
        self.log_std = self._free_log_std()

    def _free_log_std(self) -> nnx.Param | None:
        kind = type(self).__name__
        if self.state_independent_std is None:
            if self.initial_std is not None:
                raise ValueError(
                    f"{kind}.initial_std: expected None where the input decides on the standard "
                    f"deviation, got {self.initial_std!r}; set state_independent_std=action_size "
                    "as well"
                )
            return None
        if self.initial_std is None:
            self.initial_std = 1.0
        number(self, "initial_std", above=self.min_std * self.std_scale)
        start = math.log(self.initial_std / self.std_scale - self.min_std)
        return nnx.Param(jnp.full(self.state_independent_std, start, jnp.float32))

    def check_width(self, shape: tuple[int, ...]) -> None:
        kind, size = type(self).__name__, self.state_independent_std
        if size is not None and shape[-1] != size:
            raise ValueError(
                f"{kind}: expected {size} features, the mean of each action, since it has "
                f"state_independent_std={size}, got shape {shape}; use a layer of width {size} "
                "before it"
            )
        if size is None and shape[-1] % 2:
            raise ValueError(
                f"{kind}: expected an even number of features (mean and scale of each action), "
                f"got shape {shape}; use a layer of width 2 * action_size before it"
            )

    def draw(self, key: Key[Array, ""], features: int) -> Array:
        return jax.random.normal(key, (self.state_independent_std or features // 2,))

    def act(self, params: Float[Array, "*lead F"], noise: PyTree | None) -> dict[str, Array]:
        mean, std = self.mean_and_std(params)
        eps = jnp.zeros_like(mean) if noise is None else jnp.asarray(noise, mean.dtype)
        return {"raw_action": mean + std * eps, "noise": eps}

    def mean_and_std(
        self, params: Float[Array, "*lead F"]
    ) -> tuple[Float[Array, "*lead A"], Float[Array, "*lead A"]]:
        """Returns mean and standard deviation of each component before squashing."""
        if self.log_std is None:
            mean, scale = jnp.split(params, 2, axis=-1)
            spread = jax.nn.softplus(scale)
        else:
            mean, spread = params, jnp.exp(self.log_std[...])
        return mean, jnp.broadcast_to((spread + self.min_std) * self.std_scale, mean.shape)


def normal_log_density(x: Array, mean: Array, std: Array) -> Array:
    """Log density of N(mean, std) at ``x``, per component."""
    return -0.5 * jnp.square((x - mean) / std) - jnp.log(std) - 0.5 * LOG_2PI


def normal_entropy(std: Array) -> Array:
    """Entropy of N(., std) in nats, per component: 1/2 + 1/2 log(2 pi) + log(std)."""
    return 0.5 + 0.5 * LOG_2PI + jnp.log(std)
