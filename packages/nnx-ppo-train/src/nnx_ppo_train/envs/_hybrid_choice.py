"""A choice and an aim at once: the task for hybrid actions."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ._checks import continuous_action, integer_action, positive_int
from ._rounds import Rounds

REACH = 0.5  # distance from the target at which an aim earns nothing


class HybridChoice(Rounds):
    """Choose the symbol shown and aim at the target shown, in one action.

    The observation is the symbol as one-hot and the target, a number in [-1, 1]; both are new and
    uniform in every round. The action is a dict: `choice`, an int32 in [0, n_choices), and `aim`,
    of shape (1,) in [-1, 1]. A round earns

        [choice == symbol] * max(0, 1 - ((aim - target) / 0.5)^2),

    so each half of the action is worth nothing without the other. Right choices with an aim that
    does not depend on the target earn at most `return_without_aim = n_rounds / 3`, right aims with
    a choice that does not depend on the symbol `return_without_choice = n_rounds / n_choices`.

    Args:
        n_choices: Number of symbols, at least 2.
        n_rounds: Steps of an episode.

    Raises:
        TypeError: If an argument is no integer.
        ValueError: If an argument is too small.

    Example:
        >>> env = HybridChoice(n_choices=3)
        >>> state = env.reset(jax.random.key(0))
        >>> best = {"choice": jnp.argmax(state.obs[:3]), "aim": state.obs[3:]}
        >>> float(env.step(state, best).reward)
        1.0
    """

    def __init__(self, *, n_choices: int = 4, n_rounds: int = 10):
        super().__init__(n_rounds)
        self.n_choices = positive_int(n_choices, "HybridChoice: n_choices", least=2)

    @property
    def observation_size(self) -> int:
        """The one-hot symbol and the target."""
        return self.n_choices + 1

    @property
    def action_kind(self) -> dict[str, str]:
        """What the parts of the action are."""
        return {"choice": "discrete", "aim": "continuous"}

    @property
    def action_size(self) -> dict[str, int]:
        """One choice and one number."""
        return {"choice": self.n_choices, "aim": 1}

    @property
    def return_without_aim(self) -> float:
        """Greatest expected return if the aim does not depend on the target."""
        return self.n_rounds * 2.0 * REACH / 3.0

    @property
    def return_without_choice(self) -> float:
        """Greatest expected return if the choice does not depend on the symbol."""
        return self.n_rounds / self.n_choices

    def pose(self, rng: PRNGKeyArray) -> dict[str, Array]:
        """Draw symbol and target."""
        symbol_key, target_key = jax.random.split(rng)
        return {
            "symbol": jax.random.randint(symbol_key, (), 0, self.n_choices, jnp.int32),
            "target": jax.random.uniform(target_key, (1,), minval=-1.0, maxval=1.0),
        }

    def show(self, problem: dict[str, Array]) -> Float[Array, " features"]:
        """Symbol, then target."""
        symbol = jax.nn.one_hot(problem["symbol"], self.n_choices)
        return jnp.concatenate([symbol, problem["target"]])

    def score(
        self, problem: dict[str, Array], action: dict[str, Array]
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """The closeness of the aim, if the choice is right."""
        if not isinstance(action, dict) or set(action) != {"choice", "aim"}:
            got: Any = sorted(action) if isinstance(action, dict) else type(action).__name__
            raise ValueError(
                "HybridChoice: expected an action dict with the entries ['aim', 'choice'], got "
                f"{got}"
            )
        choice, in_range = integer_action(action["choice"], self.n_choices, "HybridChoice, choice")
        aim, finite = continuous_action(action["aim"], 1, "HybridChoice, aim")
        miss = ((aim - problem["target"])[0]) / REACH
        closeness = jnp.maximum(0.0, 1.0 - jnp.square(miss))
        return closeness * (choice == problem["symbol"]), ~(in_range & finite)
