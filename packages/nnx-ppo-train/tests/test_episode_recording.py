"""One recorded episode against stepping by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import NormalTanhSampler, PPOAdapter, deterministic, record_episode
from nnx_ppo_train.envs import BodyChain, State
from nnx_stateful import GRU, Dense, Flattener, Parallel, Sequential, initial_state
from nnx_stateful.testing import StreamProbe

KEY, LENGTH = jax.random.key(2), 4
BODIES = ("body_0", "body_1")


def make(*first):
    rngs = nnx.Rngs(0)

    def head():
        return Sequential([Dense(4, 2, rngs), NormalTanhSampler(rngs)])

    action = Parallel({name: head() for name in BODIES})
    value = Parallel({name: Dense(4, 1, rngs) for name in BODIES})
    adapter = PPOAdapter(action, value)
    return Sequential([*first, Flattener(), GRU(6, 4, rngs), adapter])


def by_hand(env, network, steps):
    network = deterministic(network)
    act, step = jax.jit(lambda carry, obs: network(carry, obs)), jax.jit(env.step)
    state = env.reset(jax.random.split(jax.random.split(KEY)[0], 1)[0])
    carry, states = initial_state(network, 1), [state]
    for _ in range(steps):
        out = act(carry, jax.tree.map(lambda leaf: leaf[None], state.obs))
        carry = out.next_state
        state = step(state, jax.tree.map(lambda leaf: leaf[0], out.output.actions))
        states.append(state)
    return states


@pytest.mark.parametrize(("episode_length", "max_length", "steps"), [(3, 6, 3), (9, 4, 4)])
def test_states_are_those_of_stepping_by_hand(episode_length, max_length, steps):
    env, network = BodyChain(n_bodies=2, episode_length=episode_length), make()
    states = record_episode(env, network, max_length, KEY)
    assert len(states) == steps + 1
    expected = by_hand(env, network, steps)
    assert jax.tree.structure(states) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), states, expected)
    assert [bool(state.done) for state in states] == [False] * steps + [episode_length == steps]
    assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(states))


class Keyed:
    """Keeps its key in the state and takes a bare action."""

    action_size = 1

    def reset(self, rng):
        return State(jnp.zeros(1), jnp.zeros(()), jnp.zeros((), bool), {"key": rng}, {})

    def step(self, state, action):
        return state.replace(obs=state.obs + action)


def test_keys_are_recorded_as_numbers_and_streams_stay():
    rngs = nnx.Rngs(0)
    action = Parallel(x=Sequential([Dense(1, 2, rngs), NormalTanhSampler(rngs)]))
    network = Sequential([StreamProbe(rngs), PPOAdapter(action, Dense(1, 1, rngs))])
    before = jax.tree.leaves(nnx.state(network, nnx.RngCount))
    states = record_episode(Keyed(), network, LENGTH, KEY)
    assert len(states) == LENGTH + 1
    assert states[0].info["key"].shape == states[-1].info["key"].shape == (2,)
    assert before == jax.tree.leaves(nnx.state(network, nnx.RngCount))
