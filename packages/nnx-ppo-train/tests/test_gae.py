"""Generalised advantage estimation against its definition, summed up in plain Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nnx_ppo_train import _gae, gae

SHAPES = ((1, 1), (1, 3), (2, 2), (7, 3))
PARTS = ("rewards", "values", "bootstrap_values")

compiled = jax.jit(gae)


def definition(rewards, values, bootstrap_values, done, *, discount, lambda_, ignored):
    """The sum over the k of (discount * lambda)^k delta_{t+k}, up to the end of the episode."""
    T, B = rewards.shape
    advantages = np.zeros((T, B))
    for b in range(B):
        for t in range(T):
            weight = 1.0
            for k in range(t, T):
                cut = done[k, b] or k == T - 1
                following = bootstrap_values[k, b] if cut else values[k + 1, b]
                delta = rewards[k, b] + discount * following - values[k, b]
                advantages[t, b] += weight * (0.0 if ignored[k, b] else delta)
                if done[k, b]:
                    break
                weight *= discount * lambda_
    return advantages


@st.composite
def rollouts(draw):
    """Rewards, values, bootstrap values; ends of episodes of both kinds; ignored steps."""
    shape = draw(st.sampled_from(SHAPES))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rewards, values, bootstrap = (random.normal(size=shape).astype(np.float32) for _ in PARTS)
    done = random.random(shape) < draw(st.sampled_from((0.0, 0.3, 1.0)))
    truncated = done & (random.random(shape) < 0.5)
    last = np.arange(shape[0])[:, None] == shape[0] - 1
    bootstrap = np.where(truncated | (last & ~done), bootstrap, 0.0).astype(np.float32)
    ignored = truncated & draw(st.booleans())
    return rewards, values, bootstrap, done, ignored


@given(
    rollouts(),
    st.sampled_from((0.0, 0.5, 0.99, 1.0)),
    st.sampled_from((0.0, 0.5, 0.95, 1.0)),
)
def test_gae_equals_its_definition(rollout, discount, lambda_):
    *arrays, ignored = rollout
    expected = definition(*arrays, discount=discount, lambda_=lambda_, ignored=ignored)
    got = compiled(*arrays, discount=discount, lambda_=lambda_, ignored=ignored)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def column(*values, dtype=float):
    return jnp.array(values, dtype)[:, None]


NEVER = column(0, 0, 0, dtype=bool)


def one_row(rewards, values, bootstrap, done=NEVER, ignored=None, discount=0.5, lambda_=0.5):
    found = gae(
        column(*rewards),
        column(*values),
        column(*bootstrap),
        done,
        discount=discount,
        lambda_=lambda_,
        ignored=ignored,
    )
    return found[:, 0].tolist()


def test_rollout_end_bootstraps_from_the_last_value():
    # delta: 1 + 0.5*4 - 2 = 1; 2 + 0.5*8 - 4 = 2; 4 + 0.5*16 - 8 = 4; factor 0.25
    assert one_row((1, 2, 4), (2, 4, 8), (0, 0, 16)) == [1 + 0.25 * 3, 3, 4]


def test_termination_counts_no_value_and_stops_the_sum():
    done = column(0, 1, 0, dtype=bool)
    # delta: 1; 2 - 4 = -2; 4
    assert one_row((1, 2, 4), (2, 4, 8), (0, 0, 16), done) == [1 - 0.5, -2, 4]


def test_truncation_counts_the_bootstrap_value_and_stops_the_sum():
    done = column(0, 1, 0, dtype=bool)
    # delta: 1; 2 + 0.5*20 - 4 = 8, not 2 + 0.5*8 - 4 with the value of the next episode; 4
    assert one_row((1, 2, 4), (2, 4, 8), (0, 20, 16), done) == [1 + 0.25 * 8, 8, 4]


def test_termination_at_the_rollout_end_counts_no_value():
    done = column(0, 0, 1, dtype=bool)
    assert one_row((1, 2, 4), (2, 4, 8), (0, 0, 0), done)[-1] == 4 - 8


def test_ignored_step_adds_nothing():
    done = column(0, 1, 0, dtype=bool)
    # the truncated step's own delta is 0, so the step before it keeps its own delta alone
    assert one_row((1, 2, 4), (2, 4, 8), (0, 0, 16), done, ignored=done) == [1, 0, 4]


def test_lambda_one_gives_discounted_return_minus_value():
    got = one_row((1, 2, 4), (9, 9, 9), (0, 0, 8), lambda_=1.0)
    assert got == [1 + 1 + 1 + 1 - 9, 2 + 2 + 2 - 9, 4 + 4 - 9]


def test_lambda_zero_gives_the_temporal_difference():
    assert one_row((1, 2, 4), (2, 4, 8), (0, 0, 16), lambda_=0.0) == [1, 2, 4]


def test_rewards_of_ints_keep_fractions_of_values():
    ones = jnp.ones((2, 1), jnp.int32)
    half = jnp.full((2, 1), 0.5)
    got = gae(ones, half, half, jnp.zeros((2, 1), bool), discount=1.0, lambda_=0.0)
    assert got.dtype == jnp.float32
    assert got[:, 0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("by", [_gae._by_scan, _gae._by_associative_scan])
def test_nan_of_the_next_episode_stays_there(by):
    delta = jnp.array([[1.0, 1.0], [2.0, 2.0], [jnp.nan, 3.0], [4.0, 4.0]])
    decay = jnp.array([[0.5, 0.5], [0.0, 0.0], [0.5, 0.5], [0.0, 0.0]])
    advantages = np.asarray(by(decay, delta))
    np.testing.assert_allclose(advantages[:2], [[2.0, 2.0], [2.0, 2.0]])
    np.testing.assert_allclose(advantages[:, 1], [2.0, 2.0, 5.0, 4.0])
    assert np.isnan(advantages[2, 0])
    assert advantages[3, 0] == 4.0
