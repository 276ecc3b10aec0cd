"""Three observations in a row, of which only the last pays, under a random time limit."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._time_limit import TimeLimitEnv, check_discount


class CountingLimit(TimeLimitEnv):
    """Shows min(t, 2) and earns 1 in every step that leaves observation 2; the limit is drawn.

    With limits 2 and 6, half of the episodes are cut off just before they would begin to pay. The
    true values of the observations 0, 1 and 2 are discount^2, discount and 1, each over (1 -
    discount): 8.1, 9 and 10 at discount 0.9. They come out only if a truncated step bootstraps from
    the observation that it led to: not from the one before it, nor from that of the next episode.

    Args:
        limit: Steps of an episode, or several numbers of which each reset draws one.

    Raises:
        TypeError: If a limit is no integer.
        ValueError: If a limit is below 1 or none is given.

    Example:
        >>> CountingLimit().state_values(0.5)
        (0.5, 1.0, 2.0)
    """

    def __init__(self, *, limit: int | tuple[int, ...] = (2, 6)):
        super().__init__(limit=limit)

    @property
    def max_return(self) -> float:
        """The expected return of every policy: the mean number of steps after the second."""
        return sum(max(limit - 2, 0) for limit in self.limits) / len(self.limits)

    def state_values(self, discount: float) -> tuple[float, float, float]:
        """Return the values of the observations 0, 1 and 2."""
        discount = check_discount(discount, "CountingLimit")
        last = 1.0 / (1.0 - discount)
        return discount**2 * last, discount * last, last

    def observe(self, steps: Int[Array, ""]) -> Float[Array, "1"]:
        return jnp.minimum(steps, 2).astype(jnp.result_type(float))[None]

    def reward(self, steps: Int[Array, ""], truncated: Bool[Array, ""]) -> Bool[Array, ""]:
        return steps > 2
