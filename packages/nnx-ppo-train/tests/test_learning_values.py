"""Slow: learnt values at time limits are the known ones, and the wrong treatments give others."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from nnx_ppo_train import EvalConfig, PPOConfig, TrainConfig, make_env, train_ppo
from nnx_ppo_train.presets import make_mlp_actor_critic

pytestmark = pytest.mark.slow

DISCOUNT = 0.9


def learnt_values(env, observations, **changes):
    """Trains a small actor-critic in two stages of step size; returns its values."""
    network = make_mlp_actor_critic(
        env.observation_size,
        env.action_size,
        nnx.Rngs(0),
        actor_hidden_sizes=[8],
        critic_hidden_sizes=[32],
        activation="tanh",
        normalize_obs=False,
    )
    for learning_rate, iterations in ((1e-2, 300), (1e-3, 200)):
        ppo = PPOConfig(
            n_envs=64,
            rollout_length=24,
            total_steps=64 * 24 * iterations,
            discounting_factor=DISCOUNT,
            learning_rate=learning_rate,
            **changes,
        )
        train_ppo(env, network, TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False)))
    batch = jnp.asarray(observations, jnp.float32).reshape(-1, env.observation_size)
    state = network.initialize_state(batch.shape[0])
    return jax.jit(lambda s, x: network(s, x).output.value_estimates)(state, batch)


def test_constant_reward_under_a_time_limit_is_worth_a_perpetuity():
    env = make_env("constant-reward", limit=8)
    obs = env.reset(jax.random.key(0)).obs
    (value,) = learnt_values(env, obs)
    assert value == pytest.approx(1 / (1 - DISCOUNT), rel=0.02)


def test_reward_at_the_limit_only_is_bootstrapped():
    env = make_env("limit-reward", limit=8)
    obs = env.reset(jax.random.key(0)).obs
    (value,) = learnt_values(env, obs, gae_lambda=0.0)
    assert value == pytest.approx(1 / (8 * (1 - DISCOUNT)), rel=0.05)


def test_reward_at_the_limit_only_is_invisible_when_masked():
    env = make_env("limit-reward", limit=8)
    obs = env.reset(jax.random.key(0)).obs
    (value,) = learnt_values(env, obs, gae_lambda=0.0, truncation="mask")
    assert abs(value) < 0.01


@pytest.mark.parametrize("gae_lambda", [0.0, 0.95])
def test_values_before_a_random_limit_are_those_of_the_endless_task(gae_lambda):
    """Bootstrapping from the reset observation would give 4.0, 4.4, 5.8; death 1.3, 1.4, 3.1."""
    env = make_env("counting-limit", limit=(2, 6))
    values = learnt_values(env, [[0.0], [1.0], [2.0]], gae_lambda=gae_lambda)
    for value, expected in zip(values, (8.1, 9.0, 10.0), strict=True):
        assert value == pytest.approx(expected, rel=0.03)
