"""The tasks with a time limit: exact lengths, and the values that they state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nnx_ppo_train.envs import ConstantReward, CountingLimit, LimitReward

TASKS = [ConstantReward, LimitReward, CountingLimit]


def play(env, key):
    """Plain lists of (observation left, reward, observation reached, truncated) of an episode."""
    state, steps = env.reset(key), []
    for _ in range(20):
        after = env.step(state, jnp.zeros(1))
        truncated = bool(after.info["truncated"])
        steps.append((float(state.obs[0]), float(after.reward), float(after.obs[0]), truncated))
        assert bool(after.done) == truncated
        state = after
        if truncated:
            return steps
    raise AssertionError("the episode does not end")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("limit", [1, 3])
def test_episode_is_truncated_after_exactly_limit_steps(task, limit):
    assert len(play(task(limit=limit), jax.random.key(0))) == limit


@pytest.mark.parametrize("task", TASKS)
def test_limit_is_drawn_from_all_that_are_given(task):
    env = task(limit=(2, 6))
    limits = np.asarray(
        jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 400)).limit
    )
    assert set(limits.tolist()) == {2, 6}
    assert abs((limits == 2).mean() - 0.5) < 0.125  # five standard deviations
    for seed in (0, 1, 2, 3):
        key = jax.random.key(seed)
        assert len(play(env, key)) == int(env.reset(key).limit)


def test_rewards_come_in_the_documented_steps():
    def rewards(env):
        return [step[1] for step in play(env, jax.random.key(0))]

    assert rewards(ConstantReward(limit=3)) == [1, 1, 1]
    assert rewards(LimitReward(limit=3)) == [0, 0, 1]
    assert rewards(CountingLimit(limit=5)) == [0, 0, 1, 1, 1]


def test_counting_limit_shows_zero_one_two_two():
    steps = play(CountingLimit(limit=4), jax.random.key(0))
    assert [(left, reached) for left, _, reached, _ in steps] == [(0, 1), (1, 2), (2, 2), (2, 2)]


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("limits", [(4,), (2, 6)])
@pytest.mark.parametrize("task", TASKS)
def test_values_solve_the_bootstrapped_equations(task, limits, discount):
    """Mean over all steps of reward + discount * v(reached) - v(left) is 0 for each observation."""
    env = task(limit=limits)
    if task is CountingLimit:
        values = dict(enumerate(env.state_values(discount)))
    else:
        values = {1: env.state_value(discount)}
    episodes = [play(task(limit=limit), jax.random.key(0)) for limit in limits]
    for seen, value in values.items():
        targets = [
            reward + discount * values[reached]
            for episode in episodes
            for left, reward, reached, _ in episode
            if left == seen
        ]
        assert np.mean(targets) == pytest.approx(value, rel=1e-9)


def test_max_return_is_the_mean_return():
    for task in TASKS:
        returns = [
            sum(step[1] for step in play(task(limit=limit), jax.random.key(0))) for limit in (2, 6)
        ]
        assert task(limit=(2, 6)).max_return == np.mean(returns)


@pytest.mark.parametrize(
    ("limit", "error", "message"),
    [
        (0, ValueError, "LimitReward: limit: expected at least 1, got 0"),
        ((2, -1), ValueError, "LimitReward: limit: expected at least 1, got -1"),
        ((), ValueError, "limit: expected a number of steps or several, got none"),
        (2.5, TypeError, "LimitReward: limit: expected an integer, got 2.5"),
    ],
)
def test_bad_limits_raise(limit, error, message):
    with pytest.raises(error, match=message):
        LimitReward(limit=limit)


def test_bad_discounts_raise():
    with pytest.raises(ValueError, match="discount: expected a number below 1, got 1"):
        ConstantReward().state_value(1.0)
    with pytest.raises(ValueError, match=r"at least 0, got -0\.5"):
        LimitReward().state_value(-0.5)
