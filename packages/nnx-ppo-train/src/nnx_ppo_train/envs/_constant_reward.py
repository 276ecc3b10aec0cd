"""Reward 1 in every step, forever but for the time limit."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._time_limit import TimeLimitEnv, check_discount


class ConstantReward(TimeLimitEnv):
    """Earns 1 in every step and always looks the same; truncated after `limit` steps.

    A learner that treats the limit as what it is, the end of the recording and not of the task,
    finds the value 1 / (1 - discount) whatever the limit. One that treats it as death finds less.

    Args:
        limit: Steps of an episode, or several numbers of which each reset draws one.

    Raises:
        TypeError: If a limit is no integer.
        ValueError: If a limit is below 1 or none is given.

    Example:
        >>> env = ConstantReward(limit=3)
        >>> env.state_value(0.75), env.max_return
        (4.0, 3.0)
    """

    @property
    def max_return(self) -> float:
        """The expected return of every policy: the mean limit."""
        return self.mean_limit

    def state_value(self, discount: float) -> float:
        """Return the value of the only observation, `1 / (1 - discount)`."""
        return 1.0 / (1.0 - check_discount(discount, "ConstantReward"))

    def observe(self, steps: Int[Array, ""]) -> Float[Array, "1"]:
        return jnp.ones((1,), jnp.result_type(float))

    def reward(self, steps: Int[Array, ""], truncated: Bool[Array, ""]) -> Bool[Array, ""]:
        return jnp.ones((), bool)
