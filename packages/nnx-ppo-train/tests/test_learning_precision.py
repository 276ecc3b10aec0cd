"""Slow: products of bfloat16 operands learn what those of float32 learn."""

import pytest
from flax import nnx
from nnx_ppo_train import EvalConfig, PPOConfig, TrainConfig, make_env, train_ppo
from nnx_ppo_train.presets import NetworkOptions, make_network

pytestmark = pytest.mark.slow

each_precision = pytest.mark.parametrize("compute_dtype", [None, "bfloat16"])


def learnt_return(env, network, options, total_steps, **ppo):
    """Return, deterministic, of a preset after a short training."""
    config = TrainConfig(
        ppo=PPOConfig(
            n_envs=256,
            total_steps=total_steps,
            learning_rate_schedule="linear",
            gradient_clipping=1.0,
            **ppo,
        ),
        eval=EvalConfig(every_steps=total_steps, n_envs=512, max_episode_length=500),
    )
    found = []

    def note(metrics, step):
        if "eval/episode_reward/mean" in metrics:
            found.append(float(metrics["eval/episode_reward/mean"]))

    network = make_network(network, env, nnx.Rngs(0), options)
    train_ppo(env, network, config, log_fn=note)
    return found[-1]


@each_precision
def test_mlp_balances_the_pole(compute_dtype):
    env = make_env("cartpole")
    options = NetworkOptions(hidden_size=32, entropy_weight=1e-3, compute_dtype=compute_dtype)
    found = learnt_return(
        env,
        "mlp",
        options,
        rollout_length=32,
        total_steps=1_000_000,
        learning_rate=2e-3,
    )
    assert found >= 0.9 * env.max_return


@each_precision
def test_gru_recalls(compute_dtype):
    env = make_env("recall")
    options = NetworkOptions(hidden_size=32, normalize_obs=False, compute_dtype=compute_dtype)
    found = learnt_return(
        env, "gru", options, rollout_length=18, total_steps=300_000, learning_rate=3e-3
    )
    assert found >= 0.95 * env.optimal_return
