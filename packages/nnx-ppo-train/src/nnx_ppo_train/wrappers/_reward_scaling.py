"""RewardScalingWrapper: rewards times a constant."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from ..envs._checks import finite_float
from ._wrapper import Wrapper


class RewardScalingWrapper(Wrapper):
    """Multiplies every reward by a constant; of a tree of rewards, every leaf.

    Known returns of the inner environment are scaled along; under a negative scale, which turns
    costs into rewards, they are None.

    Args:
        env: The environment, unbatched.
        scale: The factor, finite and not 0.

    Raises:
        TypeError: If `env` is no environment or `scale` no number.
        ValueError: If `scale` is 0, infinite or NaN.

    Example:
        >>> from nnx_ppo_train.envs import ConstantReward
        >>> env = RewardScalingWrapper(ConstantReward(), 0.5)
        >>> state = env.step(env.reset(jax.random.key(0)), jnp.zeros(1))
        >>> float(state.reward), env.max_return
        (0.5, 5.0)
    """

    def __init__(self, env: Any, scale: float):
        super().__init__(env)
        self.scale = finite_float(scale, "RewardScalingWrapper: scale")
        if self.scale == 0.0:
            raise ValueError(
                "RewardScalingWrapper: scale: expected a number that is not 0, got 0, with which "
                "all rewards would vanish; use a small number such as 0.01"
            )

    def reset(self, rng: PRNGKeyArray) -> Any:
        """Reset the inner environment."""
        return self._scaled(self.env.reset(rng))

    def step(self, state: Any, action: PyTree) -> Any:
        """Step the inner environment and scale what it earned."""
        return self._scaled(self.env.step(state, action))

    def known_return(self, value: float) -> float | None:
        return value * self.scale if self.scale > 0.0 else None

    def _scaled(self, state: Any) -> Any:
        return state.replace(reward=jax.tree.map(self._scale_leaf, state.reward))

    def _scale_leaf(self, reward: Any) -> Float[Array, ""]:
        kind = jnp.result_type(reward)
        if not jnp.issubdtype(kind, jnp.floating):
            kind = jnp.result_type(float)
        return jnp.asarray(reward, kind) * jnp.asarray(self.scale, kind)
