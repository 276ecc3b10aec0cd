"""What the tasks with a time limit share: a step count, a limit, and nothing else."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ._checks import continuous_action, finite_float, positive_int
from ._protocol import State


class TimeLimitState(State):
    """State of the tasks with a time limit.

    Attributes:
        steps: Steps taken since the reset.
        limit: Number of steps of this episode.
    """

    steps: Int[Array, ""]
    limit: Int[Array, ""]


class TimeLimitEnv(abc.ABC):
    """Base of tasks that only count: every episode is truncated after exactly `limit` steps.

    They exist because the true value of every state is known, so that a learner's treatment of
    truncation can be checked against it. The one action is ignored, but one that is not finite
    terminates the episode and earns nothing.

    Args:
        limit: Steps of an episode, or several numbers of which each reset draws one.

    Raises:
        TypeError: If a limit is no integer.
        ValueError: If a limit is below 1 or none is given.
    """

    observation_size = 1
    action_size = 1
    action_kind = "continuous"

    def __init__(self, *, limit: int | tuple[int, ...] = 10):
        name = type(self).__name__
        limits = tuple(limit) if isinstance(limit, (tuple, list)) else (limit,)
        if not limits:
            raise ValueError(f"{name}: limit: expected a number of steps or several, got none")
        self.limits = tuple(positive_int(each, f"{name}: limit") for each in limits)

    @property
    def episode_length(self) -> int:
        """The largest limit."""
        return max(self.limits)

    @property
    def mean_limit(self) -> float:
        """The mean number of steps of an episode."""
        return sum(self.limits) / len(self.limits)

    @abc.abstractmethod
    def observe(self, steps: Int[Array, ""]) -> Float[Array, "1"]:
        """Return the observation after that many steps."""

    @abc.abstractmethod
    def reward(self, steps: Int[Array, ""], truncated: Bool[Array, ""]) -> Bool[Array, ""]:
        """Say whether the step that was the `steps`-th of its episode earned 1."""

    def reset(self, rng: PRNGKeyArray) -> TimeLimitState:
        """Draw this episode's limit."""
        limits = jnp.asarray(self.limits, jnp.int32)
        steps = jnp.zeros((), jnp.int32)
        return TimeLimitState(
            obs=self.observe(steps),
            reward=jnp.zeros((), jnp.result_type(float)),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={},
            steps=steps,
            limit=limits[jax.random.randint(rng, (), 0, len(self.limits))],
        )

    def step(self, state: TimeLimitState, action: Float[Array, "1"]) -> TimeLimitState:
        """Count."""
        _, legal = continuous_action(action, 1, type(self).__name__)
        steps = state.steps + 1
        truncated = (steps >= state.limit) & legal
        return state.replace(
            obs=self.observe(steps),
            reward=(self.reward(steps, truncated) & legal).astype(state.reward.dtype),
            done=truncated | ~legal,
            info={**state.info, "truncated": truncated},
            steps=steps,
        )

    def draw(self, ax: Any, state: TimeLimitState) -> None:
        """Draw how far the episode has got."""
        ax.clear()
        ax.barh(["steps"], [int(state.steps)], color="C0")
        ax.set(xlim=(0, int(state.limit)), xlabel="step")
        ax.set_title(f"reward {float(state.reward):g}")


def check_discount(discount: float, where: str) -> float:
    """Return `discount` as a float in [0, 1).

    Raises:
        TypeError: If it is no number.
        ValueError: If it is outside [0, 1).
    """
    number = finite_float(discount, f"{where}: discount", least=0.0)
    if number >= 1.0:
        raise ValueError(
            f"{where}: discount: expected a number below 1, got {number}; the value is infinite"
        )
    return number
