"""ppo_loss against hand-written NumPy arithmetic on a network of known outputs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import LoggingLevel, PPOConfig, PPONetworkOutput, Transition, ppo_loss
from nnx_stateful import StatefulModule, StatefulModuleOutput

T, B = 4, 3
BASE = {"n_envs": B, "rollout_length": T, "n_minibatches": 1, "logging_level": LoggingLevel.ALL}


class Table(StatefulModule):
    """Returns the likelihoods and values that it is shown as observations."""

    def __init__(self, penalty=0.0):
        self.scale = nnx.Param(jnp.ones(()))
        self.penalty = penalty

    def __call__(self, state, x, rollout_extras=None):
        output = PPONetworkOutput(
            actions=x["action"],
            loglikelihoods=jax.tree.map(lambda leaf: leaf * self.scale, x["loglikelihood"]),
            value_estimates=jax.tree.map(lambda leaf: leaf * self.scale, x["value"]),
        )
        return StatefulModuleOutput(state, output, self.penalty, {})


def make_rollout(rng, structure=lambda make: make()):
    draw = lambda: structure(lambda: rng.normal(size=(T, B)).astype(np.float32))  # noqa: E731
    done = rng.random((T, B)) < 0.4
    truncated = done & (rng.random((T, B)) < 0.5)
    new, value = draw(), draw()
    old_value = jax.tree.map(lambda leaf: leaf + rng.normal(size=(T, B)), value)
    bootstrap = jax.tree.map(lambda leaf: np.where(truncated, leaf, 0.0), draw())
    last = draw()
    for b, v in zip(jax.tree.leaves(bootstrap), jax.tree.leaves(last), strict=True):
        b[-1] = np.where(done[-1], b[-1], v[-1])
    old = jax.tree.map(lambda leaf: leaf + 0.3 * rng.normal(size=(T, B)), new)
    action = np.zeros((T, B, 1))
    return Transition(
        obs={"action": action, "loglikelihood": new, "value": value},
        network_output=PPONetworkOutput(action, old, old_value),
        rewards=draw(),
        done=done,
        truncated=truncated,
        bootstrap_value=bootstrap,
        metrics={},
    )


def plain_advantages(reward, value, bootstrap, done, ignored, discount, lambda_):
    advantage = np.zeros((T, B))
    for row in range(B):
        following = 0.0
        for t in reversed(range(T)):
            cut = done[t, row] or t == T - 1
            next_value = bootstrap[t, row] if cut else value[t + 1, row]
            delta = reward[t, row] + discount * next_value - value[t, row]
            if ignored[t, row]:
                delta = 0.0
            following = delta + (0.0 if done[t, row] else discount * lambda_ * following)
            advantage[t, row] = following
    return advantage


def plain_loss(rollout, config, penalty):
    keep = ~rollout.truncated if config.truncation == "mask" else np.ones((T, B), bool)
    obs, old = rollout.obs, rollout.network_output.loglikelihoods
    old_value = rollout.network_output.value_estimates
    baseline = obs["value"] if config.recompute_advantages else old_value
    advantage = plain_advantages(
        rollout.rewards,
        baseline,
        rollout.bootstrap_value,
        rollout.done,
        ~keep,
        config.discounting_factor,
        config.gae_lambda,
    )
    target = baseline + advantage
    keep = keep & (np.arange(T)[:, None] >= config.burn_in)
    critic = plain_value_loss(obs["value"] - target, config)
    if config.value_clip_range is not None:
        eps = config.value_clip_range
        near = old_value + np.clip(obs["value"] - old_value, -eps, eps)
        critic = np.maximum(critic, plain_value_loss(near - target, config))
    if config.normalize_advantages:
        kept = advantage[keep]
        advantage = (advantage - kept.mean()) / (kept.std() + 1e-8)
    ratio = np.exp(obs["loglikelihood"] - old)
    low, high = 1 - config.clip_range, 1 + config.clip_range
    surrogate = np.minimum(ratio * advantage, np.clip(ratio, low, high) * advantage)
    return -surrogate[keep].mean() + config.critic_loss_weight * critic[keep].mean() + penalty


def plain_value_loss(error, config):
    delta = config.huber_delta
    square = 0.5 * error**2
    if delta is None:
        return square
    return np.where(np.abs(error) <= delta, square, delta * (np.abs(error) - 0.5 * delta))


LOSS_OPTIONS = [
    {"normalize_advantages": False},
    {"normalize_advantages": False, "clip_range": 0.1},
    {"truncation": "mask"},
    {"truncation": "mask", "normalize_advantages": False, "gae_lambda": 0.0},
    {"critic_loss_weight": 0.25, "discounting_factor": 0.5, "gae_lambda": 1.0},
    {"value_clip_range": 0.3},
    {"huber_delta": 0.5},
    {"huber_delta": 0.5, "value_clip_range": 0.1, "recompute_advantages": True},
    {"recompute_advantages": True},
    {"recompute_advantages": True, "normalize_over": "minibatch", "clip_range": 0.1},
    {"burn_in": 2},
    {"burn_in": 1, "truncation": "mask", "value_clip_range": 0.3, "bptt_length": 1},
]


@pytest.mark.parametrize("changes", [{}, *LOSS_OPTIONS], ids=str)
def test_loss_equals_plain_arithmetic(changes):
    rollout = make_rollout(np.random.default_rng(0))
    config = PPOConfig(**BASE, **changes)
    loss, _ = ppo_loss(Table(penalty=0.7), (), rollout, config)
    np.testing.assert_allclose(loss, plain_loss(rollout, config, 0.7), rtol=2e-5)
    if changes:
        usual, _ = ppo_loss(Table(penalty=0.7), (), rollout, PPOConfig(**BASE))
        assert abs(loss - usual) > 1e-4


def test_combined_advantages_train_every_action_on_the_sum():
    rng = np.random.default_rng(1)
    pair = lambda make: {"a": make(), "b": make()}  # noqa: E731
    rollout = make_rollout(rng, pair)
    config = PPOConfig(
        **BASE, combine_advantages=True, normalize_advantages=False, recompute_advantages=True
    )
    loss, _ = ppo_loss(Table(), (), rollout, config)
    advantages = {
        key: plain_advantages(
            rollout.rewards[key],
            rollout.obs["value"][key],
            rollout.bootstrap_value[key],
            rollout.done,
            np.zeros((T, B), bool),
            config.discounting_factor,
            config.gae_lambda,
        )
        for key in "ab"
    }
    total = advantages["a"] + advantages["b"]
    expected = sum(0.5 * np.mean(a**2) for a in advantages.values())
    for key in "ab":
        ratio = np.exp(
            rollout.obs["loglikelihood"][key] - rollout.network_output.loglikelihoods[key]
        )
        expected -= np.minimum(ratio * total, np.clip(ratio, 0.8, 1.2) * total).mean()
    np.testing.assert_allclose(loss, expected, rtol=2e-5)


def test_targets_and_advantages_carry_no_gradient():
    rollout = make_rollout(np.random.default_rng(2))
    config = PPOConfig(
        **BASE, critic_loss_weight=1.0, normalize_advantages=False, recompute_advantages=True
    )
    table = Table()
    graphdef, params = nnx.split(table)

    def loss(params):
        return ppo_loss(nnx.merge(graphdef, params), (), rollout, config)[0]

    (grad,) = jax.tree.leaves(jax.grad(loss)(params))
    advantage = plain_advantages(
        rollout.rewards,
        rollout.obs["value"],
        rollout.bootstrap_value,
        rollout.done,
        np.zeros((T, B), bool),
        config.discounting_factor,
        config.gae_lambda,
    )
    new = rollout.obs["loglikelihood"]
    ratio = np.exp(new - rollout.network_output.loglikelihoods)
    low, high = 1 - config.clip_range, 1 + config.clip_range
    unclipped = ratio * advantage <= np.clip(ratio, low, high) * advantage
    actor = -np.mean(np.where(unclipped, ratio * advantage * new, 0.0))
    critic = np.mean(-advantage * rollout.obs["value"])
    np.testing.assert_allclose(grad, actor + critic, rtol=1e-4)


@pytest.mark.parametrize("truncation", ["bootstrap", "mask"])
def test_metrics_tell_the_truth(truncation):
    rollout = make_rollout(np.random.default_rng(3))
    config = PPOConfig(**BASE, truncation=truncation, recompute_advantages=False)
    _, metrics = ppo_loss(Table(), (), rollout, config)
    keep = ~rollout.truncated if truncation == "mask" else np.ones((T, B), bool)
    log_ratio = rollout.obs["loglikelihood"] - rollout.network_output.loglikelihoods
    ratio = np.exp(log_ratio)
    old_value = rollout.network_output.value_estimates
    target = old_value + plain_advantages(
        rollout.rewards,
        old_value,
        rollout.bootstrap_value,
        rollout.done,
        ~keep,
        config.discounting_factor,
        config.gae_lambda,
    )
    value, target, kept = rollout.obs["value"][keep], target[keep], ratio[keep]
    expected = {
        "losses/clipping_fraction": np.mean(np.abs(kept - 1) > 0.2),
        "losses/approx_kl": np.mean(kept - 1 - log_ratio[keep]),
        "losses/explained_variance": 1 - np.var(target - value) / np.var(target),
        "losses/critic_R^2": 1 - np.mean((target - value) ** 2) / np.var(target),
        "replay/ratio_deviation": np.abs(ratio - 1).max(),
    }
    for name, number in expected.items():
        np.testing.assert_allclose(metrics[name], number, rtol=1e-4, err_msg=name)


def test_divergences_of_actions_add_up_and_entropies_of_samplers_too():
    class Entropic(Table):
        def __call__(self, state, x, rollout_extras=None):
            out = super().__call__(state, x, rollout_extras)
            rows = x["value"]["a"]
            return out.replace(
                metrics={"arm": {"entropy": 0 * rows + 1.0}, "leg": {"entropy": 0 * rows + 2.5}}
            )

    pair = lambda make: {"a": make(), "b": make()}  # noqa: E731
    rollout = make_rollout(np.random.default_rng(5), pair)
    _, metrics = ppo_loss(Entropic(), (), rollout, PPOConfig(**BASE))
    assert set(metrics["losses/approx_kl"]) == {"a", "b"}
    total = sum(float(leaf) for leaf in metrics["losses/approx_kl"].values())
    np.testing.assert_allclose(metrics["replay/kl"], total, rtol=1e-5)
    np.testing.assert_allclose(metrics["losses/entropy"], 3.5, rtol=1e-6)


def test_each_reward_has_a_discount_of_its_own():
    pair = lambda make: {"a": make(), "b": make()}  # noqa: E731
    rollout = make_rollout(np.random.default_rng(6), pair)
    config = PPOConfig(
        **BASE,
        discounting_factor={"a": 0.5, "b": 0.9},
        normalize_advantages=False,
        recompute_advantages=True,
        clip_range=9.0,
    )
    _, metrics = ppo_loss(Table(), (), rollout, config)
    for key, discount in (("a", 0.5), ("b", 0.9)):
        expected = plain_advantages(
            rollout.rewards[key],
            rollout.obs["value"][key],
            rollout.bootstrap_value[key],
            rollout.done,
            np.zeros((T, B), bool),
            discount,
            config.gae_lambda,
        )
        np.testing.assert_allclose(metrics["losses/advantages"][key], expected, rtol=1e-4)


def test_mask_ignores_what_happens_at_truncated_steps():
    rollout = make_rollout(np.random.default_rng(4))
    config = PPOConfig(**BASE, truncation="mask")
    changed = dataclasses.replace(
        rollout, rewards=np.where(rollout.truncated, 1e3, rollout.rewards)
    )
    loss, _ = ppo_loss(Table(), (), rollout, config)
    again, _ = ppo_loss(Table(), (), changed, config)
    np.testing.assert_allclose(loss, again, rtol=1e-6)
    bootstrap = PPOConfig(**BASE, truncation="bootstrap")
    assert abs(ppo_loss(Table(), (), changed, bootstrap)[0] - loss) > 1.0
