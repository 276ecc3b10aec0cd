"""RewardNormalizer against plain loops, and where training uses it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import (
    EvalConfig,
    PPOConfig,
    RewardNormalizer,
    TrainConfig,
    latest_checkpoint,
    load_checkpoint,
    make_checkpoint_fn,
    make_env,
    train_ppo,
)
from nnx_ppo_train.presets import NetworkOptions, make_network
from nnx_stateful.testing import check_stateful_module

from ._networks import RandomEnds, make

T, B = 7, 3
PPO = PPOConfig(
    n_envs=4,
    rollout_length=8,
    total_steps=96,
    n_epochs=1,
    n_minibatches=1,
    normalize_values=False,
    normalize_rewards=True,
)
CONFIG = TrainConfig(ppo=PPO, eval=EvalConfig(enabled=False))


def plain_sums(rewards, done, discount):
    sums, total = np.zeros_like(rewards), np.zeros(rewards.shape[1])
    for t in range(rewards.shape[0]):
        total = discount * total + rewards[t]
        sums[t] = total
        total = np.where(done[t], 0.0, total)
    return sums


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(2.0, 3.0, (T, B)).astype(np.float32), rng.random((T, B)) < 0.3


def test_rewards_are_divided_by_the_std_of_their_discounted_sums(data):
    rewards, done = data
    normalizer = RewardNormalizer(jnp.zeros(()), 0.8)
    out = normalizer.unroll(normalizer.initialize_state(B), rewards, jnp.asarray(done))
    sums = plain_sums(rewards, done, 0.8)
    np.testing.assert_allclose(out.rollout_extras, sums, rtol=1e-5)
    normalizer.update_statistics(out.rollout_extras)
    np.testing.assert_allclose(normalizer.scaled(rewards), rewards / sums.std(), rtol=1e-5)


def test_each_reward_has_its_own_scale_and_discount(data):
    rewards, done = data
    tree = {"a": rewards, "b": 10 * rewards}
    normalizer = RewardNormalizer(tree, {"a": 0.8, "b": 0.0})
    out = normalizer.unroll(normalizer.initialize_state(B), tree, jnp.asarray(done))
    normalizer.update_statistics(out.rollout_extras)
    scaled = normalizer.scaled(tree)
    sums = plain_sums(rewards, done, 0.8)
    np.testing.assert_allclose(scaled["a"], rewards / sums.std(), rtol=1e-5)
    np.testing.assert_allclose(scaled["b"], rewards / rewards.std(), rtol=1e-5)


def test_it_is_a_lawful_module():
    sample = {"a": jnp.ones(3), "b": jnp.linspace(0.0, 1.0, 3)}
    check_stateful_module(RewardNormalizer({"a": 0.0, "b": 0.0}, 0.9), sample)


class Loud(RandomEnds):
    """Rewards a thousand times as large."""

    def step(self, state, action):
        stepped = super().step(state, action)
        return stepped.replace(reward=1e3 * stepped.reward)


def test_training_does_not_see_the_unit_of_the_reward():
    """With normalised rewards a thousandfold reward gives the same training, to rounding."""
    quiet, loud = make("mlp"), make("mlp")
    logs = {}
    for name, env, network in (("quiet", RandomEnds(), quiet), ("loud", Loud(), loud)):
        train_ppo(env, network, CONFIG, log_fn=lambda m, s, name=name: logs.setdefault(name, m))
    for a, b in zip(jax.tree.leaves(_params(quiet)), jax.tree.leaves(_params(loud)), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4)
    assert logs["loud"]["train/episode_reward"] == pytest.approx(
        1e3 * logs["quiet"]["train/episode_reward"], rel=1e-4
    )


def test_normalizer_is_part_of_the_training_state_and_of_its_checkpoint(tmp_path):
    whole, half = make("mlp"), make("mlp")
    train_ppo(RandomEnds(), whole, CONFIG)
    save = make_checkpoint_fn(tmp_path, CONFIG)
    train_ppo(RandomEnds(), half, CONFIG, total_steps=32, checkpoint_fn=save)
    loaded = load_checkpoint(latest_checkpoint(tmp_path), make("mlp"), RandomEnds(), CONFIG)
    assert loaded.reward_normalizer.sums.sample_count == 32
    assert loaded.reward_sums.shape == (4,)
    other = make("mlp")
    train_ppo(RandomEnds(), other, CONFIG, initial_state=loaded)
    for a, b in zip(jax.tree.leaves(_params(whole)), jax.tree.leaves(_params(other)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_run_cannot_go_on_without_its_normalizer():
    first = train_ppo(RandomEnds(), make("mlp"), CONFIG, total_steps=32)
    config = TrainConfig(
        ppo=PPOConfig(n_envs=4, rollout_length=8, total_steps=96, n_epochs=1, n_minibatches=1),
        eval=EvalConfig(enabled=False),
    )
    with pytest.raises(ValueError, match=r"initial_state: .*normalize_rewards that it began with"):
        train_ppo(RandomEnds(), make("mlp"), config, initial_state=first.training_state)


def _params(network):
    return nnx.state(network, nnx.Param)


@pytest.mark.slow
@pytest.mark.parametrize(("truncation", "counted"), [("bootstrap", 160), ("mask", 144)])
def test_masked_truncations_leave_its_statistics_too(truncation, counted):
    env = make_env("limit-reward", limit=10)
    network = make_network("mlp", env, nnx.Rngs(0), NetworkOptions(hidden_size=4))
    ppo = PPOConfig(
        n_envs=8,
        rollout_length=20,
        total_steps=160,
        truncation=truncation,
        normalize_values=False,
        normalize_rewards=True,
    )
    result = train_ppo(env, network, TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False)))
    assert result.training_state.reward_normalizer.sums.sample_count == counted


@pytest.mark.parametrize("discount", [{"a": 0.9}, {"a": 0.9, "c": 0.5}])
def test_discounts_of_another_tree_are_refused(discount):
    with pytest.raises(ValueError, match="discount: expected a number, or a tree of them like"):
        RewardNormalizer({"a": 0.0, "b": 0.0}, discount)


def test_a_discount_that_is_no_number_is_refused():
    with pytest.raises(TypeError, match=r"discount: expected a tree of arrays, got '0\.9'"):
        RewardNormalizer({"a": 0.0, "b": 0.0}, "0.9")
