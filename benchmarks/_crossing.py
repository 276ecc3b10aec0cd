"""A task for the benchmarks: leave a place that pays little, cross one that pays nothing."""

from typing import Any

import jax
import jax.numpy as jnp
from nnx_ppo_train.envs import State

SPEED = 0.5  # of a step, at |action| = 1
HOME, FAR, END = 0.25, 1.5, 2.0  # home ends here, the far place begins, the line ends
HOME_PAY, FAR_PAY = 0.1, 1.0


class CrossingState(State):
    """State of :class:`Crossing`.

    Attributes:
        position: Where on the line the agent is.
        steps: Steps since the reset.
    """

    position: jax.Array
    steps: jax.Array


class Crossing:
    """Walk from home, which pays 0.1 a step, over a stretch that pays nothing, to where it pays 1.

    The action in [-1, 1] is a velocity; the far place is three steps away at full speed. The
    observation is the position. Episodes end by their limit alone, so that crossing is worth what
    could be earned by staying there, however soon the limit cuts the episode.
    """

    action_size = 1
    action_kind = "continuous"
    observation_size = 1

    def __init__(self, *, episode_length: int):
        self.episode_length = episode_length

    @property
    def max_return(self) -> float:
        """Two steps that pay nothing, the far place from the third on."""
        return FAR_PAY * (self.episode_length - 2)

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
        pay = jnp.where(position < HOME, HOME_PAY, jnp.where(position < FAR, 0.0, FAR_PAY))
        return state.replace(
            obs=position[None],
            reward=pay,
            done=truncated,
            info={**state.info, "truncated": truncated},
            position=position,
            steps=steps,
        )
