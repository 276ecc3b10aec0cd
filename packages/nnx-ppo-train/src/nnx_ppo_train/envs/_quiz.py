"""What the card tasks share: a deck shown card by card, and a question at every card."""

import abc
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ._checks import check_choice
from ._protocol import State


class QuizState(State):
    """State of the card tasks.

    Attributes:
        cards: What is shown at every step of the episode, one row per step.
        answers: The right answer at every step; -1 where nothing is asked.
        steps: Steps taken since the reset.
    """

    cards: Int[Array, "time fields"]
    answers: Int[Array, " time"]
    steps: Int[Array, ""]


class Quiz(abc.ABC):
    """Base of tasks that show one card a step and ask about the cards so far.

    A right answer earns 1 / n and a wrong one -1 / n, n being the number of questions of an
    episode, so that returns lie in [-1, 1] and perfect play earns 1. Answers where nothing is asked
    count for nothing. The episode terminates with the last card, or with an action that is no
    answer at all (out of range), which counts as a wrong answer to all questions to come. A
    subclass deals the cards and says what they show.
    """

    action_kind = "discrete"
    optimal_return = 1.0
    max_return = 1.0

    @property
    @abc.abstractmethod
    def episode_length(self) -> int:
        """Cards of a deck, and so steps of an episode."""

    @property
    @abc.abstractmethod
    def action_size(self) -> int:
        """Number of answers."""

    @property
    @abc.abstractmethod
    def n_questions(self) -> int:
        """Answers that count in an episode."""

    @property
    @abc.abstractmethod
    def chance_when_blind(self) -> float:
        """Greatest probability of a right answer without memory."""

    @property
    def memoryless_return(self) -> float:
        """Greatest expected return of a policy without memory."""
        return 2.0 * self.chance_when_blind - 1.0

    @abc.abstractmethod
    def deal(self, rng: PRNGKeyArray) -> tuple[Int[Array, "time fields"], Int[Array, " time"]]:
        """Draw the cards of an episode and work out the answers."""

    @abc.abstractmethod
    def show(self, card: Int[Array, " fields"]) -> Float[Array, " features"]:
        """Turn a card into an observation."""

    def reset(self, rng: PRNGKeyArray) -> QuizState:
        """Deal, and show the first card."""
        cards, answers = self.deal(rng)
        return QuizState(
            obs=self.show(cards[0]),
            reward=jnp.zeros((), jnp.result_type(float)),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={},
            cards=cards,
            answers=answers,
            steps=jnp.zeros((), jnp.int32),
        )

    def step(self, state: QuizState, action: Int[Array, ""]) -> QuizState:
        """Answer the question of the card in view and show the next card; none after the last."""
        legal = check_choice(action, self.action_size, type(self).__name__)
        answer = state.answers[jnp.minimum(state.steps, self.episode_length - 1)]
        sign = jnp.where(action == answer, 1.0, -1.0) * (answer >= 0)
        steps = state.steps + 1
        to_come = jnp.arange(self.episode_length) >= state.steps
        unanswered = jnp.sum((state.answers >= 0) & to_come)
        score = jnp.where(legal, sign, -unanswered)
        over = (steps >= self.episode_length) | ~legal
        following = self.show(state.cards[jnp.minimum(steps, self.episode_length - 1)])
        return state.replace(
            obs=jnp.where(over, jnp.zeros_like(following), following),
            reward=(score / self.n_questions).astype(state.reward.dtype),
            done=over,
            info={**state.info, "truncated": jnp.zeros((), bool)},
            steps=steps,
        )

    def draw(self, ax: Any, state: QuizState) -> None:
        """Draw the observation as bars."""
        shown = np.asarray(state.obs, float)
        ax.clear()
        ax.bar(np.arange(len(shown)), shown, color="C0")
        ax.set(ylim=(0.0, 1.1), xlabel="entry of the observation")
        ax.set_title(f"step {int(state.steps)}, reward {float(state.reward):+.3f}")
