"""Name the suit of some cards ago, at every card: a memory that must keep moving."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ._checks import positive_int
from ._quiz import Quiz


class RepeatPrevious(Quiz):
    """See one suit a step and name the one seen `delay` steps ago.

    In the manner of the task of that name of POPGym (Morad et al. 2023, "POPGym: Benchmarking
    Partially Observable Reinforcement Learning", ICLR). The observation is the suit of the card as
    one-hot. From step `delay` on, each step asks for the suit of `delay` steps before; a right
    answer earns 1 / (deck_size - delay) and a wrong one as much less, so perfect play earns
    `optimal_return = 1`. The episode terminates with the last card.

        step           0    1   ...   delay        delay + 1
        observation    s_0  s_1       s_delay      s_{delay+1}
        right answer   -    -         s_0          s_1

    Suits are independent and uniform, so the suit in view says nothing about earlier ones: each
    answer of a policy without memory, however drawn, is right with probability 1 / n_suits, and its
    expected return is exactly `memoryless_return = 2 / n_suits - 1`. Solving the task takes a queue
    of the last `delay` suits, which a graph has in a connection with that delay.

    Args:
        n_suits: Number of suits, at least 2.
        delay: Steps from card to answer, at least 1.
        deck_size: Cards of an episode, more than `delay`.

    Raises:
        TypeError: If an argument is no integer.
        ValueError: If an argument is too small.

    Example:
        >>> env = RepeatPrevious(n_suits=3, delay=1, deck_size=3)
        >>> state = env.reset(jax.random.key(0))
        >>> total, previous = 0.0, 0
        >>> for _ in range(env.episode_length):
        ...     shown = jnp.argmax(state.obs)
        ...     state = env.step(state, jnp.int32(previous))
        ...     total, previous = total + float(state.reward), shown
        >>> total, bool(state.done)
        (1.0, True)
    """

    def __init__(self, *, n_suits: int = 4, delay: int = 4, deck_size: int = 32):
        self.n_suits = positive_int(n_suits, "RepeatPrevious: n_suits", least=2)
        self.delay = positive_int(delay, "RepeatPrevious: delay")
        self.deck_size = positive_int(
            deck_size, f"RepeatPrevious: deck_size with delay={delay}", least=self.delay + 1
        )

    @property
    def observation_size(self) -> int:
        """The suit as one-hot."""
        return self.n_suits

    @property
    def action_size(self) -> int:
        """One answer per suit."""
        return self.n_suits

    @property
    def episode_length(self) -> int:
        return self.deck_size

    @property
    def n_questions(self) -> int:
        return self.deck_size - self.delay

    @property
    def chance_when_blind(self) -> float:
        return 1.0 / self.n_suits

    def deal(self, rng: PRNGKeyArray) -> tuple[Int[Array, "time 1"], Int[Array, " time"]]:
        """Draw the suits."""
        suits = jax.random.randint(rng, (self.deck_size,), 0, self.n_suits, jnp.int32)
        early = jnp.full((self.delay,), -1, jnp.int32)
        return suits[:, None], jnp.concatenate([early, suits[: -self.delay]])

    def show(self, card: Int[Array, "1"]) -> Float[Array, " features"]:
        """One-hot of the suit."""
        return jax.nn.one_hot(card[0], self.n_suits)
