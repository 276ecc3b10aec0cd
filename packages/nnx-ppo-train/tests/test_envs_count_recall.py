"""CountRecall: its optimum and its memoryless bound by enumeration, and what it shows when."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nnx_ppo_train.envs import make_env


def every_episode(env):
    """First states, stacked, one per deck and sequence of queries; they are equally likely."""
    starts = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 3000))
    _, index = np.unique(np.asarray(starts.cards), axis=0, return_index=True)
    decks = math.factorial(env.episode_length) // math.factorial(env.n_copies) ** env.n_values
    assert len(index) == decks * env.n_values**env.episode_length
    return jax.tree.map(lambda leaf: leaf[index], starts)


@pytest.mark.parametrize(("n_values", "n_copies"), [(2, 2), (3, 1)])
def test_best_memoryless_policy_earns_exactly_the_bound(n_values, n_copies):
    env = make_env("count-recall", n_values=n_values, n_copies=n_copies)
    starts = every_episode(env)
    # A memoryless policy is a table from what can be seen, a value and a query, to answers; random
    # ones are mixtures of these. The best answer to each sight is found by itself.
    sights, answers = n_values**2, env.action_size

    def gains(answer):
        """Reward that each sight brings on average over episodes if always answered so."""

        def episode(state):
            def step(state, _):
                value, query = jnp.argmax(state.obs.reshape(2, n_values), axis=1)
                after = env.step(state, answer)
                return after, jax.nn.one_hot(value * n_values + query, sights) * after.reward

            return jax.lax.scan(step, state, None, env.episode_length)[1].sum(0)

        return jax.vmap(episode)(starts).mean(0)

    table = jax.jit(jax.vmap(gains))(jnp.arange(answers, dtype=jnp.int32))
    assert float(table.max(0).sum()) == pytest.approx(env.memoryless_return, abs=1e-5)


def test_counting_earns_the_optimum():
    env = make_env("count-recall", n_values=2, n_copies=2)
    starts = every_episode(env)

    def episode(state):
        def step(carry, _):
            state, counts = carry
            value, query = state.obs.reshape(2, env.n_values)
            counts = counts + value
            state = env.step(state, (counts @ query).astype(jnp.int32))
            return (state, counts), state.reward

        return jax.lax.scan(step, (state, jnp.zeros(2)), None, env.episode_length)[1].sum()

    np.testing.assert_allclose(jax.vmap(episode)(starts), env.optimal_return, rtol=1e-6)
    assert env.max_return == env.optimal_return == 1.0


def test_answers_count_the_cards_up_to_the_one_in_view():
    env = make_env("count-recall", n_values=3, n_copies=2)
    state = env.reset(jax.random.key(2))
    deck, queries = np.asarray(state.cards).T
    assert sorted(deck) == [0, 0, 1, 1, 2, 2]
    for t in range(env.episode_length):
        np.testing.assert_array_equal(state.obs, [*np.eye(3)[deck[t]], *np.eye(3)[queries[t]]])
        count = list(deck[: t + 1]).count(queries[t])
        wrong = env.step(state, jnp.int32((count + 1) % env.action_size))
        state = env.step(state, jnp.int32(count))
        assert float(state.reward) == pytest.approx(1 / 6)
        assert float(wrong.reward) == pytest.approx(-1 / 6)
        assert bool(state.done) == (t == 5)
    assert not bool(state.info["truncated"])
    np.testing.assert_array_equal(state.obs, np.zeros(6))


def test_decks_are_shuffled_and_queries_uniform():
    keys = jax.random.split(jax.random.key(1), 4000)
    cards = np.asarray(
        jax.jit(jax.vmap(make_env("count-recall", n_values=4, n_copies=6).reset))(keys).cards
    )
    for column in (cards[:, 0, 0], cards[:, -1, 0], cards[:, 7, 1]):
        counts = np.bincount(column, minlength=4)
        assert np.abs(counts - 1000).max() < 5 * np.sqrt(4000 * 0.25 * 0.75)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_values": 1}, ValueError, "CountRecall: n_values: expected at least 2, got 1"),
        ({"n_copies": 0}, ValueError, "CountRecall: n_copies: expected at least 1, got 0"),
        ({"n_copies": True}, TypeError, "CountRecall: n_copies: expected an integer, got True"),
    ],
)
def test_bad_options_raise(options, error, message):
    with pytest.raises(error, match=message):
        make_env("count-recall", **options)
