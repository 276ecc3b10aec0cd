"""Hybrid actions in PPO: a likelihood ratio for each part of the action, or one for all."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import (
    CategoricalSampler,
    NormalTanhSampler,
    PPOAdapter,
    PPOConfig,
    Transition,
    check_boundary,
    make_env,
    ppo_loss,
)
from nnx_stateful import Dense, Parallel, Sequential, initial_state
from nnx_stateful.testing import check_stateful_module

B, T, F = 4, 3, 5


def hybrid(joint=False, value=None):
    rngs = nnx.Rngs(0)
    action = Parallel(
        aim=Sequential([Dense(F, 2, rngs), NormalTanhSampler(rngs)]),
        choice=Sequential([Dense(F, 4, rngs), CategoricalSampler(rngs)]),
    )
    return PPOAdapter(action, Dense(F, 1, rngs) if value is None else value, joint=joint)


def features(*lead):
    return jnp.asarray(np.random.default_rng(0).normal(size=(*lead, F)), jnp.float32)


@pytest.mark.fast("lead1")
@pytest.mark.parametrize("lead", [(B,), (T, B)])
def test_joint_likelihood_is_the_sum_and_actions_stay_a_tree(lead):
    outs = []
    for joint in (False, True):
        network = hybrid(joint)
        run = network if len(lead) == 1 else network.unroll
        outs.append(run(initial_state(network, B), features(*lead)).output)
    parts, whole = outs
    assert set(parts.loglikelihoods) == {"aim", "choice"}
    assert whole.loglikelihoods.shape == lead
    np.testing.assert_allclose(whole.loglikelihoods, sum(parts.loglikelihoods.values()), rtol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, parts.actions, whole.actions)


def test_joint_likelihood_of_one_sampler_is_its_own():
    sampler = NormalTanhSampler(nnx.Rngs(0))
    network = PPOAdapter(sampler, Dense(4, 1, nnx.Rngs(0)), joint=True)
    x = jnp.ones((B, 4))
    out = network(initial_state(network, B), x).output
    alone = sampler(initial_state(sampler, B), x).output
    np.testing.assert_array_equal(out.loglikelihoods, alone["log_likelihood"])


def test_joint_adapter_keeps_the_laws():
    check_stateful_module(hybrid(joint=True), features(B), steps=3, laws=[4, 5, 6])


@pytest.mark.parametrize("joint", [False, True])
def test_network_fits_the_environment(joint):
    check_boundary(make_env("hybrid-choice"), hybrid(joint), B, combine_advantages=False)


# ---- in the loss -----------------------------------------------------------------------------

LOG_RATIOS = {"aim": 0.3, "choice": -0.1}
"""Of these e^0.3 leaves the clip range of 0.2, e^-0.1 does not, and neither does e^0.2 by much."""


def loss_metrics(joint, combine_advantages=False, rewards=("speed",)):
    """Metrics of one-step episodes under known likelihood ratios, and their advantages."""
    rngs = nnx.Rngs(1)
    value = Parallel({name: Dense(F, 1, rngs) for name in rewards})
    network = hybrid(joint, value)
    obs = features(T, B)
    out = network.unroll(initial_state(network, B), obs)
    reward = {name: obs[..., index] for index, name in enumerate(rewards)}
    log_ratios = sum(LOG_RATIOS.values()) if joint else LOG_RATIOS
    old = jax.tree.map(lambda new, r: new - r, out.output.loglikelihoods, log_ratios)
    rollout = Transition(
        obs=obs,
        network_output=dataclasses.replace(out.output, loglikelihoods=old),
        rewards=reward,
        done=jnp.ones((T, B), bool),
        truncated=jnp.zeros((T, B), bool),
        bootstrap_value=jax.tree.map(jnp.zeros_like, reward),
        metrics={},
        rollout_extras=out.rollout_extras,
    )
    config = PPOConfig(
        n_envs=B,
        n_minibatches=1,
        normalize_advantages=False,
        combine_advantages=combine_advantages,
        clip_range=0.2,
    )
    _, metrics = ppo_loss(network, initial_state(network, B), rollout, config)
    values = out.output.value_estimates
    return metrics, {name: np.asarray(reward[name] - values[name], float) for name in rewards}


def surrogate(log_ratio, advantage):
    ratio = np.exp(log_ratio)
    return -np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage).mean()


def test_each_part_of_the_action_is_trained_on_the_one_advantage_by_its_own_ratio():
    metrics, advantages = loss_metrics(joint=False)
    expected = {name: surrogate(r, advantages["speed"]) for name, r in LOG_RATIOS.items()}
    actor = metrics["losses/actor"]
    assert set(actor) == set(expected)
    for name, value in expected.items():
        assert float(actor[name]) == pytest.approx(value, rel=1e-4)
    assert float(metrics["replay/ratio_deviation"]) == pytest.approx(np.exp(0.3) - 1, rel=1e-4)


def test_joint_action_is_trained_by_the_product_of_the_ratios():
    metrics, advantages = loss_metrics(joint=True)
    expected = surrogate(sum(LOG_RATIOS.values()), advantages["speed"])
    assert float(metrics["losses/actor"]) == pytest.approx(expected, rel=1e-4)
    assert float(metrics["replay/ratio_deviation"]) == pytest.approx(np.exp(0.2) - 1, rel=1e-4)


def test_joint_action_is_trained_on_the_sum_of_several_advantages():
    rewards = ("speed", "energy")
    metrics, advantages = loss_metrics(True, combine_advantages=True, rewards=rewards)
    expected = surrogate(sum(LOG_RATIOS.values()), sum(advantages.values()))
    assert float(metrics["losses/actor"]) == pytest.approx(expected, rel=1e-4)
    with pytest.raises(ValueError, match=r"log-likelihoods one bare array; set combine_advantages"):
        loss_metrics(True, rewards=rewards)
    with pytest.raises(ValueError, match=r"log-likelihoods \['aim'\], \['choice'\]; set combine"):
        loss_metrics(False, rewards=rewards)


@pytest.mark.parametrize("joint", [1, None, "yes"])
def test_joint_that_is_no_bool_is_refused(joint):
    with pytest.raises(TypeError, match=r"PPOAdapter\.joint: expected True or False, got"):
        hybrid(joint)
