"""Normalized values: statistics against plain loops, and learning without a unit of rewards."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from nnx_ppo_train import (
    EvalConfig,
    PPOConfig,
    TrainConfig,
    Transition,
    init_from,
    load_network,
    save_checkpoint,
    train_ppo,
)
from nnx_ppo_train._hyperparameters import Hyperparameters
from nnx_ppo_train._loop_state import StateFactory
from nnx_ppo_train._optimizer import Optimizer
from nnx_ppo_train._types import PPONetworkOutput
from nnx_ppo_train._update import Iteration
from nnx_ppo_train._value_statistics import HORIZON, ValueStatistics
from nnx_ppo_train.envs import make_env
from nnx_ppo_train.presets import NetworkOptions, make_network
from nnx_ppo_train.wrappers import RewardScalingWrapper
from nnx_stateful import Apply, Parallel, Sequential

T, B = 6, 4
GAMMA, LAMBDA = 0.9, 0.8


def make_rollout(rng, ends=0.3, scale=1.0, shift=0.0):
    done = rng.random((T, B)) < ends
    truncated = done & (rng.random((T, B)) < 0.5)
    cut = truncated | ((np.arange(T) == T - 1)[:, None] & ~done)
    values = rng.normal(size=(T, B)).astype(np.float32)
    bootstrap = np.where(cut, rng.normal(size=(T, B)), 0.0).astype(np.float32)
    rewards = (scale * rng.normal(size=(T, B)) + shift).astype(np.float32)
    return Transition(
        obs=None,
        network_output=PPONetworkOutput(None, None, jnp.asarray(values)),
        rewards=jnp.asarray(rewards),
        done=jnp.asarray(done),
        truncated=jnp.asarray(truncated),
        bootstrap_value=jnp.asarray(bootstrap),
        metrics={},
    )


@jax.jit
def updated(statistics, rollout, left_out=None):
    values = rollout.network_output.value_estimates
    return statistics.updated(rollout, values, GAMMA, LAMBDA, left_out, common=False)


def plain_targets(rollout, mean, std):
    """Targets of values ``mean + std * normalized``, step by step, in float64."""
    rewards = np.asarray(rollout.rewards, float)
    done, truncated = np.asarray(rollout.done), np.asarray(rollout.truncated)
    values = mean + std * np.asarray(rollout.network_output.value_estimates, float)
    bootstrap = mean + std * np.asarray(rollout.bootstrap_value, float)
    bootstrap[done & ~truncated] = 0.0
    targets = np.zeros_like(rewards)
    for row in range(B):
        advantage = 0.0
        for t in reversed(range(T)):
            last = done[t, row] or t == T - 1
            following = bootstrap[t, row] if last else values[t + 1, row]
            delta = rewards[t, row] + GAMMA * following - values[t, row]
            advantage = delta + (0.0 if last else GAMMA * LAMBDA * advantage)
            targets[t, row] = values[t, row] + advantage
    return targets


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), ends=st.sampled_from([0.0, 0.2, 0.6]))
def test_mean_is_that_of_its_own_targets_and_std_theirs(seed, ends):
    rollout = make_rollout(np.random.default_rng(seed), ends, scale=3.0, shift=5.0)
    statistics = updated(ValueStatistics.start(jnp.zeros(())), rollout)
    mean, std = float(statistics.mean[0]), float(statistics.std[0])
    targets = plain_targets(rollout, mean, 0.0)  # values count as their mean before any scale
    assert targets.mean() == pytest.approx(mean, rel=1e-4, abs=1e-4)
    assert np.sqrt(np.square(targets - mean).mean()) == pytest.approx(std, rel=1e-4)


def test_constant_reward_has_the_mean_value_of_its_horizon():
    rollout = make_rollout(np.random.default_rng(0), ends=0.0, scale=0.0, shift=2.0)
    statistics = updated(ValueStatistics.start(jnp.zeros(())), rollout)
    assert float(statistics.mean[0]) == pytest.approx(2.0 / (1.0 - GAMMA), rel=1e-5)


def test_statistics_average_over_iterations():
    rng = np.random.default_rng(1)
    statistics = ValueStatistics.start(jnp.zeros(()))
    for scale in [100.0] * 3 + [1.0] * 100:
        statistics = updated(statistics, make_rollout(rng, scale=scale))
    assert float(statistics.weight) == pytest.approx(HORIZON, rel=0.01)
    assert float(statistics.std[0]) < 5.0


def test_large_outputs_of_a_critic_do_not_raise_its_own_std():
    rng = np.random.default_rng(5)
    statistics = ValueStatistics.start(jnp.zeros(()))
    for _ in range(40):
        rollout = make_rollout(rng)
        large = jax.tree.map(lambda x: 100.0 * x, (rollout.network_output, rollout.bootstrap_value))
        output, bootstrap = large
        statistics = updated(
            statistics,
            dataclasses.replace(rollout, network_output=output, bootstrap_value=bootstrap),
        )
    assert 0.3 < float(statistics.std[0]) < 10.0


def test_rewards_with_a_common_unit_keep_their_ratio():
    rng = np.random.default_rng(6)
    one, other = make_rollout(rng), make_rollout(rng, scale=10.0)
    rollout = dataclasses.replace(
        one,
        rewards={"a": one.rewards, "b": other.rewards},
        bootstrap_value={"a": one.bootstrap_value, "b": one.bootstrap_value},
    )
    value = one.network_output.value_estimates
    discounts = {"a": GAMMA, "b": 0.5}
    for common in (False, True):
        statistics = ValueStatistics.start(rollout.rewards).updated(
            rollout, {"a": value, "b": value}, discounts, LAMBDA, None, common=common
        )
        assert (float(statistics.std[0]) == float(statistics.std[1])) == common
        assert float(statistics.mean[0]) != float(statistics.mean[1])


def test_steps_left_out_do_not_count():
    rollout = make_rollout(np.random.default_rng(2))
    left_out = jnp.zeros((T, B), bool).at[:, 1].set(True)
    changed = dataclasses.replace(rollout, rewards=rollout.rewards.at[:, 1].set(1e6))
    start = ValueStatistics.start(jnp.zeros(()))
    jax.tree.map(
        np.testing.assert_array_equal,
        updated(start, rollout, left_out),
        updated(start, changed, left_out),
    )
    unchanged = updated(start, rollout, jnp.ones((T, B), bool))
    jax.tree.map(np.testing.assert_array_equal, unchanged, start)
    assert float(unchanged.std[0]) == 1.0


def test_normalized_rewards_have_the_normalized_targets():
    rollout = make_rollout(np.random.default_rng(3), scale=3.0, shift=5.0)
    statistics = updated(ValueStatistics.start(jnp.zeros(())), rollout)
    mean, std = float(statistics.mean[0]), float(statistics.std[0])
    lesson = statistics.normalized(rollout, GAMMA)
    wanted = (plain_targets(rollout, mean, std) - mean) / std
    np.testing.assert_allclose(plain_targets(lesson, 0.0, 1.0), wanted, atol=1e-4)


def test_rewards_without_spread_are_left_in_their_unit():
    rollout = make_rollout(np.random.default_rng(4), ends=0.0, scale=0.0)
    statistics = updated(ValueStatistics.start(jnp.zeros(())), rollout)
    assert (float(statistics.mean[0]), float(statistics.std[0])) == (0.0, 1.0)


class Scaled:
    """Iterations of one network on rewards times a factor, compiled once."""

    def __init__(self, env, network):
        config = TrainConfig(
            ppo=PPOConfig(
                n_envs=8, rollout_length=10, n_epochs=1, n_minibatches=2, normalize_values=True
            ),
            eval=EvalConfig(enabled=False),
        )
        optimizer, graphdef = Optimizer(config.ppo, None), nnx.split(network)[0]
        self.start = StateFactory(env, graphdef, optimizer, config).fresh(network, 0)
        self.hyper = Hyperparameters.of(config.ppo).as_arrays()
        self.iterate = jax.jit(Iteration(env, graphdef, optimizer, config.ppo, None))

    def parameters(self, factor, iterations=10):
        hyper = dataclasses.replace(self.hyper, reward_scaling=jnp.float32(factor))
        state = self.start
        for _ in range(iterations):
            state, _ = self.iterate(state, hyper)
        return state.params


NETWORKS = {
    "mlp": ("cartpole", "mlp", {}),
    "lstm": ("recall", "lstm", {}),
    "graph": ("cartpole", "graph", {}),
    "nested rewards": ("body-chain", "mlp", {}),
}


@pytest.fixture(scope="module", params=NETWORKS)
def scaled(request):
    env_name, name, options = NETWORKS[request.param]
    env = make_env(env_name)
    network = make_network(name, env, nnx.Rngs(0), NetworkOptions(hidden_size=8, **options))
    return Scaled(env, network)


def test_updates_do_not_depend_on_the_unit_of_rewards(scaled):
    wanted = scaled.parameters(1.0)
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), wanted, scaled.start.params)
    assert max(jax.tree.leaves(moved)) > 1e-3
    for exponent in (7, -7, 13, -13):
        jax.tree.map(np.testing.assert_array_equal, scaled.parameters(2.0**exponent), wanted)
    for factor in (3.0, 1e-4, 1e4):
        got = scaled.parameters(factor)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), got, wanted)


def test_trained_networks_give_values_in_the_unit_of_rewards(tmp_path):
    env = make_env("cartpole")
    ppo = PPOConfig(n_envs=4, rollout_length=6, total_steps=48, n_epochs=1, n_minibatches=2)
    config = TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False))
    found = {}
    for scale in (1.0, 8.0):
        network = make_network("mlp", env, nnx.Rngs(0), NetworkOptions(hidden_size=4))
        untrained = nnx.clone(network)
        result = train_ppo(RewardScalingWrapper(env, scale), network, config)
        save_checkpoint(tmp_path / str(scale), result.training_state, config)
        loaded = load_network(tmp_path / str(scale), untrained)
        values = [
            net(net.initialize_state(3), jnp.ones((3, 4))).output.value_estimates
            for net in (network, loaded)
        ]
        np.testing.assert_array_equal(*values)
        found[scale] = values[0]
        # the trained network serves as a template, too
        again = load_network(tmp_path / str(scale), network)
        np.testing.assert_array_equal(
            again(again.initialize_state(3), jnp.ones((3, 4))).output.value_estimates, values[0]
        )
        init_from(tmp_path / str(scale), network)
    np.testing.assert_array_equal(found[8.0], 8.0 * found[1.0])
    assert np.abs(found[1.0]).min() > 5.0  # every step earns 1, and the discount is 0.99


def test_a_further_training_that_fails_at_once_leaves_the_unit_of_values():
    env = make_env("cartpole")
    ppo = PPOConfig(n_envs=4, rollout_length=6, total_steps=24, n_epochs=1, n_minibatches=2)
    config = TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False))
    network = make_network("mlp", env, nnx.Rngs(0), NetworkOptions(hidden_size=4))
    train_ppo(env, network, config)

    def values():
        return network(network.initialize_state(3), jnp.ones((3, 4))).output.value_estimates

    before = values()

    def fail(state, steps):
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        train_ppo(env, network, config, checkpoint_fn=fail)
    np.testing.assert_array_equal(values(), before)


def test_several_adapters_are_refused():
    env = make_env("cartpole")
    parts = [make_network("mlp", env, nnx.Rngs(i), NetworkOptions(hidden_size=4)) for i in (0, 1)]
    network = Sequential(
        [Parallel({"a": parts[0], "b": parts[1]}), Apply(lambda outputs: outputs["a"])]
    )
    config = TrainConfig(ppo=PPOConfig(n_envs=4, total_steps=24), eval=EvalConfig(enabled=False))
    with pytest.raises(ValueError, match=r"a network with one PPOAdapter, .* got one with 2"):
        train_ppo(env, network, config)
