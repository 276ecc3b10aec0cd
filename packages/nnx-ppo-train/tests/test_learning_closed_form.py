"""Slow: environments with known solutions are solved to them, actions and values."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from nnx_ppo_train import EvalConfig, PPOConfig, TrainConfig, deterministic, train_ppo
from nnx_ppo_train.presets import NetworkOptions, make_network

from ._closed_form import Bandit, TwoAgents, TwoSteps

pytestmark = pytest.mark.slow

DISCOUNT = 0.9


def solved(env, **options):
    """Trains an MLP; returns a function from observations to its most likely action and value."""
    network_options = NetworkOptions(hidden_size=16, entropy_weight=0.0, normalize_obs=False)
    network = make_network("mlp", env, nnx.Rngs(0), network_options)
    ppo = PPOConfig(
        n_envs=64,
        rollout_length=8,
        total_steps=64 * 8 * 800,
        discounting_factor=DISCOUNT,
        learning_rate=3e-3,
        learning_rate_schedule="linear",
        **options,
    )
    train_ppo(env, network, TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False)))
    acting = deterministic(network)

    @jax.jit
    def act(obs):
        return acting(acting.initialize_state(obs.shape[0]), obs).output

    return act


def test_bandit_finds_the_best_action_and_its_worth():
    out = solved(Bandit())(jnp.ones((1, 1)))
    assert float(out.actions[0, 0]) == pytest.approx(Bandit.best, abs=0.03)
    assert float(out.value_estimates[0]) == pytest.approx(1.0, abs=0.02)


def test_credit_reaches_an_action_whose_reward_comes_later():
    out = solved(TwoSteps())(jnp.eye(2))
    assert float(out.actions[0, 0]) == pytest.approx(TwoSteps.best, abs=0.03)
    assert float(out.value_estimates[0]) == pytest.approx(DISCOUNT, abs=0.02)
    assert float(out.value_estimates[1]) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("combine", [False, True])
def test_agents_with_rewards_of_their_own_find_their_best_actions(combine):
    out = solved(TwoAgents(), combine_advantages=combine)(jnp.ones((1, 1)))
    for name, best in TwoAgents.best.items():
        assert float(out.actions[name][0, 0]) == pytest.approx(best, abs=0.03)
        worth = TwoAgents.worth[name]
        assert float(out.value_estimates[name][0]) == pytest.approx(worth, rel=0.02)
