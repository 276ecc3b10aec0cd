"""Generalised advantage estimation: a pure function of arrays."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._arguments import check_same_shapes
from ._validate import check_number


def gae(
    rewards: Float[Array, "T B"],
    values: Float[Array, "T B"],
    bootstrap_values: Float[Array, "T B"],
    done: Bool[Array, "T B"],
    *,
    discount: float,
    lambda_: float,
    ignored: Bool[Array, "T B"] | None = None,
) -> Float[Array, "T B"]:
    """Returns the advantages of a rollout (Schulman et al. 2016, arXiv 1506.02438).

    With V' the value of what follows step t: the bootstrap value where the sequence is cut there
    (an episode's end, the rollout's end), else the value of step t + 1,

        delta_t = reward_t + discount * V'_t - value_t
        advantage_t = delta_t + discount * lambda * (1 - done_t) * advantage_{t+1}

    Args:
      rewards: rewards.
      values: values of the observations at each step.
      bootstrap_values: see :class:`Transition`: zero after a termination, the value of the true
        next state after a truncation and at the last step.
      done: the row's episode ended with the step, for whatever reason.
      discount: discount per step, in [0, 1].
      lambda_: lambda, in [0, 1].
      ignored: steps whose own delta counts as zero, or None.

    Returns:
      Advantages, in the unit of the rewards.

    Raises:
      TypeError: if something is no array, or a discount no number.
      ValueError: if the arrays are not all of one shape (T, B), or a number lies outside [0, 1].

    Example:
      >>> import jax.numpy as jnp
      >>> one, zero = jnp.ones((2, 1)), jnp.zeros((2, 1))
      >>> gae(one, zero, zero, zero.astype(bool), discount=0.5, lambda_=1.0)[:, 0].tolist()
      [1.5, 1.0]
    """
    given = {"rewards": rewards, "values": values, "bootstrap_values": bootstrap_values}
    given |= {"done": done} if ignored is None else {"done": done, "ignored": ignored}
    check_same_shapes(given, "gae", "(T, B)")
    for name, number in (("discount", discount), ("lambda_", lambda_)):
        traced = isinstance(number, jax.Array) and number.shape == ()  # as the training's own
        if not traced or not jnp.issubdtype(jnp.result_type(number), jnp.number):
            check_number(number, f"gae: {name}", at_least=0.0, at_most=1.0)
    following = jnp.concatenate([values[1:], bootstrap_values[-1:]])
    following = jnp.where(done, bootstrap_values, following)
    delta = rewards + discount * following - values
    if ignored is not None:
        delta = jnp.where(ignored, 0.0, delta)
    decay = discount * lambda_ * (1.0 - done.astype(delta.dtype))

    return jax.lax.platform_dependent(decay, delta, cpu=_by_scan, default=_by_associative_scan)


def _by_scan(decay: Float[Array, "T B"], delta: Float[Array, "T B"]) -> Float[Array, "T B"]:
    """a_t = delta_t + decay_t * a_{t+1}, step by step: the least work."""

    def step(following: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        decay, delta = inputs
        advantage = delta + _times(decay, following)
        return advantage, advantage

    return jax.lax.scan(step, jnp.zeros_like(delta[0]), (decay, delta), reverse=True)[1]


def _by_associative_scan(
    decay: Float[Array, "T B"], delta: Float[Array, "T B"]
) -> Float[Array, "T B"]:
    """The same in about 2 log2(T) operations one after the other, for accelerators."""

    def compose(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        later_decay, later_delta = later
        earlier_decay, earlier_delta = earlier
        return earlier_decay * later_decay, earlier_delta + _times(earlier_decay, later_delta)

    return jax.lax.associative_scan(compose, (decay, delta), reverse=True)[1]


def _times(decay: Array, following: Array) -> Array:
    """Returns their product; 0 where an episode ends, also if NaN follows in the next one."""
    return jnp.where(decay == 0, 0, decay * following)
