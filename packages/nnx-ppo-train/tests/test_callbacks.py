"""Callbacks see every logged line, stop the run and scale the learning rate."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import (
    EvalConfig,
    PPOConfig,
    ScaleLearningRate,
    Stop,
    TrainConfig,
    stop_at_return,
    train_ppo,
)

from ._networks import RandomEnds, make

PPO = PPOConfig(n_envs=4, rollout_length=4, total_steps=160, n_epochs=1, n_minibatches=2)
QUIET = TrainConfig(ppo=PPO, eval=EvalConfig(enabled=False))


def run(*callbacks, config=QUIET, **options):
    logs, saved = [], []
    result = train_ppo(
        RandomEnds(),
        make("mlp"),
        config,
        callbacks=callbacks,
        log_fn=lambda metrics, step: logs.append((step, metrics)),
        checkpoint_fn=lambda state, step: saved.append(step),
        **options,
    )
    return result, logs, saved


def test_stop_ends_the_run_after_the_iteration_under_way():
    seen = []

    def callback(metrics, steps):
        seen.append((steps, metrics))
        return Stop("enough") if steps == 48 else None

    result, logs, saved = run(callback)
    assert result.stopped_by == "enough"
    assert result.total_steps == 64
    assert seen == logs
    assert saved == [0, 64]


def test_learning_rate_is_scaled_from_there_on_and_after_a_resume():
    def halve(metrics, steps):
        return ScaleLearningRate(0.5) if steps == 32 else None

    result, logs, _ = run(halve)
    rates = {step: metrics["learning_rate"] for step, metrics in logs if step}
    # one iteration was under way when the callback was called
    assert rates[32] == rates[48] == pytest.approx(1e-3)
    assert rates[64] == rates[160] == pytest.approx(5e-4)
    assert float(result.training_state.schedules.learning_rate_scale) == 0.5
    _, logs, _ = run(initial_state=result.training_state, total_steps=176)
    assert logs[-1][1]["learning_rate"] == pytest.approx(5e-4)


def test_run_stops_once_an_evaluation_reaches_the_target_return():
    evaluation = EvalConfig(n_envs=4, max_episode_length=3, every_steps=32)
    config = TrainConfig(ppo=PPO, eval=evaluation, target_return=-1e3)
    result, *_ = run(config=config)
    assert result.total_steps == 0
    assert result.stopped_by == "eval/episode_reward/mean reached -1000"
    result, _, _ = run(config=dataclasses.replace(config, target_return=1e3))
    assert (result.total_steps, result.stopped_by) == (160, None)


def test_target_is_looked_for_in_evaluations_at_once():
    lines = iter([0.0, 0.0, 10.0, 10.0])

    def pretend(metrics, steps):
        if "eval/episode_reward/mean" in metrics:
            metrics["eval/episode_reward/mean"] = next(lines)
        return stop_at_return(5.0)(metrics, steps)

    evaluation = EvalConfig(n_envs=4, max_episode_length=3, every_steps=48)
    result, _, _ = run(pretend, config=TrainConfig(ppo=PPO, eval=evaluation))
    assert result.total_steps == 96  # no further iteration was under way


def test_many_trainings_stop_when_all_have_reached_the_target():
    callback = stop_at_return(2.0, "score")
    assert callback({"score": np.array([3.0, 1.0])}, 0) is None
    assert callback({"score": np.array([3.0, 2.0])}, 0) == Stop("score reached 2")


def test_callback_that_returns_something_else_is_named():
    def wrong(metrics, steps):
        return True

    with pytest.raises(TypeError, match=r"callback .*wrong: expected Stop\(...\), .* got True"):
        run(wrong)


@pytest.mark.parametrize("callbacks", [print, ["stop"], None, iter([print])])
def test_callbacks_that_are_no_list_of_functions_are_refused(callbacks):
    with pytest.raises(TypeError, match="callbacks: expected a list of functions"):
        train_ppo(RandomEnds(), make("mlp"), QUIET, callbacks=callbacks)


@pytest.mark.parametrize(
    ("make_it", "match"),
    [
        (lambda: ScaleLearningRate(0.0), r"ScaleLearningRate\.factor: .* got 0.0; use one above"),
        (lambda: stop_at_return(float("nan")), "stop_at_return: target: .* got nan"),
    ],
)
def test_bad_numbers_are_refused(make_it, match):
    with pytest.raises(ValueError, match=match):
        make_it()


def test_scaling_keeps_the_type_that_was_compiled_for():
    result, _, _ = run(lambda metrics, steps: ScaleLearningRate(2) if steps == 16 else None)
    scale = result.training_state.schedules.learning_rate_scale
    assert (scale.dtype, scale.shape, float(scale)) == (jnp.float32, (), 2.0)
    assert not jax.typeof(scale).weak_type


def test_resumed_run_with_a_callback_equals_the_uninterrupted_one():
    def halve(metrics, steps):
        return ScaleLearningRate(0.5) if steps == 32 else None

    config = dataclasses.replace(QUIET, checkpoint_every_steps=32)
    saved = {}

    def train(**options):
        network = make("mlp")
        return train_ppo(RandomEnds(), network, config, callbacks=[halve], **options)

    whole = train(checkpoint_fn=lambda state, step: saved.setdefault(step, state))
    assert float(saved[32].schedules.learning_rate_scale) == 1.0
    assert float(saved[32].schedules.coming_scale) == 0.5
    resumed = train(initial_state=saved[32])
    for a, b in zip(
        jax.tree.leaves(nnx.state(whole.training_state.networks, nnx.Param)),
        jax.tree.leaves(nnx.state(resumed.training_state.networks, nnx.Param)),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    assert float(resumed.training_state.schedules.learning_rate_scale) == 0.5


def test_scaling_holds_beside_the_adaptation():
    ppo = dataclasses.replace(PPO, desired_kl=1e3, n_epochs=2)
    config = dataclasses.replace(QUIET, ppo=ppo)
    once = lambda metrics, steps: ScaleLearningRate(1e-4) if steps == 32 else None  # noqa: E731
    schedules = run(once, config=config)[0].training_state.schedules
    assert float(schedules.adaptation) == 10.0  # its bound
    assert float(schedules.learning_rate_scale) == pytest.approx(1e-4)
