"""train_ppo_many: every member is the single run, to rounding; bad requests are refused."""

import dataclasses
import functools
import os
import signal

import jax
import numpy as np
import optax
import pytest
from flax import nnx
from nnx_ppo_train import (
    EvalConfig,
    LoggingLevel,
    PPOConfig,
    ScaleLearningRate,
    TrainConfig,
    VideoConfig,
    train_ppo,
    train_ppo_many,
)
from nnx_ppo_train._sweep import make_members

from ._networks import HIDDEN, TRUNKS, RandomEnds, actor_critic, make

PPO = PPOConfig(
    n_envs=4,
    rollout_length=6,
    total_steps=5 * 24,
    n_epochs=2,
    n_minibatches=2,
    learning_rate=1e-3,
    logging_level=LoggingLevel.ALL,
)
CONFIG = TrainConfig(ppo=PPO, eval=EvalConfig(n_envs=3, max_episode_length=6, every_steps=48))
SEEDS = [3, 8]
RATES = [1e-3, 1e-2]


def make_lstm(env, rngs):
    """A network whose parameters depend on the seed."""
    return actor_critic(TRUNKS["lstm"](rngs), HIDDEN, rngs)


FACTORIES = {"make_env": RandomEnds, "make_network": make_lstm}


def make_silent():
    """A network whose sampler has no entropy weight."""
    network = make("lstm")
    for _, module in nnx.iter_modules(network):
        if hasattr(module, "entropy_weight"):
            module.entropy_weight = 0.0
    return network


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(True, id="vectorized"),
        pytest.param(False, id="in turns", marks=pytest.mark.slow),
    ],
)
def many(request):
    logs, saved = [], []
    result = train_ppo_many(
        RandomEnds,
        make_lstm,
        CONFIG,
        seeds=SEEDS,
        sweep={"learning_rate": RATES, "clip_range": [0.3]},
        log_fn=lambda metrics, step: logs.append((step, metrics)),
        checkpoint_fn=lambda state, step, member: saved.append((step, member, state)),
        vectorize=request.param,
    )
    return result, logs, saved


@pytest.fixture(scope="module")
def singles():
    """The runs that the members should equal."""
    runs = []
    for rate in RATES:
        for seed in SEEDS:
            ppo = dataclasses.replace(PPO, learning_rate=rate, clip_range=0.3)
            config = dataclasses.replace(CONFIG, ppo=ppo, seed=seed)
            logs, env = [], RandomEnds()
            result = train_ppo(
                env,
                make_lstm(env, nnx.Rngs(seed)),
                config,
                log_fn=lambda m, s, logs=logs: logs.append((s, m)),
            )
            runs.append((result, logs))
    return runs


def test_members_are_all_seeds_of_each_combination(many):
    result, *_ = many
    assert [(m.values["learning_rate"], m.seed) for m in result.members] == [
        (1e-3, 3), (1e-3, 8), (1e-2, 3), (1e-2, 8),
    ]  # fmt: skip
    assert result.members[2].config.ppo.learning_rate == 1e-2
    assert result.members[2].config.ppo.clip_range == 0.3
    assert result.members[2].config.seed == 3


def test_every_member_is_the_single_run(many, singles):
    result, *_ = many
    for state, (single, _) in zip(result.training_states, singles, strict=True):
        own = jax.tree.leaves(nnx.state(state.networks, nnx.Param))
        other = jax.tree.leaves(nnx.state(single.training_state.networks, nnx.Param))
        for a, b in zip(own, other, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-3)
        assert state.steps_taken == single.total_steps == 120
        np.testing.assert_array_equal(
            jax.random.key_data(state.rng_key),
            jax.random.key_data(single.training_state.rng_key),
        )


