"""A pure memory task whose best returns, with and without memory, are known exactly."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from ._checks import check_choice, positive_int
from ._protocol import State


class RecallState(State):
    """State of :class:`Recall`.

    Attributes:
        cues: The symbol of every trial of the episode, int32 in [0, n_symbols), one per trial.
        steps: Steps taken since the reset.
    """

    cues: Int[Array, " trials"]
    steps: Int[Array, ""]


class Recall:
    """See a symbol now, name it `delay` steps later.

    A trial takes `delay + 1` steps. At its first step the observation shows the cue, at the
    following ones nothing, and at the last one the go flag; the action at that last step earns 1 if
    it is the cue and 0 otherwise. Other actions have no effect, but one that is out of range
    terminates the episode. So a graph whose connection delays
    add up to `delay` sees the cue just when it has to answer. The observation has `n_symbols + 1`
    entries: the cue as one-hot, then the go flag.

        step in trial   0         1 ... delay-1   delay
        observation     cue       zeros           go flag
        reward          0         0               1 if action == cue

    The episode terminates with the answer of its last trial. Cues are independent and uniform. What
    a memoryless policy sees when it has to answer is the same whatever the cue was, so each of its
    answers, however drawn, is right with probability 1 / n_symbols: its expected return is exactly
    `memoryless_return = n_trials / n_symbols`. Remembering the cue earns `optimal_return =
    n_trials`.

    Args:
        n_symbols: Number of symbols, at least 2.
        delay: Steps from cue to answer, at least 1.
        n_trials: Trials in an episode. More than one makes it necessary to forget, too.

    Raises:
        TypeError: If an argument is no integer.
        ValueError: If an argument is too small.

    Example:
        >>> env = Recall(n_symbols=3, delay=2)
        >>> state = env.reset(jax.random.key(1))
        >>> cue = jnp.argmax(state.obs)
        >>> for action in (0, 0, cue):
        ...     state = env.step(state, jnp.int32(action))
        >>> float(state.reward), bool(state.done), env.memoryless_return < env.optimal_return
        (1.0, True, True)
    """

    action_kind = "discrete"

    def __init__(self, *, n_symbols: int = 4, delay: int = 5, n_trials: int = 1):
        self.n_symbols = positive_int(n_symbols, "Recall: n_symbols", least=2)
        self.delay = positive_int(delay, "Recall: delay")
        self.n_trials = positive_int(n_trials, "Recall: n_trials")

    @property
    def observation_size(self) -> int:
        """The one-hot cue and the go flag."""
        return self.n_symbols + 1

    @property
    def action_size(self) -> int:
        """Number of answers."""
        return self.n_symbols

    @property
    def episode_length(self) -> int:
        """Steps of an episode."""
        return self.n_trials * (self.delay + 1)

    @property
    def optimal_return(self) -> float:
        """Return of a policy that remembers: one per trial."""
        return float(self.n_trials)

    @property
    def memoryless_return(self) -> float:
        """Expected return of every policy without memory, also of a random one."""
        return self.n_trials / self.n_symbols

    @property
    def max_return(self) -> float:
        """The same as `optimal_return`, under the name that all environments share."""
        return self.optimal_return

    def reset(self, rng: PRNGKeyArray) -> RecallState:
        """Draw the cues and show the first."""
        cues = jax.random.randint(rng, (self.n_trials,), 0, self.n_symbols, jnp.int32)
        steps = jnp.zeros((), jnp.int32)
        return RecallState(
            obs=self._observe(cues, steps),
            reward=jnp.zeros((), jnp.result_type(float)),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={},
            cues=cues,
            steps=steps,
        )

    def step(self, state: RecallState, action: Int[Array, ""]) -> RecallState:
        """Take an action; it counts where the observation carries the go flag."""
        legal = check_choice(action, self.n_symbols, type(self).__name__)
        trial, phase = self._place(state.steps)
        right = (phase == self.delay) & (action == state.cues[trial])
        steps = state.steps + 1
        return state.replace(
            obs=self._observe(state.cues, steps),
            reward=right.astype(state.reward.dtype),
            done=(steps >= self.episode_length) | ~legal,
            info={**state.info, "truncated": jnp.zeros((), bool)},
            steps=steps,
        )

    def _place(self, steps: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """Index of the trial (the last one once the episode is over) and step within it."""
        period = self.delay + 1
        return jnp.minimum(steps // period, self.n_trials - 1), steps % period

    def _observe(
        self, cues: Int[Array, " trials"], steps: Int[Array, ""]
    ) -> Float[Array, " features"]:
        trial, phase = self._place(steps)
        over = steps >= self.episode_length
        cue = jax.nn.one_hot(cues[trial], self.n_symbols) * ((phase == 0) & ~over)
        return jnp.append(cue, (phase == self.delay).astype(cue.dtype))

    def draw(self, ax: Any, state: RecallState) -> None:
        """Draw the observation as bars, one per symbol and one for the go flag."""
        names = [str(symbol) for symbol in range(self.n_symbols)] + ["go"]
        colors = ["C0"] * self.n_symbols + ["C1"]
        ax.clear()
        ax.bar(names, np.asarray(state.obs, float), color=colors)
        ax.set(ylim=(0.0, 1.1), xlabel="symbol")
        ax.set_title(f"step {int(state.steps)}, reward {float(state.reward):g}")
