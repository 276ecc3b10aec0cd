"""Recall: its optimum and its memoryless bound by enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nnx_ppo_train.envs import Recall


def every_episode(env):
    """First states, stacked, one per sequence of cues; they are equally likely."""
    starts = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 500))
    _, index = np.unique(np.asarray(starts.cues), axis=0, return_index=True)
    assert len(index) == env.n_symbols**env.n_trials
    return jax.tree.map(lambda leaf: leaf[index], starts)


def play(env, starts, choose, memory):
    """Mean return over episodes of `choose(memory, obs) -> (memory, action)`."""

    def episode(start):
        def step(carry, _):
            state, memory = carry
            memory, action = choose(memory, state.obs)
            state = env.step(state, action)
            return (state, memory), state.reward

        return jax.lax.scan(step, (start, memory), None, env.episode_length)[1].sum()

    return jax.vmap(episode)(starts).mean()


@pytest.mark.parametrize(("n_symbols", "delay", "n_trials"), [(2, 1, 3), (3, 3, 1)])
def test_every_memoryless_policy_earns_exactly_the_bound(n_symbols, delay, n_trials):
    env = Recall(n_symbols=n_symbols, delay=delay, n_trials=n_trials)
    starts = every_episode(env)
    # A memoryless policy is a table from what can be seen (a cue, nothing, the go flag) to actions;
    # random ones are mixtures of these.
    tables = jnp.array(list(itertools.product(range(n_symbols), repeat=n_symbols + 2)))

    def place(obs):
        return jnp.where(obs.any(), jnp.argmax(obs), n_symbols + 1)

    def mean_return(table):
        return play(env, starts, lambda memory, obs: (memory, table[place(obs)]), ())

    returns = jax.jit(jax.vmap(mean_return))(tables)
    np.testing.assert_allclose(returns, env.memoryless_return, rtol=1e-6)


@pytest.mark.parametrize("n_trials", [1, 2])
def test_remembering_earns_the_optimum(n_trials):
    env = Recall(n_symbols=4, delay=3, n_trials=n_trials)

    def choose(cue, obs):
        shown = obs[:-1]
        cue = jnp.where(shown.any(), jnp.argmax(shown).astype(jnp.int32), cue)
        return cue, cue

    assert float(play(env, every_episode(env), choose, jnp.int32(0))) == n_trials
    assert env.max_return == env.optimal_return == n_trials


def test_observations_follow_the_documented_order():
    env = Recall(n_symbols=3, delay=2, n_trials=2)
    state = env.reset(jax.random.key(4))
    seen, done = [state.obs], []
    for _ in range(env.episode_length):
        state = env.step(state, jnp.int32(0))
        seen.append(state.obs)
        done.append(bool(state.done))
    cue = np.eye(4)[np.asarray(state.cues)]
    go, blank = np.eye(4)[3], np.zeros(4)
    np.testing.assert_array_equal(seen, [cue[0], blank, go, cue[1], blank, go, blank])
    assert done == [False] * 5 + [True]
    assert not bool(state.info["truncated"])


def test_cues_are_uniform():
    keys = jax.random.split(jax.random.key(1), 4000)
    cues = jax.jit(jax.vmap(Recall(n_trials=2).reset))(keys).cues
    counts = np.apply_along_axis(np.bincount, 0, np.asarray(cues), minlength=4)
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(4000 * 0.25 * 0.75)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_symbols": 1}, ValueError, "Recall: n_symbols: expected at least 2, got 1"),
        ({"delay": 0}, ValueError, "Recall: delay: expected at least 1, got 0"),
        ({"delay": True}, TypeError, "Recall: delay: expected an integer, got True"),
        ({"n_trials": -1}, ValueError, "Recall: n_trials: expected at least 1, got -1"),
    ],
)
def test_bad_options_raise(options, error, message):
    with pytest.raises(error, match=message):
        Recall(**options)


def test_bad_actions_raise():
    env = Recall()
    state = env.reset(jax.random.key(0))
    with pytest.raises(TypeError, match="Recall: expected an integer action, a scalar; got float"):
        env.step(state, jnp.zeros(()))
    with pytest.raises(ValueError, match=r"Recall: expected a scalar action, got shape \(1,\)"):
        env.step(state, jnp.zeros(1, jnp.int32))