def test_metrics_carry_the_axis_of_the_members(many, singles):
    _, logs, _ = many
    assert [step for step, _ in logs] == [0, 24, 48, 72, 96, 120]
    for index, (_, single_logs) in enumerate(singles):
        for (step, metrics), (single_step, single_metrics) in zip(logs, single_logs, strict=True):
            assert step == single_step
            assert set(metrics) == set(single_metrics)
            for name in ("train/episode_reward", "losses/total", "eval/episode_reward/mean"):
                if name in metrics:
                    assert metrics[name].shape == (4,)
                    np.testing.assert_allclose(
                        metrics[name][index], single_metrics[name], atol=1e-3, err_msg=name
                    )
    assert isinstance(logs[1][1]["throughput/train_sps"], float)


def test_members_differ_by_seed_and_by_swept_value(many):
    _, logs, _ = many
    assert len(set(logs[-1][1]["losses/total"].tolist())) == 4
    np.testing.assert_allclose(logs[-1][1]["learning_rate"], [1e-3, 1e-3, 1e-2, 1e-2], rtol=1e-6)


def test_checkpoints_come_for_every_member(many):
    result, _, saved = many
    assert [(step, member) for step, member, _ in saved] == [
        (step, member) for step in (0, 120) for member in result.members
    ]


def test_evaluations_are_kept(many):
    result, *_ = many
    assert [entry["step"] for entry in result.eval_history] == [0, 48, 96, 120]
    assert result.final_metrics["eval/lifespan/mean"].shape == (4,)


def test_a_member_goes_on_alone(many):
    result, *_ = many
    member = result.members[1]
    config = dataclasses.replace(member.config, eval=EvalConfig(enabled=False))
    network = make_lstm(None, nnx.Rngs(0))
    further = train_ppo(
        RandomEnds(), network, config, total_steps=144, initial_state=result.training_states[1]
    )
    assert (further.total_steps, further.total_iterations) == (144, 1)


def test_all_go_on_together_and_callbacks_act_on_all(many):
    result, *_ = many
    quiet = dataclasses.replace(CONFIG, eval=EvalConfig(enabled=False))
    sweep = {"learning_rate": RATES}
    further = train_ppo_many(
        RandomEnds,
        make_lstm,
        quiet,
        seeds=SEEDS,
        sweep=sweep,
        total_steps=168,
        initial_states=result.training_states,
        callbacks=[lambda metrics, step: ScaleLearningRate(0.5) if step == 144 else None],
    )
    assert further.total_steps == 168
    scales = [float(s.schedules.learning_rate_scale) for s in further.training_states]
    assert scales == [0.5] * 4
    with pytest.raises(ValueError, match=r"initial_states: expected 2 states .* got 4"):
        train_ppo_many(
            RandomEnds, make_lstm, quiet, seeds=SEEDS, initial_states=result.training_states
        )


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"seeds": 4}, TypeError, r"expected several seeds, such as range\(8\), got 4"),
        ({"seeds": [1, 1]}, ValueError, r"each only once, got \[1, 1\]"),
        ({"seeds": []}, ValueError, "at least one seed"),
        ({"seeds": [-1]}, ValueError, "seeds: expected a whole number of at least 0"),
        ({"sweep": {"n_envs": [4, 8]}}, ValueError, "expected numeric options .* got 'n_envs'"),
        ({"vectorize": "gpu"}, TypeError, "vectorize: expected True, False or None, got 'gpu'"),
        ({"sweep": ["learning_rate"]}, TypeError, "expected a dict such as"),
        ({"sweep": {"clip_range": []}}, TypeError, "expected a list of values"),
        ({"sweep": {"clip_range": 0.1}}, TypeError, "expected a list of values, got 0.1"),
        (
            {"sweep": {"learning_rate": [optax.constant_schedule(1e-3)]}},
            ValueError,
            "expected numbers, got schedules",
        ),
        (
            {"make_network": lambda env, rngs: make_silent(), "sweep": {"entropy_scale": [1, 5.0]}},
            ValueError,
            r"PPOConfig\.entropy_scale: expected its default",
        ),
        ({"make_env": RandomEnds()}, TypeError, "make_env: expected a function of"),
        ({"make_network": make("lstm")}, TypeError, "make_network: expected a function"),
        ({"log_fn": "x"}, TypeError, "log_fn: expected a function or None, got 'x'"),
        ({"sweep": {"clip_range": [0.1, -1]}}, ValueError, r"PPOConfig\.clip_range: .* got -1"),
        ({"sweep": {"target_kl": [None, 0.1]}}, ValueError, "expected values of one kind"),
        (
            {"sweep": {"learning_rate": [1e-4]}, "optimizer": optax.sgd(0.1)},
            ValueError,
            r"PPOConfig\.learning_rate: expected 0.001 \(the default\)",
        ),
    ],
)
def test_bad_requests_are_refused(options, error, match):
    ppo = PPOConfig(n_envs=4, rollout_length=6, total_steps=24)
    config = TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False))
    with pytest.raises(error, match=match):
        train_ppo_many(config=config, **{**FACTORIES, "seeds": SEEDS, **options})


