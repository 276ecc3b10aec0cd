"""train_ppo: what it returns, what it leaves behind, what callbacks see."""

import dataclasses
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import (
    EvalConfig,
    LoggingLevel,
    PPOConfig,
    TrainConfig,
    VideoConfig,
    _evaluation,
    _update,
    make_env,
    train_ppo,
)
from nnx_ppo_train._adapter import ValueUnits
from nnx_ppo_train.presets import NetworkOptions, make_mlp_actor_critic, make_network

from ._networks import RandomEnds, make

PPO = PPOConfig(n_envs=8, rollout_length=6, total_steps=4 * 48, learning_rate=1e-2)
CONFIG = TrainConfig(ppo=PPO, eval=EvalConfig(every_steps=96, n_envs=4, max_episode_length=5))
QUIET = TrainConfig(ppo=PPO, eval=EvalConfig(enabled=False))


def arrays(network):
    leaves = jax.tree.leaves(nnx.state(network, nnx.Not(ValueUnits)))
    return [np.asarray(x) for x in leaves if not jnp.issubdtype(x.dtype, jax.dtypes.prng_key)]


def assert_same(first, second):
    for a, b in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def run():
    """One run of an LSTM, with everything that its callbacks saw."""
    network, logs, saved = make("lstm"), [], []
    before = arrays(network)
    result = train_ppo(
        RandomEnds(),
        network,
        CONFIG,
        log_fn=lambda metrics, step: logs.append((step, metrics)),
        checkpoint_fn=lambda state, step: saved.append((step, state)),
    )
    return network, before, result, logs, saved


def test_network_is_alive_and_trained(run):
    network, before, result, *_ = run
    assert result.training_state.networks is network
    changed = [np.abs(a - b).max() for a, b in zip(arrays(network), before, strict=True) if a.size]
    assert max(changed) > 1e-3
    out = network(network.initialize_state(2), jnp.ones((2, 3)))
    assert out.output.actions.shape == (2, 2)


def test_steps_and_iterations_are_exact(run):
    *_, result, _, _ = run
    assert result.total_steps == 192
    assert result.total_iterations == 4
    assert result.training_state.steps_taken == 192


def test_every_iteration_is_logged_in_order_with_floats(run):
    *_, logs, _ = run
    assert [step for step, _ in logs] == [0, 48, 96, 144, 192]
    assert all(isinstance(value, float) for _, metrics in logs for value in metrics.values())
    assert "losses/actor" in logs[1][1]
    assert logs[1][1]["replay/ratio_max_deviation"] < 1e-3


def test_evaluation_runs_at_start_at_multiples_and_at_the_end(run):
    _, _, result, logs, _ = run
    assert [entry["step"] for entry in result.eval_history] == [0, 96, 192]
    assert "eval/episode_reward/mean" in logs[0][1]
    assert "eval/episode_reward/mean" not in logs[1][1]
    assert result.final_metrics["eval/episode_reward/mean"] == pytest.approx(
        result.eval_history[-1]["eval/episode_reward/mean"]
    )


def test_checkpoints_are_copies_that_survive_further_training(run):
    network, before, _, _, saved = run
    assert [step for step, _ in saved] == [0, 192]
    for old, new in zip(before, arrays(saved[0][1].networks), strict=True):
        np.testing.assert_array_equal(old, new)
    assert_same(saved[-1][1].networks, network)


def test_statistics_are_counted_exactly_once_per_step(run):
    network, *_ = run
    assert network[0].sample_count == 192


def test_resumed_training_equals_uninterrupted_training(run):
    whole, *_ = run
    half = make("lstm")
    first = train_ppo(RandomEnds(), half, QUIET, total_steps=96)
    other = make("lstm", seed=5)
    second = train_ppo(RandomEnds(), other, QUIET, initial_state=first.training_state)
    assert second.total_steps == 192
    assert second.total_iterations == 2
    assert_same(whole, other)


@pytest.mark.fast("mask-144")
@pytest.mark.parametrize(("truncation", "counted"), [("bootstrap", 160), ("mask", 144)])
def test_masked_truncations_leave_the_statistics(truncation, counted):
    env = make_env("limit-reward", limit=10)
    sizes = {"actor_hidden_sizes": (4,), "critic_hidden_sizes": (4,)}
    network = make_mlp_actor_critic(env.observation_size, env.action_size, nnx.Rngs(0), **sizes)
    ppo = PPOConfig(n_envs=8, rollout_length=20, total_steps=160, truncation=truncation)
    train_ppo(env, network, TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False)))
    assert network[0].sample_count == counted


@pytest.mark.parametrize(
    ("name", "changes", "match"),
    [
        ("lstm", {"n_envs": 16}, r"initial_state: expected shape \(16, "),
        ("gru", {}, "initial_state: expected"),
        ("lstm", {"weight_decay": 0.1}, "initial_state: expected"),
    ],
)
def test_state_of_another_run_is_refused(run, name, changes, match):
    _, _, result, *_ = run
    config = dataclasses.replace(QUIET, ppo=dataclasses.replace(PPO, **changes))
    network = make(name)
    before = arrays(network)
    with pytest.raises(ValueError, match=match):
        train_ppo(RandomEnds(), network, config, initial_state=result.training_state)
    for old, new in zip(before, arrays(network), strict=True):
        np.testing.assert_array_equal(old, new)


