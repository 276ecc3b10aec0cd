"""An environment such as users of nnx-ppo write it: own state record, dict observation."""

import jax
import jax.numpy as jnp
from flax import struct


@struct.dataclass
class ReachState:
    obs: dict
    reward: jax.Array
    done: jax.Array
    info: dict
    metrics: dict
    body: jax.Array  # position, velocity, target, last action: 2 numbers each


class Reach:
    """Bring a point to a target; never ends by itself. The action is a bare array (2,)."""

    action_size = 2

    def reset(self, rng):
        target = jax.random.uniform(rng, (2,), minval=-1.0, maxval=1.0)
        body = jnp.zeros(8).at[4:6].set(target)
        zero = jnp.zeros(())
        return ReachState({"x": body}, zero, zero, {}, {"distance": zero}, body)

    def step(self, state, action):
        position, velocity, target, _ = jnp.split(state.body, 4)
        velocity = 0.8 * velocity + 0.2 * action
        position = position + 0.2 * velocity
        distance = jnp.linalg.norm(position - target)
        body = jnp.concatenate([position, velocity, target, action])
        return state.replace(
            obs={"x": body}, reward=-distance, body=body, metrics={"distance": distance}
        )
