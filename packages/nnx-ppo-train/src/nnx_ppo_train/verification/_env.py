"""An environment whose episodes end often: without resets a replay proves little."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from ..wrappers._wrapper import Wrapper

_ENDS = "verify_replay"


class EndingEnv(Wrapper):
    """Ends episodes early: each gets a random length, and a random kind of end.

    Lengths are uniform from 1 to ``longest``: in a rollout that is longer, every row is reset at
    least once inside, after short episodes and after long ones. An episode that the inner
    environment ends itself ends as it says.

    States keep the dtypes with which a reset made them, also where actions are wider.

    Args:
      env: the environment, not vectorised.
      longest: the largest number of steps of an episode.
    """

    def __init__(self, env: Any, longest: int):
        super().__init__(env)
        self._longest = longest

    def reset(self, rng: PRNGKeyArray) -> Any:
        inner_key, ends_key = jax.random.split(rng)
        state = self.env.reset(inner_key)
        draws = jax.random.bits(ends_key, (2,), jnp.uint32)
        ends = {
            "left": (1 + draws[0] % self._longest).astype(jnp.int32),
            "truncates": draws[1] % 2 == 1,
        }
        info = {**state.info, "truncated": jnp.zeros((), bool), _ENDS: ends}
        return state.replace(info=info)

    def step(self, state: Any, action: PyTree) -> Any:
        after = self.env.step(state, action)
        ends = state.info[_ENDS]
        left = ends["left"] - 1
        marks = [after.info[name] for name in ("truncated", "truncation") if name in after.info]
        truncated = jnp.any(jnp.asarray(marks, bool))
        ended = jnp.asarray(after.done).astype(bool) | truncated
        forced = (left <= 0) & ~ended
        info = {
            **after.info,
            "truncated": truncated | (forced & ends["truncates"]),
            _ENDS: {**ends, "left": left},
        }
        done = (ended | forced).astype(jnp.result_type(state.done))
        return jax.tree.map(_as_before, after.replace(done=done, info=info), state)


def _as_before(new: Any, old: Any) -> Any:
    new = jnp.asarray(new)
    return new if new.dtype == old.dtype else new.astype(old.dtype)
