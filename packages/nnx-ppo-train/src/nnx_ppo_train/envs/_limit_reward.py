"""Reward 1 in the very step of the time limit."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._time_limit import TimeLimitEnv, check_discount


class LimitReward(TimeLimitEnv):
    """Earns 1 in the last step of an episode only and always looks the same.

    The observation does not tell the last step from others, so the one-step value (lambda = 0) with
    bootstrapping at the limit solves `v = 1 / N + discount * v`, N the mean limit: one step in N
    earns 1. A learner that leaves truncated steps out of its loss never sees a reward and finds 0.

    Args:
        limit: Steps of an episode, or several numbers of which each reset draws one.

    Raises:
        TypeError: If a limit is no integer.
        ValueError: If a limit is below 1 or none is given.

    Example:
        >>> LimitReward(limit=2).state_value(0.75)
        2.0
    """

    @property
    def max_return(self) -> float:
        """The return of every policy: 1."""
        return 1.0

    def state_value(self, discount: float) -> float:
        """Return the one-step value `1 / (N (1 - discount))`, N the mean limit."""
        return 1.0 / (self.mean_limit * (1.0 - check_discount(discount, "LimitReward")))

    def observe(self, steps: Int[Array, ""]) -> Float[Array, "1"]:
        return jnp.ones((1,), jnp.result_type(float))

    def reward(self, steps: Int[Array, ""], truncated: Bool[Array, ""]) -> Bool[Array, ""]:
        return truncated
