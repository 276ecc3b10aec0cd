"""A task for the benchmarks: leave a place that pays little, cross one that pays nothing."""

from typing import Any

import jax
import jax.numpy as jnp
from nnx_ppo_train.envs import State

SPEED, HOME, FAR, END = 0.5, 0.25, 1.5, 2.0  # positions on a line; the start is 0
HOME_PAY = 0.1


class CrossingState(State):
    """State of :class:`Crossing`.

    Attributes:
        position: Where the agent is.
        steps: Steps since the reset.
    """

    position: jax.Array
    steps: jax.Array


class Crossing:
    """Walk from home, which pays 0.2 a step, over a stretch that pays nothing, to where it pays 1.

    The action in [-1, 1] is the velocity in units of 0.5 a step; the way to the far place takes four
    steps. Episodes only end by a limit, so what counts is how long one could stay there.
    """

    action_size = 1
    action_kind = "continuous"
    observation_size = 1

    def __init__(self, *, episode_length: int):
        self.episode_length = episode_length

    def reset(self, rng: Any) -> CrossingState:
        del rng
        position = jnp.zeros(())
        return CrossingState(
            obs=position[None],
            reward=jnp.zeros(()),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={},
            position=position,
            steps=jnp.zeros((), jnp.int32),
        )

    def step(self, state: CrossingState, action: Any) -> CrossingState:
        position = jnp.clip(state.position + SPEED * jnp.clip(action[0], -1.0, 1.0), 0.0, END)
        steps = state.steps + 1
        truncated = steps >= self.episode_length
        return state.replace(
            obs=position[None],
            reward=jnp.where(position >= FAR, 1.0, jnp.where(position < HOME, HOME_PAY, 0.0)),
            done=truncated,
            info={**state.info, "truncated": truncated},
            position=position,
            steps=steps,
        )
