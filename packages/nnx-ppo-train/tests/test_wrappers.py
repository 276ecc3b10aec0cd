"""The episode limit and the reward scale around environments of several kinds."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nnx_ppo_train.envs import BodyChain, CartPole, ConstantReward, Recall, State
from nnx_ppo_train.wrappers import EpisodeWrapper, RewardScalingWrapper


class FloatDone:
    """Ends after `end` steps with a float `done`, as Playground does; may say how in `info`."""

    def __init__(self, end, info=None):
        self.end = end
        self.extra = info or {}

    def reset(self, rng):
        info = {name: jnp.zeros(()) for name in self.extra}
        return State(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()), {"seen": jnp.int32(0)} | info, {})

    def step(self, state, action):
        seen = state.info["seen"] + 1
        done = (seen >= self.end).astype(jnp.float32)
        info = dict.fromkeys(self.extra, done)
        return state.replace(done=done, info={**state.info, "seen": seen, **info})


def marks(env, n, action=None):
    """(done, truncated, steps) after each of n steps."""
    state, out = env.reset(jax.random.key(0)), []
    for _ in range(n):
        state = env.step(state, jnp.zeros(1) if action is None else action)
        info = state.info
        out.append((bool(state.done), bool(info["truncated"]), int(info["steps"])))
    return out


def test_episode_wrapper_truncates_at_the_limit():
    env = EpisodeWrapper(CartPole(gust=0.0), 3)
    assert marks(env, 3) == [(False, False, 1), (False, False, 2), (True, True, 3)]


@pytest.mark.parametrize("end", [2, 3])
def test_inner_end_is_no_truncation(end):
    assert marks(EpisodeWrapper(FloatDone(end), 3), end)[-1] == (True, False, end)


@pytest.mark.parametrize("name", ["truncated", "truncation"])
def test_inner_truncation_is_passed_on(name):
    env = EpisodeWrapper(FloatDone(2, info={name: None}), 5)
    assert marks(env, 2) == [(False, False, 1), (True, True, 2)]


def test_inner_time_limit_counts_as_truncation():
    assert marks(EpisodeWrapper(ConstantReward(limit=2), 5), 2)[-1] == (True, True, 2)


@pytest.mark.parametrize(("inner", "outer"), [(2, 5), (5, 2), (2, 2)])
def test_nested_limits_count_once_and_the_smaller_wins(inner, outer):
    env = EpisodeWrapper(EpisodeWrapper(CartPole(gust=0.0), inner), outer)
    assert marks(env, 2) == [(False, False, 1), (True, True, 2)]
    assert env.episode_length == 2


@pytest.mark.parametrize(
    ("env", "action"),
    [
        (CartPole(), jnp.zeros(1)),
        (FloatDone(4), jnp.zeros(1)),
        (FloatDone(4, info={"truncated": None}), jnp.zeros(1)),
        (BodyChain(n_bodies=2), {"body_0": jnp.zeros(1), "body_1": jnp.zeros(1)}),
        (Recall(), jnp.int32(0)),
    ],
)
def test_wrapped_steps_keep_tree_and_dtypes_under_scan(env, action):
    env = RewardScalingWrapper(EpisodeWrapper(env, 3), 2)

    def step(state, _):
        state = jax.vmap(env.step, (0, None))(state, action)
        return state, state.info["steps"]

    start = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 2))
    last, steps = jax.jit(lambda state: jax.lax.scan(step, state, None, 4))(start)
    assert not any(getattr(leaf, "weak_type", False) for leaf in jax.tree.leaves((start, last)))
    assert last.done.dtype == start.done.dtype
    np.testing.assert_array_equal(steps[:, 0], [1, 2, 3, 4])


def test_reward_scaling_multiplies_every_leaf():
    plain = BodyChain(n_bodies=2)
    scaled = RewardScalingWrapper(plain, 0.25)
    action = {"body_0": jnp.ones(1), "body_1": jnp.zeros(1)}
    a, b = (env.step(env.reset(jax.random.key(0)), action) for env in (plain, scaled))
    for name in plain.body_names:
        assert float(b.reward[name]) == pytest.approx(0.25 * float(a.reward[name]))
    jax.tree.map(np.testing.assert_array_equal, a.obs, b.obs)


def test_integer_rewards_become_floats():
    class Counter(FloatDone):
        def step(self, state, action):
            return super().step(state, action).replace(reward=jnp.int32(3))

    env = RewardScalingWrapper(Counter(5), 0.5)
    reward = env.step(env.reset(jax.random.key(0)), None).reward
    assert (float(reward), reward.dtype) == (1.5, jnp.float32)


def test_attributes_of_the_inner_environment_are_forwarded():
    inner = CartPole(observe_velocities=False)
    env = RewardScalingWrapper(EpisodeWrapper(inner, 100), 0.1)
    assert env.observation_size == 2
    assert env.action_kind == "continuous"
    assert env.episode_length == 100
    assert env.unwrapped is inner
    assert env.draw.__self__ is inner
    assert copy.copy(env).unwrapped is inner
    assert not hasattr(env, "no_such_thing")
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = env.no_such_thing


def test_known_returns_are_passed_on_only_where_they_hold():
    assert EpisodeWrapper(CartPole(), 500).max_return == 500.0
    assert EpisodeWrapper(CartPole(), 499).max_return is None
    assert EpisodeWrapper(BodyChain(), 500).max_return is None
    assert EpisodeWrapper(EpisodeWrapper(CartPole(), 500), 900).max_return == 500.0
    assert EpisodeWrapper(EpisodeWrapper(CartPole(), 500), 400).max_return is None
    assert RewardScalingWrapper(Recall(), 2).memoryless_return == 0.5
    assert RewardScalingWrapper(CartPole(), 0.1).max_return == pytest.approx(50.0)
    assert RewardScalingWrapper(CartPole(), -1.0).max_return is None


def test_known_return_of_an_environment_without_a_length_is_passed_on():
    endless = FloatDone(3)
    endless.max_return = 30.0
    assert EpisodeWrapper(endless, 30).max_return == 30.0
    assert RewardScalingWrapper(EpisodeWrapper(endless, 30), 0.5).max_return == 15.0
    assert EpisodeWrapper(EpisodeWrapper(endless, 30), 20).max_return is None


@pytest.mark.parametrize(
    ("length", "error", "message"),
    [
        (0, ValueError, "EpisodeWrapper: episode_length: expected at least 1, got 0"),
        (-3, ValueError, "expected at least 1, got -3"),
        (10.0, TypeError, "expected an integer, got 10.0"),
        (True, TypeError, "expected an integer, got True"),
        (None, TypeError, "expected an integer, got None"),
    ],
)
def test_bad_episode_length_raises(length, error, message):
    with pytest.raises(error, match=message):
        EpisodeWrapper(CartPole(), length)


@pytest.mark.parametrize(
    ("scale", "error", "message"),
    [
        (0, ValueError, "scale: expected a number that is not 0"),
        (float("nan"), ValueError, "scale: expected a number that is finite, got nan"),
        (float("inf"), ValueError, "scale: expected a number that is finite, got inf"),
        ("2", TypeError, "scale: expected a number, got '2'"),
        (True, TypeError, "scale: expected a number, got True"),
    ],
)
def test_bad_scale_raises(scale, error, message):
    with pytest.raises(error, match=f"RewardScalingWrapper: {message}"):
        RewardScalingWrapper(CartPole(), scale)


def test_what_is_no_environment_raises():
    with pytest.raises(TypeError, match="got the class CartPole; make an instance"):
        EpisodeWrapper(CartPole, 10)
    with pytest.raises(TypeError, match="got a object without reset"):
        RewardScalingWrapper(object(), 1.0)


def test_own_count_of_the_inner_environment_is_not_overwritten():
    env = EpisodeWrapper(FloatDone(3, info={"steps": None}), 2)
    with pytest.raises(ValueError, match=r'FloatDone keeps info\["steps"\] itself'):
        env.reset(jax.random.key(0))