def test_evaluation_environment_is_checked_too():
    with pytest.raises(ValueError, match=r"expected shape \(B, 3\)"):
        train_ppo(RandomEnds(), make("mlp"), QUIET, eval_env=make_env("cartpole"))


def test_same_seed_repeats_and_another_differs():
    runs = []
    for seed in (0, 0, 1):
        network = make("mlp")
        train_ppo(RandomEnds(), network, QUIET, total_steps=48, seed=seed)
        runs.append(network)
    assert_same(runs[0], runs[1])
    differences = [
        np.abs(a - b).max() for a, b in zip(arrays(runs[0]), arrays(runs[2]), strict=True) if a.size
    ]
    assert max(differences) > 1e-5


def test_error_in_a_callback_loses_no_training():
    network = make("mlp")
    before = arrays(network)

    def fail(metrics, step):
        if step >= 96:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        train_ppo(RandomEnds(), network, QUIET, log_fn=fail)
    after = arrays(network)
    assert max(np.abs(a - b).max() for a, b in zip(after, before, strict=True) if a.size) > 1e-3


def test_interrupt_finishes_the_iteration_and_saves():
    network, saved = make("mlp"), []

    def interrupt(metrics, step):
        if step == 48:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train_ppo(
            RandomEnds(),
            network,
            QUIET,
            total_steps=48 * 50,
            log_fn=interrupt,
            checkpoint_fn=lambda state, step: saved.append((step, state)),
        )
    step, state = saved[-1]
    assert 48 <= step < 48 * 10
    assert state.steps_taken == step
    assert_same(state.networks, network)


def count_calls(monkeypatch, owner, name):
    """Counts the calls of a function from now on; compiled functions call it when traced."""
    calls, original = [], getattr(owner, name)

    def counted(*args, **kwargs):
        calls.append(name)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, counted)
    return calls


def test_every_function_is_traced_once_by_a_run_and_once_by_its_continuation(monkeypatch):
    phases = [
        count_calls(monkeypatch, _update.Iteration, "collect"),
        count_calls(monkeypatch, _update.Iteration, "learn"),
        count_calls(monkeypatch, _evaluation, "_run"),
    ]
    saved = []

    def save(state, step):
        saved.append(state)

    longer = dataclasses.replace(PPO, total_steps=8 * 48)
    config = dataclasses.replace(CONFIG, ppo=PPO, checkpoint_every_steps=48)
    result = train_ppo(
        RandomEnds(), make("lstm"), config, log_fn=lambda *_: None, checkpoint_fn=save
    )
    assert result.total_iterations == 4
    assert len(result.eval_history) == 3
    assert len(saved) == 5
    assert [len(calls) for calls in phases] == [1, 1, 1]
    resumed = train_ppo(
        RandomEnds(),
        make("lstm"),
        dataclasses.replace(config, ppo=longer),
        log_fn=lambda *_: None,
        initial_state=saved[-1],
    )
    assert resumed.total_iterations == 4
    assert [len(calls) for calls in phases] == [2, 2, 2]


def test_video_without_receiver_or_render_is_refused():
    config = TrainConfig(ppo=PPO, video=VideoConfig(enabled=True))
    with pytest.raises(ValueError, match="expected a video_fn"):
        train_ppo(RandomEnds(), make("mlp"), config)
    with pytest.raises(ValueError, match="RandomEnds has no render"):
        train_ppo(RandomEnds(), make("mlp"), config, video_fn=lambda data: None)


def test_video_receives_rendered_frames():
    class Rendered(RandomEnds):
        def render(self, trajectory, height, width):
            return [np.zeros((height, width, 3), np.uint8) for _ in trajectory]

    videos = []
    config = TrainConfig(
        ppo=PPO,
        eval=EvalConfig(enabled=False),
        video=VideoConfig(
            enabled=True, every_steps=96, episode_length=4, render_kwargs={"height": 2, "width": 3}
        ),
    )
    train_ppo(Rendered(), make("mlp"), config, total_steps=96, video_fn=videos.append)
    assert [video.step for video in videos] == [0, 96]
    assert videos[0].frames.shape == (videos[0].episode_length + 1, 2, 3, 3)


def test_all_logging_levels_give_finite_scalars():
    logs = []
    config = TrainConfig(
        ppo=PPOConfig(
            n_envs=8,
            rollout_length=6,
            total_steps=48,
            logging_level=LoggingLevel.ALL | LoggingLevel.ROLLOUT_OBS,
            logging_percentiles=(5, 95),
        ),
        eval=EvalConfig(n_envs=4, max_episode_length=5, logging_level=LoggingLevel.ALL),
    )
    train_ppo(RandomEnds(), make("variational"), config, log_fn=lambda m, s: logs.append(m))
    final = logs[-1]
    for prefix in ("grad_norm", "weights/", "env/speed", "net/", "rollout_batch/obs", "throughput"):
        assert any(name.startswith(prefix) for name in final), prefix
    assert all(np.isfinite(v) for k, v in final.items() if not k.startswith("train/"))


@pytest.mark.slow
def test_many_rewards_and_actions_train_together():
    env = make_env("body-chain", n_bodies=2)
    network = make_network("mlp", env, nnx.Rngs(0), NetworkOptions(hidden_size=4))
    logs = []
    train_ppo(env, network, QUIET, log_fn=lambda m, s: logs.append(m))
    assert {k for k in logs[-1] if k.startswith("losses/critic/")} == {
        f"losses/critic/{name}" for name in env.action_size
    }
