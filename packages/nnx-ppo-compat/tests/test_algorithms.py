"""Published import paths of the algorithm, and the adapters where a signature differs."""

import dataclasses
import importlib

import jax
import jax.numpy as jnp
import nnx_ppo_train
import numpy as np
import pytest
from flax import nnx
from nnx_ppo.algorithms.config import PPOConfig
from nnx_ppo.algorithms.ppo import default_config, gae, ppo_loss
from nnx_ppo.algorithms.rollout import unroll_env
from nnx_ppo.algorithms.types import EnvState, LoggingLevel, RLEnv
from nnx_ppo.networks.factories import make_mlp_actor_critic

from ._reach import Reach

PUBLISHED = {
    "checkpointing": "make_checkpoint_fn",
    "config": "EvalConfig PPOConfig TrainConfig TrainResult VideoConfig VideoData",
    "types": "EnvState LoggingLevel RLEnv TrainingState Transition",
    "ppo": "default_config gae ppo_loss train_ppo",
    "rollout": "eval_rollout unroll_env",
}


@pytest.mark.parametrize("module", PUBLISHED)
def test_published_path_exports_its_names(module):
    names = PUBLISHED[module].split()
    found = importlib.import_module(f"nnx_ppo.algorithms.{module}")
    assert found.__all__ == names
    assert all(hasattr(found, name) for name in names)


@pytest.mark.parametrize(
    ("given", "meant"), [(True, 1e-4), (False, None), (None, None), (0.0, None), (0.3, 0.3)]
)
def test_weight_decay_takes_published_spellings(given, meant):
    assert PPOConfig(weight_decay=given).weight_decay == meant


def test_every_parameter_decays_as_published():
    assert default_config().ppo.weight_decay_mask == PPOConfig().weight_decay_mask == "all"
    assert nnx_ppo_train.PPOConfig().weight_decay_mask == "kernels"


def test_weight_decay_survives_replace():
    config = dataclasses.replace(PPOConfig(weight_decay=True), n_envs=8)
    assert (config.n_envs, config.weight_decay) == (8, 1e-4)


def test_config_still_validates():
    with pytest.raises(ValueError, match=r"PPOConfig\.weight_decay"):
        PPOConfig(weight_decay=-1.0)


PUBLISHED_DEFAULTS = {
    "n_envs": 256,
    "rollout_length": 20,
    "total_steps": 512_000,
    "gae_lambda": 0.95,
    "discounting_factor": 0.99,
    "clip_range": 0.2,
    "learning_rate": 1e-4,
    "normalize_advantages": True,
    "combine_advantages": False,
    "n_epochs": 4,
    "n_minibatches": 4,
    "critic_loss_weight": 1.0,
    "gradient_clipping": None,
    "weight_decay": None,
    "weight_decay_mask": "all",
    "logging_percentiles": None,
}


def test_default_config_has_published_values():
    config = default_config()
    assert {name: getattr(config.ppo, name) for name in PUBLISHED_DEFAULTS} == PUBLISHED_DEFAULTS
    assert config.ppo.logging_level is LoggingLevel.LOSSES
    assert config.seed == 17


def test_default_config_learns_as_published():
    config = default_config().ppo
    assert config.recompute_advantages
    assert not config.normalizes_rollouts
    assert not config.normalize_values
    assert not config.normalize_rewards


def test_environment_and_state_conform_to_the_protocols():
    env = Reach()
    assert isinstance(env, RLEnv)
    assert isinstance(env.reset(jax.random.key(0)), EnvState)
    assert not isinstance(object(), RLEnv)
    assert not isinstance(object(), EnvState)


def masked_gae_by_loop(rewards, values, last_value, done, truncated, lambda_, gamma):
    """Independent oracle: the published recursion, row by row and backwards in time."""
    steps, rows = rewards.shape
    advantages = np.zeros((steps, rows))
    for row in range(rows):
        following, advantage = last_value[row], 0.0
        for t in reversed(range(steps)):
            target = rewards[t, row] + (0.0 if done[t, row] else gamma * following)
            delta = 0.0 if truncated[t, row] else target - values[t, row]
            advantage = delta + (0.0 if done[t, row] else gamma * lambda_ * advantage)
            advantages[t, row] = advantage
            following = values[t, row]
    return advantages


@pytest.mark.parametrize("lambda_", [0.0, 0.9, 1.0])
def test_gae_with_published_arguments_equals_the_loop(lambda_):
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, 9, 6))
    done = rng.random((9, 6)) < 0.4
    truncated = done & (rng.random((9, 6)) < 0.5)
    inputs = (rewards, values, rng.normal(size=6), done, truncated)
    got = gae(*map(jnp.asarray, inputs), lambda_, 0.8)
    np.testing.assert_allclose(got, masked_gae_by_loop(*inputs, lambda_, 0.8), atol=1e-5)


def test_ppo_loss_with_published_arguments_equals_ours():
    rngs = nnx.Rngs(0)
    env = nnx_ppo_train.make_env("cartpole")
    nets = make_mlp_actor_critic(4, 1, [8], [8], rngs)
    state = nets.initialize_state(3)
    env_state = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 3))
    _, _, rollout = unroll_env(env, env_state, nets, state, 5, jax.random.key(1))
    level = LoggingLevel.LOSSES | LoggingLevel.CRITIC_EXTRA
    loss, metrics = ppo_loss(nets, state, rollout, 0.3, False, True, 0.9, 0.8, 0.5, level)
    config = nnx_ppo_train.PPOConfig(
        clip_range=0.3,
        normalize_advantages=False,
        combine_advantages=True,
        discounting_factor=0.9,
        gae_lambda=0.8,
        critic_loss_weight=0.5,
        logging_level=level,
    )
    want, want_metrics = nnx_ppo_train.ppo_loss(nets, state, rollout, config)
    assert float(loss) == pytest.approx(float(want), rel=1e-6)
    assert metrics.keys() == want_metrics.keys()
