"""Values that are not finite: left out, counted, told; they never look like success."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import (
    EvalConfig,
    NonFiniteError,
    PPOConfig,
    TrainConfig,
    eval_rollout,
    make_env,
    ppo_loss,
    stop_at_return,
    train_ppo,
    train_ppo_many,
    unroll_env,
)
from nnx_ppo_train.presets import make_network
from nnx_stateful import Sequential, StatefulModule, StatefulModuleOutput, initial_state

from ._networks import RandomEnds, make

B, T = 8, 6
PPO = PPOConfig(n_envs=B, rollout_length=T, total_steps=2 * B * T, learning_rate=1e-2, n_epochs=2)
QUIET = TrainConfig(ppo=PPO, eval=EvalConfig(enabled=False))
BAD = {"nan": jnp.nan, "inf": jnp.inf, "-inf": -jnp.inf, "large": 1e25}


class Planted(RandomEnds):
    """A random walk that now and then returns a bad value; metrics say where."""

    def __init__(self, kind="reward", value=jnp.nan, rate=0.05):
        super().__init__()
        self.kind, self.value, self.rate = kind, value, rate

    def step(self, state, action):
        after = super().step(state, action)
        bad = jax.random.uniform(jax.random.fold_in(after.key, 7)) < self.rate
        if self.kind == "reward":
            after = after.replace(reward=jnp.where(bad, self.value, after.reward))
        else:
            entry = jnp.where(bad, self.value, after.obs[1])
            after = after.replace(obs=after.obs.at[1].set(entry))
        return after.replace(metrics={"speed": after.metrics["speed"], "bad": 1.0 * bad})

    def reset(self, rng):
        state = super().reset(rng)
        return state.replace(metrics={**state.metrics, "bad": jnp.zeros(())})


class Break(StatefulModule):
    """Passes its input on, but for where it is told to return something else.

    Its carry counts the steps of the episode, which decides when.
    """

    def __init__(self, what: str, value: float, at: float = 0.12):
        self.what, self.value, self.at = what, value, at

    def __call__(self, state, x, rollout_extras=None):
        now = (x[:, 0] > self.at)[:, None]
        output = jnp.where(now & (self.what == "output"), self.value, x)
        kept = jnp.where(now & (self.what == "carry"), self.value, state + 1)
        return StatefulModuleOutput(kept, output + 0 * state, 0.0, {})

    def initialize_state(self, batch_size):
        return jnp.zeros((batch_size, 1))

    def reset_state(self, prev_state):
        return 0 * prev_state  # keeps NaN, if it sees it


def floats(network):
    leaves = jax.tree.leaves(network if isinstance(network, nnx.State) else nnx.state(network))
    return [np.asarray(x) for x in leaves if jnp.issubdtype(x.dtype, jnp.floating)]


def is_finite(network):
    return all(np.all(np.isfinite(leaf)) for leaf in floats(network))


def trained(env, network, config=QUIET, **options):
    logs = []
    train_ppo(env, network, config, log_fn=lambda metrics, step: logs.append(metrics), **options)
    return logs


@pytest.mark.fast("reward-nan")
@pytest.mark.parametrize(
    ("kind", "value"), [("reward", "nan"), ("observation", "inf"), ("observation", "large")]
)
def test_bad_samples_of_the_environment_are_left_out_and_counted(kind, value):
    network = make("lstm")
    before = floats(network)
    logs = trained(Planted(kind, BAD[value]), network)
    assert is_finite(network)
    assert any(np.any(a != b) for a, b in zip(before, floats(network), strict=True))
    for metrics in logs:
        assert all(np.isfinite(entry) for entry in metrics.values())
        assert metrics["updates"] == PPO.updates_per_iteration
        assert metrics["nonfinite/samples"] == metrics[f"nonfinite/{kind}"]
        assert metrics["train/ends/nonfinite"] == metrics["nonfinite/samples"]
    counted = sum(B * T - metrics["nonfinite/samples"] for metrics in logs)
    assert counted < B * T * len(logs)
    assert network[0].sample_count == counted


def unrolled(env, network, seed=0):
    keys = jax.random.split(jax.random.key(seed), B)
    states = jax.vmap(env.reset)(keys)
    state = initial_state(network, B)
    run = jax.jit(lambda s, n, k: unroll_env(env, s, network, n, T, k))
    return state, run(states, state, jax.random.key(1))


def test_rollout_ends_episodes_of_bad_samples_and_starts_new_ones():
    env = Planted("reward", jnp.nan, rate=0.2)
    _, (carry, states, rollout) = unrolled(env, make("lstm"))
    planted = np.asarray(rollout.metrics["env"]["bad"]) > 0
    assert planted.any()
    np.testing.assert_array_equal(rollout.nonfinite, planted)
    np.testing.assert_array_equal(rollout.metrics["nonfinite"]["reward"], planted)
    assert np.all(np.asarray(rollout.done)[planted])
    assert not np.any(np.asarray(rollout.truncated)[planted])
    assert not np.any(np.asarray(rollout.bootstrap_value)[planted])
    assert np.all(np.isfinite(rollout.rewards))
    del carry, states


@pytest.mark.fast("carry")
@pytest.mark.parametrize("what", ["output", "carry"])
def test_bad_outputs_and_carries_are_left_out_and_their_rows_start_anew(what):
    network = make("mlp")
    broken = Sequential([network[0], Break(what, jnp.nan), *list(network.children.values())[1:]])
    state, (carry, _, rollout) = unrolled(RandomEnds(), broken)
    bad = np.asarray(rollout.metrics["nonfinite"][what])
    assert 0 < bad.sum() < bad.size / 2
    assert np.all(np.asarray(rollout.done)[bad])
    assert is_finite(nnx.State({"carry": carry}))
    grads = nnx.grad(lambda net: ppo_loss(net, state, rollout, PPO)[0])(broken)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(grads))


@pytest.mark.slow
def test_a_step_before_a_missing_value_is_left_out_too():
    network = make("mlp")
    broken = Sequential(
        [network[0], Break("output", jnp.nan), *list(network.children.values())[1:]]
    )
    _, (_, _, rollout) = unrolled(RandomEnds(truncate=0.0), broken)
    bad, left_out = (
        np.asarray(rollout.metrics["nonfinite"]["output"]),
        np.asarray(rollout.nonfinite),
    )
    before = np.zeros_like(bad)
    before[:-1] = bad[1:] & ~np.asarray(rollout.done)[:-1]
    assert before[:-2].any()
    # The last step has a bootstrap value of its own, which may be the bad one.
    np.testing.assert_array_equal(left_out[:-2], (bad | before)[:-2])


def test_losses_of_other_samples_do_not_depend_on_the_bad_ones():
    env = Planted("observation", jnp.nan, rate=0.2)
    network = make("lstm")
    state, (_, _, rollout) = unrolled(env, network)
    config = dataclasses.replace(PPO, normalize_advantages=False)

    def loss_and_gradient(rollout):
        return nnx.value_and_grad(lambda net: ppo_loss(net, state, rollout, config)[0])(network)

    def spoiled(leaf):
        return jnp.where(rollout.nonfinite, leaf + 3.0, leaf)

    other = dataclasses.replace(
        rollout,
        rewards=spoiled(rollout.rewards),
        network_output=dataclasses.replace(
            rollout.network_output, loglikelihoods=spoiled(rollout.network_output.loglikelihoods)
        ),
    )
    for a, b in zip(*map(jax.tree.leaves, map(loss_and_gradient, (rollout, other))), strict=True):
        assert np.all(np.isfinite(a))
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def poisoned(network):
    """The same network with parameters of NaN."""
    state = nnx.state(network, nnx.Param)
    nnx.update(network, jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), state))
    return network


def long(config, iterations=40):
    steps = iterations * config.ppo.steps_per_iteration
    return dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, total_steps=steps))


def test_a_network_of_nan_ends_with_a_reason_and_saves_first():
    logs, saved = [], []
    with pytest.raises(
        NonFiniteError, match="10 iterations in a row without an applied update"
    ) as e:
        train_ppo(
            RandomEnds(),
            poisoned(make("mlp")),
            long(QUIET),
            log_fn=lambda metrics, step: logs.append(metrics),
            checkpoint_fn=lambda state, step: saved.append(step),
        )
    assert e.value.result.total_iterations <= 11  # one more may be under way
    assert saved[-1] == e.value.result.total_steps
    trained = [metrics for metrics in logs if "updates" in metrics]
    assert all(np.isnan(metrics["losses/total"]) for metrics in trained)
    assert all(metrics["nonfinite/samples"] == B * T for metrics in trained)


@pytest.mark.parametrize("name", ["cartpole", "cartpole-positions"])
def test_a_network_of_nan_never_counts_as_success(name):
    env = make_env(name)
    network = poisoned(make_network("mlp", env, nnx.Rngs(0)))
    metrics = eval_rollout(env, network, 4, 20, jax.random.key(0))
    assert np.isnan(metrics["eval/episode_reward/mean"])
    assert metrics["eval/nonfinite"] == metrics["eval/ends/nonfinite"] == 1
    callback = stop_at_return(-1e9)
    assert callback({name: float(value) for name, value in metrics.items()}, 0) is None


def test_few_bad_episodes_leave_the_evaluation():
    env = Planted("reward", jnp.nan, rate=0.05)
    metrics = jax.device_get(
        eval_rollout(env, make("mlp"), 64, 50, jax.random.key(0), (0, 50, 100))
    )
    assert 0 < metrics["eval/nonfinite"] < 0.5
    assert all(np.isfinite(value) for value in metrics.values())
    shares = [metrics[f"eval/ends/{r}"] for r in ("terminated", "truncated", "cut", "nonfinite")]
    assert sum(shares) == pytest.approx(1.0)


class InfiniteDerivative(StatefulModule):
    """Adds sqrt of a parameter that is 0: the loss is finite, its gradient is not."""

    def __init__(self):
        self.zero = nnx.Param(jnp.zeros(()))

    def __call__(self, state, x, rollout_extras=None):
        return StatefulModuleOutput(state, x + jnp.sqrt(self.zero[...]), 0.0, {})


def with_infinite_derivative():
    network = make("mlp")
    return Sequential([network[0], InfiniteDerivative(), *list(network.children.values())[1:]])


class BadReplay(StatefulModule):
    """Passes its input on when it acts, and NaN when it is replayed: so is the divergence."""

    def __call__(self, state, x, rollout_extras=None):
        output = x if rollout_extras is None else x * jnp.nan
        return StatefulModuleOutput(state, output, 0.0, {}, x[:, 0])


def with_bad_replay():
    network = make("mlp")
    return Sequential([network[0], BadReplay(), *list(network.children.values())[1:]])


def test_updates_of_an_undefined_divergence_are_not_applied():
    config = dataclasses.replace(QUIET, ppo=dataclasses.replace(PPO, target_kl=0.01))
    network = with_bad_replay()
    before = floats(nnx.state(network, nnx.Param))
    (first, second) = trained(RandomEnds(), network, config)
    assert np.isnan(first["replay/kl"])
    assert first["nonfinite/updates"] == second["nonfinite/updates"] == PPO.updates_per_iteration
    for a, b in zip(before, floats(nnx.state(network, nnx.Param)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.fast("options1")
@pytest.mark.parametrize("options", [{}, {"gradient_clipping": 1.0}])
def test_updates_with_a_bad_gradient_are_not_applied(options):
    config = dataclasses.replace(QUIET, ppo=dataclasses.replace(PPO, **options))
    network = with_infinite_derivative()
    before = floats(network)[1:]
    logs = trained(RandomEnds(), network, config)
    assert [metrics["nonfinite/updates"] for metrics in logs] == [PPO.updates_per_iteration] * 2
    assert [metrics["updates"] for metrics in logs] == [0, 0]
    params = nnx.state(network, nnx.Param)
    assert is_finite(params)
    for a, b in zip(before, floats(with_infinite_derivative())[1:], strict=True):
        np.testing.assert_array_equal(a, b)


def raising(env, network, **options):
    config = long(QUIET)
    ppo = dataclasses.replace(config.ppo, nonfinite="raise", **options)
    with pytest.raises(NonFiniteError, match="iteration") as error:
        train_ppo(env, network, dataclasses.replace(config, ppo=ppo))
    return str(error.value)


def test_raise_names_the_first_observation_and_reward():
    assert "observation (the whole of it) is not finite in step" in raising(
        Planted("observation", jnp.inf, rate=0.02), make("mlp")
    )
    assert "reward (the whole of it) is not finite" in raising(
        Planted("reward", 1e25, rate=0.02), make("mlp")
    )


@pytest.mark.fast("output")
@pytest.mark.parametrize("what", ["output", "carry"])
def test_raise_names_the_module(what):
    network = make("mlp")
    broken = Sequential([network[0], Break(what, jnp.nan), *list(network.children.values())[1:]])
    text = raising(RandomEnds(), broken)
    assert f"iteration 1 (steps 0 to {B * T}): {what} " in text
    expected = "is 1" if what == "output" else "carry 1 is not finite"
    assert expected in text


class BadLoss(StatefulModule):
    """Passes its input on with a regularization loss that is not finite."""

    def __call__(self, state, x, rollout_extras=None):
        return StatefulModuleOutput(state, x, jnp.where(x[:, 0] > 0.12, jnp.inf, 0.0), {})


@pytest.mark.slow
def test_raise_names_a_regularization_loss():
    network = make("mlp")
    text = raising(
        RandomEnds(), Sequential([network[0], BadLoss(), *list(network.children.values())[1:]])
    )
    assert "output regularization_loss is not finite in step" in text


@pytest.mark.slow
def test_raise_names_the_value_after_the_last_step():
    network = make("mlp")

    class Late(RandomEnds):
        def step(self, state, action):
            after = super().step(state, action)
            beyond = after.info["truncated"]
            return after.replace(obs=jnp.where(beyond, 100.0, jnp.tanh(after.obs)))

    broken = Break("output", jnp.nan, at=5.0)
    text = raising(
        Late(0.0, 0.2), Sequential([network[0], broken, *list(network.children.values())[1:]])
    )
    assert "output value_after_the_last_step is not finite in step" in text


def test_raise_names_the_parameter_of_a_bad_gradient():
    text = raising(RandomEnds(), with_infinite_derivative())
    assert "expected finite gradients" in text
    assert "child_modules/1/zero" in text


@pytest.mark.slow
def test_raise_says_nothing_on_a_healthy_run():
    ppo = dataclasses.replace(PPO, nonfinite="raise")
    logs = trained(RandomEnds(), make("lstm"), dataclasses.replace(QUIET, ppo=ppo))
    assert [metrics["updates"] for metrics in logs] == [PPO.updates_per_iteration] * 2
    assert not any("first_leaf" in name for metrics in logs for name in metrics)


def test_ignore_does_as_it_says():
    ppo = dataclasses.replace(PPO, nonfinite="ignore")
    network = make("mlp")
    logs = trained(
        Planted("reward", jnp.nan, rate=0.3), network, dataclasses.replace(QUIET, ppo=ppo)
    )
    assert not is_finite(network)
    assert "nonfinite/samples" not in logs[0]


@pytest.mark.slow
def test_many_seeds_go_on_beside_one_of_nan_and_end_when_all_are():
    def network(env, rngs):
        is_second = bool(rngs.params() == nnx.Rngs(1).params())
        return poisoned(make("mlp")) if is_second else make("mlp")

    result = train_ppo_many(RandomEnds, network, long(QUIET, 12), seeds=[0, 1])
    assert result.total_iterations == 12
    assert result.final_metrics["updates"].tolist() == [PPO.updates_per_iteration, 0]
    with pytest.raises(NonFiniteError, match="10 iterations in a row") as error:
        train_ppo_many(RandomEnds, network, long(QUIET, 12), seeds=[1])
    assert error.value.result.total_iterations <= 11


def test_statistics_that_turn_bad_are_not_taken():
    class Overflowing(StatefulModule):
        def __init__(self):
            self.total = nnx.Variable(jnp.ones(()))

        def __call__(self, state, x, rollout_extras=None):
            return StatefulModuleOutput(state, x, 0.0, {}, x)

        def update_statistics(self, rollout_extras):
            self.total.set_value(self.total[...] * jnp.inf)

    network = make("mlp")
    network = Sequential([Overflowing(), *list(network.children.values())])
    logs = trained(RandomEnds(), network)
    assert is_finite(network)
    assert [metrics["nonfinite/statistics"] for metrics in logs] == [1, 1]


def test_healthy_runs_compute_no_nan_on_purpose():
    config = TrainConfig(
        ppo=dataclasses.replace(
            PPO, rollout_length=2, total_steps=4 * B, normalize_values=False, normalize_rewards=True
        ),
        eval=EvalConfig(n_envs=2, max_episode_length=3),
    )
    with jax.debug_nans(True):
        logs = trained(RandomEnds(0.0, 0.0), make("lstm"), config)
    assert all("train/episode_reward" not in metrics for metrics in logs)
    assert all(np.isfinite(value) for metrics in logs for value in metrics.values())
