"""CartPole-v1 of gymnax in our environment protocol: its dynamics, without its automatic reset."""

from typing import Any

import gymnax
import jax
import jax.numpy as jnp
from nnx_ppo_train.envs import State

NAME = "CartPole-v1"


class GymnaxState(State):
    """State of :class:`GymnaxCartPole`.

    Attributes:
        inner: The state of gymnax's environment.
    """

    inner: Any


class GymnaxCartPole:
    """Push left or right; 4 observations, reward 1 a step, at most 500 steps.

    Gymnax ends an episode at the limit and does not say that it was the limit; here
    `info["truncated"]` says so, as our protocol asks for.
    """

    action_size = 2
    action_kind = "discrete"
    observation_size = 4

    def __init__(self):
        self._env, self._params = gymnax.make(NAME)

    @property
    def episode_length(self) -> int:
        """Steps until an episode is cut."""
        return self._params.max_steps_in_episode

    def reset(self, rng: Any) -> GymnaxState:
        obs, inner = self._env.reset_env(rng, self._params)
        return GymnaxState(
            obs=obs,
            reward=jnp.zeros(()),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={},
            inner=inner.replace(time=jnp.zeros((), jnp.int32)),
        )

    def step(self, state: GymnaxState, action: Any) -> GymnaxState:
        unused = jax.random.key(0)  # a step of this environment draws nothing
        obs, inner, reward, done, _ = self._env.step_env(unused, state.inner, action, self._params)
        early = inner.replace(time=jnp.zeros_like(inner.time))
        fallen = self._env.is_terminal(early, self._params)
        return state.replace(
            obs=obs,
            reward=reward.astype(state.reward.dtype),
            done=done,
            info={**state.info, "truncated": done & ~fallen},
            inner=inner,
        )
