"""The wrappers with their published arguments."""

import jax
import jax.numpy as jnp
from nnx_ppo.wrappers.episode_wrapper import EpisodeWrapper
from nnx_ppo.wrappers.reward_scaling_wrapper import RewardScalingWrapper

from ._reach import Reach


def test_episode_wrapper_truncates_at_max_len():
    env = EpisodeWrapper(Reach(), max_len=3)
    state = env.reset(jax.random.key(0))
    ends = []
    for _ in range(3):
        state = env.step(state, jnp.zeros(2))
        ends.append((bool(state.done), bool(state.info["truncated"])))
    assert ends == [(False, False), (False, False), (True, True)]
    assert (env.max_len, env.action_size) == (3, 2)


def test_reward_scaling_wrapper_multiplies_rewards():
    env = Reach()
    scaled = RewardScalingWrapper(env, reward_scale=0.5)
    key, action = jax.random.key(0), jnp.ones(2)
    want = env.step(env.reset(key), action).reward
    got = scaled.step(scaled.reset(key), action).reward
    assert float(got) == 0.5 * float(want)
    assert scaled.reward_scale == 0.5
