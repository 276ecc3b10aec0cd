"""One way to measure a trained policy, whatever library trained it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

EVALUATION_SEED = 20_000
N_EPISODES = 512


def mean_return(env: Any, act: Callable[[Any, Any], tuple[Any, Any]], carry: Any) -> float:
    """Mean return over `N_EPISODES` episodes that start in the same states for everyone.

    What comes after the first end of an episode does not count.

    Args:
        env: An unbatched environment in the protocol of `nnx_ppo_train.envs`.
        act: `(carry, observations) -> (carry, actions)`, batched, without randomness.
        carry: The policy's memory at the start.
    """
    keys = jax.random.split(jax.random.key(EVALUATION_SEED), N_EPISODES)

    def step(loop, _):
        state, carry, over = loop
        carry, action = act(carry, state.obs)
        state = jax.vmap(env.step)(state, action)
        reward = sum(jax.tree.leaves(state.reward))
        return (state, carry, over | state.done.astype(bool)), jnp.where(over, 0.0, reward)

    @jax.jit
    def episodes(keys, carry):
        start = (jax.vmap(env.reset)(keys), carry, jnp.zeros(N_EPISODES, bool))
        return jax.lax.scan(step, start, None, env.episode_length)[1].sum(0).mean()

    return float(episodes(keys, carry))


def network_return(network: Any, env: Any) -> float:
    """Mean return of a network of either NNX library, set to act by its mode already."""
    graphdef, variables = nnx.split(network)

    def act(carry, obs):
        memory, variables = carry
        network = nnx.merge(graphdef, variables)
        out = network(memory, obs)
        actions = out.output.actions
        if isinstance(actions, dict) and not isinstance(env.action_size, dict):
            (actions,) = actions.values()  # of a network that names its only action
        return (out.next_state, nnx.state(network)), actions

    return mean_return(env, act, (network.initialize_state(N_EPISODES), variables))
