"""RepeatPrevious: its optimum and its memoryless bound by enumeration, and what it shows when."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nnx_ppo_train.envs import make_env


def every_episode(env):
    """First states, stacked, one per sequence of suits; they are equally likely."""
    starts = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 1000))
    _, index = np.unique(np.asarray(starts.cards), axis=0, return_index=True)
    assert len(index) == env.n_suits**env.deck_size
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


@pytest.mark.parametrize(("n_suits", "delay", "deck_size"), [(2, 1, 5), (3, 2, 4)])
def test_every_memoryless_policy_earns_exactly_the_bound(n_suits, delay, deck_size):
    env = make_env("repeat-previous", n_suits=n_suits, delay=delay, deck_size=deck_size)
    starts = every_episode(env)
    tables = jnp.array(list(itertools.product(range(n_suits), repeat=n_suits)))

    def mean_return(table):
        return play(env, starts, lambda memory, obs: (memory, table[jnp.argmax(obs)]), ())

    returns = jax.jit(jax.vmap(mean_return))(tables)
    np.testing.assert_allclose(returns, env.memoryless_return, atol=1e-6)


@pytest.mark.parametrize("delay", [1, 3])
def test_a_queue_earns_the_optimum_and_a_longer_one_does_not(delay):
    env = make_env("repeat-previous", n_suits=2, delay=delay, deck_size=6)
    starts = every_episode(env)

    def choose(queue, obs):
        return jnp.append(queue[1:], jnp.argmax(obs).astype(jnp.int32)), queue[0]

    def mean_return(length):
        return float(play(env, starts, choose, jnp.zeros(length, jnp.int32)))

    assert mean_return(delay) == pytest.approx(env.optimal_return)
    assert mean_return(delay + 1) < 0.5
    assert env.max_return == env.optimal_return == 1.0


def test_rewards_and_observations_follow_the_documented_order():
    env = make_env("repeat-previous", n_suits=3, delay=2, deck_size=4)
    state = env.reset(jax.random.key(4))
    suits = np.asarray(state.cards)[:, 0]
    seen, rewards, done = [state.obs], [], []
    for action in (0, 0, suits[0], (suits[1] + 1) % 3):  # two that do not count, right, wrong
        state = env.step(state, jnp.int32(action))
        seen.append(state.obs)
        rewards.append(float(state.reward))
        done.append(bool(state.done))
    np.testing.assert_array_equal(seen, [*np.eye(3)[suits], np.zeros(3)])
    assert rewards == [0.0, 0.0, 0.5, -0.5]
    assert done == [False, False, False, True]
    assert not bool(state.info["truncated"])


def test_suits_are_uniform_and_independent():
    keys = jax.random.split(jax.random.key(1), 4000)
    cards = jax.jit(jax.vmap(make_env("repeat-previous").reset))(keys).cards[:, :2, 0]
    pairs = np.bincount(np.asarray(cards[:, 0] * 4 + cards[:, 1]), minlength=16)
    assert np.abs(pairs - 250).max() < 5 * np.sqrt(4000 * 15 / 256)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_suits": 1}, ValueError, "RepeatPrevious: n_suits: expected at least 2, got 1"),
        ({"delay": 0}, ValueError, "RepeatPrevious: delay: expected at least 1, got 0"),
        (
            {"delay": 4, "deck_size": 4},
            ValueError,
            "RepeatPrevious: deck_size with delay=4: expected at least 5, got 4",
        ),
        (
            {"deck_size": 8.5},
            TypeError,
            r"RepeatPrevious: deck_size .*: expected an integer, got 8.5",
        ),
    ],
)
def test_bad_options_raise(options, error, message):
    with pytest.raises(error, match=message):
        make_env("repeat-previous", **options)


def test_bad_actions_raise():
    env = make_env("repeat-previous")
    state = env.reset(jax.random.key(0))
    with pytest.raises(TypeError, match=r"RepeatPrevious: expected an integer action.*got float"):
        env.step(state, jnp.zeros(()))
    with pytest.raises(TypeError, match=r"RepeatPrevious: expected an integer action.*got dict"):
        env.step(state, {"a": jnp.int32(0)})
    with pytest.raises(ValueError, match=r"RepeatPrevious: expected a scalar action.*\(1,\)"):
        env.step(state, jnp.zeros(1, jnp.int32))
