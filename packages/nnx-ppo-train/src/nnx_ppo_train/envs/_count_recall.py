"""How often was this value dealt? Several counters at once, asked for at random."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ._checks import positive_int
from ._quiz import Quiz


class CountRecall(Quiz):
    """See a card and a query at each step; answer how often the queried value was dealt so far.

    In the manner of the task of that name of POPGym (Morad et al. 2023, "POPGym: Benchmarking
    Partially Observable Reinforcement Learning", ICLR). A shuffled deck holds `n_copies` cards of
    each of `n_values` values. A step shows the next card's value and a query value, independent
    and uniform, both as one-hot; the right answer is the number of cards of the query value up to
    now, the one in view included: 0 to `n_copies`. A right answer earns 1 / deck_size and a wrong
    one as much less, so perfect play earns `optimal_return = 1`. The episode terminates with the
    last card.

    The best that a policy without memory can do is known. With n values and c copies, if the query
    is the value in view (probability 1 / n), the card is equally likely the first to c-th of its
    kind. Otherwise the card's place among itself and the c queried cards is uniform, so the count
    is uniform on 0 to c. So its answers are right with probability at most

        1 / (n c) + (1 - 1 / n) / (c + 1)

    and `memoryless_return` is twice that, less 1.

    Args:
        n_values: Number of values, at least 2.
        n_copies: Cards of each value, at least 1.

    Raises:
        TypeError: If an argument is no integer.
        ValueError: If an argument is too small.

    Example:
        >>> env = CountRecall(n_values=2, n_copies=2)
        >>> state, total = env.reset(jax.random.key(0)), 0.0
        >>> counts = jnp.zeros(2, jnp.int32)
        >>> for _ in range(env.episode_length):
        ...     shown, query = jnp.split(state.obs, 2)
        ...     counts = counts.at[jnp.argmax(shown)].add(1)
        ...     state = env.step(state, counts[jnp.argmax(query)])
        ...     total += float(state.reward)
        >>> total, round(env.memoryless_return, 3)
        (1.0, -0.167)
    """

    def __init__(self, *, n_values: int = 2, n_copies: int = 12):
        self.n_values = positive_int(n_values, "CountRecall: n_values", least=2)
        self.n_copies = positive_int(n_copies, "CountRecall: n_copies")

    @property
    def observation_size(self) -> int:
        """The value in view and the query, each as one-hot."""
        return 2 * self.n_values

    @property
    def action_size(self) -> int:
        """The counts 0 to `n_copies`."""
        return self.n_copies + 1

    @property
    def episode_length(self) -> int:
        return self.n_values * self.n_copies

    @property
    def n_questions(self) -> int:
        return self.episode_length

    @property
    def chance_when_blind(self) -> float:
        same = 1.0 / self.n_values
        return same / self.n_copies + (1.0 - same) / (self.n_copies + 1)

    def deal(self, rng: PRNGKeyArray) -> tuple[Int[Array, "time 2"], Int[Array, " time"]]:
        """Shuffle the deck and draw the queries."""
        deck_key, query_key = jax.random.split(rng)
        deck = jnp.repeat(jnp.arange(self.n_values, dtype=jnp.int32), self.n_copies)
        deck = jax.random.permutation(deck_key, deck)
        queries = jax.random.randint(query_key, deck.shape, 0, self.n_values, jnp.int32)
        so_far = jnp.tril(deck[None, :] == queries[:, None])  # row t: cards up to t that match
        return jnp.stack([deck, queries], axis=1), so_far.sum(1, dtype=jnp.int32)

    def show(self, card: Int[Array, "2"]) -> Float[Array, " features"]:
        """One-hots of value and query."""
        return jax.nn.one_hot(card, self.n_values).reshape(-1)
