"""Environments whose optimal actions and values are known in closed form."""

from typing import Any

import jax
import jax.numpy as jnp
from nnx_ppo_train.envs import State


class Bandit:
    """One step; the action earns 1 - (action - 0.4)^2. Optimal: 0.4, worth 1."""

    observation_size, action_size, best = 1, 1, 0.4

    def reset(self, rng: Any) -> State:
        del rng
        return State(
            obs=jnp.ones(1),
            reward=jnp.zeros(()),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={},
        )

    def step(self, state: State, action: Any) -> State:
        reward = 1.0 - jnp.square(action[0] - self.best)
        return state.replace(reward=reward, done=jnp.ones((), bool))


class TwoStepState(State):
    """State of TwoSteps: which step comes next, and the first action."""

    second: Any
    first_action: Any


class TwoSteps:
    """The first action earns 1 - (action - 0.4)^2, but only at the second step, which ends it.

    The second action earns nothing. With discount g the first observation is worth g, the second,
    which does not show the first action, 1.
    """

    observation_size, action_size, best = 2, 1, 0.4

    def reset(self, rng: Any) -> TwoStepState:
        del rng
        return TwoStepState(
            obs=jnp.array([1.0, 0.0]),
            reward=jnp.zeros(()),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={},
            second=jnp.zeros((), bool),
            first_action=jnp.zeros(()),
        )

    def step(self, state: TwoStepState, action: Any) -> TwoStepState:
        earned = 1.0 - jnp.square(state.first_action - self.best)
        return state.replace(
            obs=jnp.where(state.second, state.obs, jnp.array([0.0, 1.0])),
            reward=jnp.where(state.second, earned, 0.0),
            done=state.second,
            second=~state.second,
            first_action=action[0],
        )


class TwoAgents:
    """One step; each agent has its own action and reward. Cat: 0.5, worth 1; dog: -0.3, worth 3."""

    observation_size = 1
    action_size = {"cat": 1, "dog": 1}  # noqa: RUF012 - read only
    best = {"cat": 0.5, "dog": -0.3}  # noqa: RUF012
    worth = {"cat": 1.0, "dog": 3.0}  # noqa: RUF012

    def reset(self, rng: Any) -> State:
        del rng
        return State(
            obs=jnp.ones(1),
            reward={"cat": jnp.zeros(()), "dog": jnp.zeros(())},
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={},
        )

    def step(self, state: State, action: Any) -> State:
        reward = jax.tree.map(
            lambda worth, best, own: worth - jnp.square(own[0] - best),
            self.worth,
            self.best,
            dict(action),
        )
        return state.replace(reward=reward, done=jnp.ones((), bool))
