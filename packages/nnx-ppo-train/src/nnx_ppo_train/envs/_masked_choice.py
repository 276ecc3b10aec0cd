"""Choices of which only some are allowed: the task for action masks."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ._checks import integer_action, positive_int
from ._rounds import Rounds, RoundsState


class MaskedChoice(Rounds):
    """Take the largest of the numbers that are allowed.

    The observation is a dict: `values`, (n_choices,) uniform in [0, 1), and `action_mask`, true at
    the `n_allowed` places that may be chosen; both are new in every round. A choice that is allowed
    earns its value over the largest allowed one. A choice that is not allowed earns nothing and
    ends the episode.

    Choosing at random among what is allowed earns `random_return = n_rounds (n_allowed + 1) /
    (2 n_allowed)` on average. Whatever does not depend on the mask is allowed with probability
    p = n_allowed / n_choices only, so it earns at most p + p^2 + ... + p^n_rounds, which is what
    taking the largest value of all earns: `return_without_mask`.

    Args:
        n_choices: Number of values, at least 2.
        n_allowed: How many of them may be chosen, at most n_choices.
        n_rounds: Largest number of steps of an episode.

    Raises:
        TypeError: If an argument is no integer.
        ValueError: If an argument is too small, or `n_allowed` too large.

    Example:
        >>> env = MaskedChoice(n_choices=4, n_allowed=2)
        >>> state = env.reset(jax.random.key(0))
        >>> best = jnp.argmax(jnp.where(state.obs["action_mask"], state.obs["values"], -1.0))
        >>> float(env.step(state, best).reward)
        1.0
    """

    action_kind = "discrete"

    def __init__(self, *, n_choices: int = 6, n_allowed: int = 3, n_rounds: int = 10):
        super().__init__(n_rounds)
        self.n_choices = positive_int(n_choices, "MaskedChoice: n_choices", least=2)
        self.n_allowed = positive_int(n_allowed, "MaskedChoice: n_allowed")
        if self.n_allowed > self.n_choices:
            raise ValueError(
                f"MaskedChoice: n_allowed: expected at most n_choices = {self.n_choices}, got "
                f"{self.n_allowed}"
            )

    @property
    def observation_size(self) -> dict[str, int]:
        """Values and mask."""
        return {"values": self.n_choices, "action_mask": self.n_choices}

    @property
    def action_size(self) -> int:
        """Number of values."""
        return self.n_choices

    @property
    def random_return(self) -> float:
        """Expected return of random allowed choices."""
        return self.n_rounds * (self.n_allowed + 1) / (2 * self.n_allowed)

    @property
    def return_without_mask(self) -> float:
        """Greatest expected return if choices do not depend on the mask."""
        allowed = self.n_allowed / self.n_choices
        return sum(allowed**rounds for rounds in range(1, self.n_rounds + 1))

    def pose(self, rng: PRNGKeyArray) -> dict[str, Array]:
        """Draw the values, and which of them are allowed."""
        value_key, mask_key = jax.random.split(rng)
        return {
            "values": jax.random.uniform(value_key, (self.n_choices,)),
            "allowed": jax.random.permutation(
                mask_key, jnp.arange(self.n_choices) < self.n_allowed
            ),
        }

    def show(self, problem: dict[str, Array]) -> dict[str, Array]:
        """Values and mask."""
        return {"values": problem["values"], "action_mask": problem["allowed"]}

    def score(
        self, problem: dict[str, Array], action: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """The value over the largest allowed one; nothing, and the end, if it is not allowed."""
        action, legal = integer_action(action, self.n_choices, "MaskedChoice")
        action = jnp.where(legal, action, 0)
        allowed = problem["allowed"][action] & legal
        largest = jnp.max(jnp.where(problem["allowed"], problem["values"], 0.0))
        share = problem["values"][action] / jnp.maximum(largest, jnp.finfo(largest.dtype).tiny)
        return jnp.where(allowed, share, 0.0), ~allowed

    def draw(self, ax: Any, state: RoundsState) -> None:
        """Draw the values as bars, those that are not allowed in gray."""
        allowed = np.asarray(state.obs["action_mask"])
        ax.clear()
        ax.bar(
            np.arange(self.n_choices),
            np.asarray(state.obs["values"], float),
            color=["C0" if one else "lightgray" for one in allowed],
        )
        ax.set(ylim=(0.0, 1.1), xlabel="choice")
        ax.set_title(f"step {int(state.steps)}, reward {float(state.reward):.3f}")
