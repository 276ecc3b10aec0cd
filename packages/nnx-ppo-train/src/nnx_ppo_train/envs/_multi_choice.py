"""Several choices at once: the task for multi-categorical actions."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ._checks import integer_action, positive_int
from ._rounds import Rounds


class MultiChoice(Rounds):
    """Set every dial of a row to the position shown.

    Dial k has `sizes[k]` positions. The observation is the wanted position of each dial as
    one-hot, one dial after the other; the positions are new, independent and uniform in every
    round. The action, int32 of shape (number of dials,), sets all dials. A round earns the share of
    dials that are right, so random positions earn `chance_return = n_rounds * mean(1 / sizes)` on
    average.

    Args:
        sizes: Number of positions of each dial, at least 2 each.
        n_rounds: Steps of an episode.

    Raises:
        TypeError: If an argument is no integer, or `sizes` no sequence of them.
        ValueError: If an argument is too small, or there are no dials.

    Example:
        >>> env = MultiChoice(sizes=(2, 3))
        >>> state = env.reset(jax.random.key(0))
        >>> best = jnp.stack([jnp.argmax(state.obs[:2]), jnp.argmax(state.obs[2:])])
        >>> float(env.step(state, best).reward)
        1.0
    """

    action_kind = "multi-discrete"

    def __init__(self, *, sizes: Sequence[int] = (2, 3, 4), n_rounds: int = 10):
        super().__init__(n_rounds)
        if not isinstance(sizes, Sequence) or isinstance(sizes, str):
            raise TypeError(f"MultiChoice: sizes: expected a sequence of integers, got {sizes!r}")
        if not sizes:
            raise ValueError("MultiChoice: sizes must have at least one entry, got none")
        self.sizes = tuple(
            positive_int(size, f"MultiChoice: sizes[{k}]", least=2) for k, size in enumerate(sizes)
        )

    @property
    def observation_size(self) -> int:
        """One entry per position of every dial."""
        return sum(self.sizes)

    @property
    def action_size(self) -> tuple[int, ...]:
        """Number of positions of each dial."""
        return self.sizes

    @property
    def chance_return(self) -> float:
        """Expected return of random positions, and of any that do not depend on what is shown."""
        return self.n_rounds * sum(1.0 / size for size in self.sizes) / len(self.sizes)

    def pose(self, rng: PRNGKeyArray) -> dict[str, Array]:
        """Draw the wanted positions."""
        sizes = jnp.array(self.sizes, jnp.int32)
        return {"wanted": jax.random.randint(rng, sizes.shape, 0, sizes, jnp.int32)}

    def show(self, problem: dict[str, Array]) -> Float[Array, " features"]:
        """The wanted positions as one-hot."""
        rows = [jax.nn.one_hot(problem["wanted"][k], size) for k, size in enumerate(self.sizes)]
        return jnp.concatenate(rows)

    def score(
        self, problem: dict[str, Array], action: Array
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """The share of dials that are right."""
        action, legal = integer_action(action, self.sizes, "MultiChoice")
        return jnp.mean(action == problem["wanted"]), ~legal