def test_interrupt_without_checkpoints_leaves_what_was_trained_on_the_exception():
    ppo = dataclasses.replace(PPO, logging_level=LoggingLevel.NONE)
    quiet = TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False))

    def interrupt(metrics, steps):
        if steps == 24:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        train_ppo_many(
            RandomEnds, make_lstm, quiet, seeds=SEEDS, total_steps=24 * 50, log_fn=interrupt
        )
    result = caught.value.result
    assert 24 <= result.total_steps < 24 * 10
    assert [state.steps_taken for state in result.training_states] == [result.total_steps] * 2


MECHANISMS = dataclasses.replace(
    PPO,
    total_steps=48,
    target_kl=1e-4,
    desired_kl=1e-3,
    normalize_values=False,
    normalize_rewards=True,
    env_resets="fresh",
    logging_level=LoggingLevel.LOSSES,
)


@functools.cache
def with_mechanisms(seed, target_kl):
    """The state after a single run."""
    ppo = dataclasses.replace(MECHANISMS, target_kl=target_kl)
    config = TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False), seed=seed)
    return train_ppo(RandomEnds(), make_lstm(None, nnx.Rngs(seed)), config).training_state


@pytest.mark.slow
@pytest.mark.parametrize("vectorize", [True, False])
def test_members_equal_single_runs_with_every_mechanism_on(vectorize):
    config = TrainConfig(ppo=MECHANISMS, eval=EvalConfig(enabled=False))
    result = train_ppo_many(
        RandomEnds,
        make_lstm,
        config,
        seeds=SEEDS[:1],
        sweep={"target_kl": [1e-5, 1.0]},
        vectorize=vectorize,
    )
    for member, state in zip(result.members, result.training_states, strict=True):
        single = with_mechanisms(member.seed, member.values["target_kl"])
        pairs = zip(
            jax.tree.leaves((nnx.state(state.networks, nnx.Param), state.schedules)),
            jax.tree.leaves((nnx.state(single.networks, nnx.Param), single.schedules)),
            strict=True,
        )
        for a, b in pairs:
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_seeds_and_values_may_be_arrays():
    members = make_members(CONFIG, np.arange(2), {"learning_rate": np.logspace(-4, -3, 2)})
    lists = make_members(CONFIG, [0, 1], {"learning_rate": np.logspace(-4, -3, 2).tolist()})
    assert members == lists
    assert {type(member.seed) for member in members} == {int}


def test_videos_are_refused():
    config = dataclasses.replace(CONFIG, video=VideoConfig(enabled=True))
    with pytest.raises(ValueError, match=r"VideoConfig\.enabled: expected False for many"):
        train_ppo_many(RandomEnds, make_lstm, config, seeds=SEEDS)


def test_networks_of_different_structure_are_refused():
    kinds = iter(["lstm", "gru"])
    with pytest.raises(ValueError, match="that of seed 8 is built otherwise than that of seed 3"):
        train_ppo_many(RandomEnds, lambda env, rngs: make(next(kinds)), CONFIG, seeds=SEEDS)
    with pytest.raises(TypeError, match=r"expected make_network\(env, rngs\) to return a Stateful"):
        train_ppo_many(RandomEnds, lambda env, rngs: None, CONFIG, seeds=SEEDS)
