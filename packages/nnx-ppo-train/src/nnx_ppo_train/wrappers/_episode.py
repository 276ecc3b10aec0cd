"""EpisodeWrapper: a limit on the length of episodes."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from ..envs._checks import positive_int
from ._wrapper import Wrapper


class EpisodeWrapper(Wrapper):
    """Truncates episodes that are still going after a number of steps.

    `done` is set when the inner environment ends or the limit is reached. `info["steps"]` (int32)
    counts the steps of the episode. `info["truncated"]` (bool) is True where the limit was reached
    and the inner environment did not end in that very step, and where the inner environment says
    itself that it truncated, under `"truncated"` or, as Brax does, `"truncation"`.

    Known returns of the inner environment (`max_return` and the like) are passed on if they hold
    under the limit: if its own `episode_length` is no longer than this one, or if it states none,
    so that its returns can only be meant for episodes that are limited from outside. Otherwise
    they are None: an environment whose episodes may be longer can earn more than the limit allows.

    Args:
        env: The environment to limit, unbatched. Wrappers may be nested, the smallest limit counts.
        episode_length: The largest number of steps of an episode.

    Raises:
        TypeError: If `env` is no environment or `episode_length` no integer.
        ValueError: If `episode_length` is below 1, or, at the first reset, if the inner environment
            keeps something of its own in `info["steps"]`.

    Example:
        >>> import jax
        >>> from nnx_ppo_train.envs import CartPole
        >>> env = EpisodeWrapper(CartPole(), 2)
        >>> state = env.reset(jax.random.key(0))
        >>> for _ in range(2):
        ...     state = env.step(state, jnp.zeros(1))
        >>> bool(state.done), bool(state.info["truncated"]), int(state.info["steps"])
        (True, True, 2)
    """

    def __init__(self, env: Any, episode_length: int):
        super().__init__(env)
        length = positive_int(episode_length, "EpisodeWrapper: episode_length")
        self._limit = length
        inner = getattr(env, "episode_length", None)
        if not isinstance(inner, int | float | np.number):
            inner = None  # another convention
        self._returns_hold = inner is None or inner <= length
        self.episode_length = length if inner is None else min(inner, length)

    def reset(self, rng: PRNGKeyArray) -> Any:
        """Reset the inner environment and the count."""
        state = self.env.reset(rng)
        if "steps" in state.info and not self._inner_counts():
            raise ValueError(
                f'EpisodeWrapper: {type(self.unwrapped).__name__} keeps info["steps"] itself, '
                "which this wrapper would overwrite; use that limit or rename its entry"
            )
        info = {"steps": jnp.zeros((), jnp.int32), "truncated": jnp.zeros((), bool)}
        return state.replace(info={**state.info, **info})

    def step(self, state: Any, action: PyTree) -> Any:
        """Step the inner environment and count."""
        steps = state.info["steps"] + 1
        after = self.env.step(state, action)
        over = steps >= self._limit
        ended = jnp.asarray(after.done).astype(bool)
        truncated = _says_truncated(after) | (over & ~ended)
        return after.replace(
            done=(ended | over).astype(jnp.result_type(state.done)),
            info={**after.info, "steps": steps, "truncated": truncated},
        )

    def known_return(self, value: float) -> float | None:
        return value if self._returns_hold else None

    def _inner_counts(self) -> bool:
        inner = self.env
        while isinstance(inner, Wrapper):
            if isinstance(inner, EpisodeWrapper):
                return True
            inner = inner.env
        return False


def _says_truncated(state: Any) -> Bool[Array, ""]:
    """Whether the inner environment marks its state as truncated, under either name."""
    marks = [state.info.get("truncated", False), state.info.get("truncation", False)]
    return jnp.asarray(marks[0]).astype(bool) | jnp.asarray(marks[1]).astype(bool)
