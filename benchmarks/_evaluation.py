"""One way to measure a trained policy, whatever library trained it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

EVALUATION_SEED = 20_000


def mean_return(
    env: Any,
    act: Callable[[Any, Any], tuple[Any, Any]],
    carry: Any,
    n_episodes: int,
    n_steps: int,
) -> float:
    """Mean return over episodes whose first states are the same for everyone.

    Args:
        env: An unbatched environment of `nnx_ppo_train.envs`.
        act: `(carry, observations) -> (carry, actions)`, batched, without randomness.
        carry: The policy's memory at the start of `n_episodes` episodes.
        n_episodes: Episodes, side by side.
        n_steps: Steps; what comes after the first end of an episode does not count.
    """
    keys = jax.random.split(jax.random.key(EVALUATION_SEED), n_episodes)

    def step(loop, _):
        state, carry, over = loop
        carry, action = act(carry, state.obs)
        state = jax.vmap(env.step)(state, action)
        reward = sum(jax.tree.leaves(state.reward))
        return (state, carry, over | state.done.astype(bool)), jnp.where(over, 0.0, reward)

    @jax.jit
    def episodes(keys, carry):
        start = (jax.vmap(env.reset)(keys), carry, jnp.zeros(n_episodes, bool))
        return jax.lax.scan(step, start, None, n_steps)[1].sum(0).mean()

    return float(episodes(keys, carry))


def network_return(network: Any, env: Any, n_episodes: int, n_steps: int) -> float:
    """Mean return of a network in either library's protocol, already in evaluation mode."""
    graphdef, variables = nnx.split(network)

    def act(carry, obs):
        memory, variables = carry
        network = nnx.merge(graphdef, variables)
        out = network(memory, obs)
        return (out.next_state, nnx.state(network)), out.output.actions

    carry = (network.initialize_state(n_episodes), variables)
    return mean_return(env, act, carry, n_episodes, n_steps)
