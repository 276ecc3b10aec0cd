"""Slow: presets learn hybrid, multi-categorical and masked actions up to the known optimum."""

import pytest
from flax import nnx
from nnx_ppo_train import EvalConfig, PPOConfig, TrainConfig, make_env, train_ppo
from nnx_ppo_train.presets import NetworkOptions, make_network

pytestmark = pytest.mark.slow


def learnt_return(name, total_steps):
    """Return, deterministic, of a small MLP after training in a built-in environment."""
    env = make_env(name)
    options = NetworkOptions(hidden_size=32, entropy_weight=1e-3)
    network = make_network("mlp", env, nnx.Rngs(0), options)
    ppo = PPOConfig(
        n_envs=128,
        rollout_length=20,
        total_steps=total_steps,
        discounting_factor=0.5,
        learning_rate=3e-3,
        learning_rate_schedule="linear",
    )
    evaluation = EvalConfig(
        every_steps=total_steps, n_envs=512, max_episode_length=env.episode_length
    )
    found = []

    def note(metrics, step):
        if "eval/episode_reward/mean" in metrics:
            found.append(float(metrics["eval/episode_reward/mean"]))

    train_ppo(env, network, TrainConfig(ppo=ppo, eval=evaluation), log_fn=note)
    return found[-1] / env.max_return


@pytest.mark.parametrize(
    ("name", "total_steps", "share"),
    [
        ("hybrid-choice", 250_000, 0.97),
        ("multi-choice", 80_000, 0.99),
        ("masked-choice", 80_000, 0.98),
    ],
)
def test_preset_learns_the_optimum(name, total_steps, share):
    assert learnt_return(name, total_steps) >= share
