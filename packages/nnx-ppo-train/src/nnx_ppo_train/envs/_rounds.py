"""What the choice tasks share: rounds that have nothing to do with each other."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ._checks import all_finite, positive_int
from ._protocol import State


class RoundsState(State):
    """State of the choice tasks.

    Attributes:
        key: The problem of round t is drawn from `fold_in(key, t)`.
        problem: The problem of this round, arrays by name.
        steps: Rounds played since the reset.
    """

    key: PRNGKeyArray
    problem: dict[str, Array]
    steps: Int[Array, ""]


class Rounds(abc.ABC):
    """Base of tasks in which every step poses a new problem, solved by one action.

    The best action is visible in the observation and earns 1, so an episode earns at most
    `max_return = n_rounds`. It terminates after its last round, and at once, earning nothing, with
    an action that is out of range or not finite. A subclass draws and shows problems and scores
    actions.

    Args:
        n_rounds: Steps of an episode.
    """

    def __init__(self, n_rounds: int):
        self.n_rounds = positive_int(n_rounds, f"{type(self).__name__}: n_rounds")

    @abc.abstractmethod
    def pose(self, rng: PRNGKeyArray) -> dict[str, Array]:
        """Draw a problem."""

    @abc.abstractmethod
    def show(self, problem: dict[str, Array]) -> Any:
        """Turn a problem into an observation."""

    @abc.abstractmethod
    def score(
        self, problem: dict[str, Array], action: Any
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """Return the reward, in [0, 1], and whether it fails: ends the episode for nothing."""

    @property
    def episode_length(self) -> int:
        """Steps of an episode."""
        return self.n_rounds

    @property
    def max_return(self) -> float:
        """Return of the best action in every round."""
        return float(self.n_rounds)

    def reset(self, rng: PRNGKeyArray) -> RoundsState:
        """Pose the first problem."""
        problem = self.pose(jax.random.fold_in(rng, 0))
        return RoundsState(
            obs=self.show(problem),
            reward=jnp.zeros((), jnp.result_type(float)),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={},
            key=rng,
            problem=problem,
            steps=jnp.zeros((), jnp.int32),
        )

    def step(self, state: RoundsState, action: Any) -> RoundsState:
        """Score the action and pose the next problem."""
        reward, failed = self.score(state.problem, action)
        failed = failed | ~all_finite(state.problem)
        steps = state.steps + 1
        problem = self.pose(jax.random.fold_in(state.key, steps))
        return state.replace(
            obs=self.show(problem),
            reward=jnp.where(failed, 0.0, reward).astype(state.reward.dtype),
            done=failed | (steps >= self.n_rounds),
            info={**state.info, "truncated": jnp.zeros((), bool)},
            problem=problem,
            steps=steps,
        )

    def draw(self, ax: Any, state: RoundsState) -> None:
        """Draw the observation as bars."""
        shown = np.concatenate([np.asarray(leaf, float) for leaf in jax.tree.leaves(state.obs)])
        ax.clear()
        ax.bar(np.arange(len(shown)), shown, color="C0")
        ax.set(ylim=(-1.1, 1.1), xlabel="entry of the observation")
        ax.set_title(f"step {int(state.steps)}, reward {float(state.reward):.3f}")
