"""Runs that are cut, fail or go on: nothing that was trained is lost, nothing happens twice."""

import dataclasses
import itertools
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
    ScaleLearningRate,
    Stop,
    TrainConfig,
    _watch,
    eval_rollout,
    record_episode,
    train_ppo,
    train_ppo_many,
)

from ._networks import RandomEnds, make

B, T = 4, 4
STEP = B * T
PPO = PPOConfig(n_envs=B, rollout_length=T, total_steps=6 * STEP, learning_rate=1e-2, n_epochs=1)
QUIET = TrainConfig(ppo=PPO, eval=EvalConfig(enabled=False), checkpoint_every_steps=10**6)
EVALUATED = dataclasses.replace(
    QUIET, eval=EvalConfig(every_steps=2 * STEP, n_envs=2, max_episode_length=3)
)


def arrays(tree):
    leaves = jax.tree.leaves(tree)
    plain = [
        jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
        for x in leaves
    ]
    return [np.asarray(x) for x in plain]


def assert_same(first, second):
    for a, b in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_array_equal(a, b)


class Fails(RandomEnds):
    """An environment whose simulator, on the host, fails after a number of calls."""

    def __init__(self, after):
        super().__init__()
        self.calls, self.after = itertools.count(1), after

    def _simulate(self, x):
        if next(self.calls) > self.after:
            raise RuntimeError("the simulator broke")
        return x

    def step(self, state, action):
        stepped = super().step(state, action)
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        reward = jax.pure_callback(self._simulate, shape, stepped.reward, vmap_method="expand_dims")
        return stepped.replace(reward=reward)


def test_an_environment_that_fails_leaves_the_last_good_values_and_a_checkpoint():
    network, undisturbed, saved = make("mlp"), make("mlp"), {}
    train_ppo(RandomEnds(), undisturbed, QUIET, total_steps=2 * STEP)
    with pytest.raises(Exception, match="the simulator broke"):
        train_ppo(
            Fails(after=2 * T + 1),
            network,
            QUIET,
            checkpoint_fn=lambda state, step: saved.setdefault(step, state),
        )
    assert_same(nnx.state(network), nnx.state(undisturbed))
    assert list(saved) == [0, 2 * STEP]
    assert_same(nnx.state(saved[2 * STEP].networks), nnx.state(undisturbed))
    resumed = train_ppo(RandomEnds(), network, QUIET, initial_state=saved[2 * STEP])
    assert resumed.total_iterations == 4


def test_many_trainings_carry_the_last_good_values_on_their_error():
    env = Fails(after=2 * 2 * T)
    with pytest.raises(Exception, match="the simulator broke") as error:
        train_ppo_many(lambda: env, lambda env, rngs: make("mlp"), QUIET, seeds=[0, 1])
    assert error.value.result.total_steps < PPO.total_steps
    assert all(
        np.all(np.isfinite(x)) for x in arrays(error.value.result.training_states[0].optimizer)
    )


class Plateau:
    """Halves the learning rate now and then, as a memory of its own and evaluations say."""

    def __init__(self):
        self.seen = []

    def __call__(self, metrics, steps):
        self.seen.append(steps)
        if "eval/episode_reward/mean" in metrics or len(self.seen) % 3 == 0:
            return ScaleLearningRate(0.5)
        return None

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = list(state["seen"])


@pytest.fixture(scope="module")
def undisturbed():
    callback = Plateau()
    result = train_ppo(RandomEnds(), make("lstm"), EVALUATED, callbacks=[callback])
    return result.training_state, callback


@pytest.mark.fast("32")
@pytest.mark.parametrize("at", [0, 2 * STEP, 3 * STEP])
def test_a_run_cut_anywhere_goes_on_bit_for_bit(undisturbed, at):
    saved = {}

    def interrupt(metrics, step):
        if step == at:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train_ppo(
            RandomEnds(),
            make("lstm"),
            EVALUATED,
            callbacks=[Plateau()],
            log_fn=interrupt,
            checkpoint_fn=lambda state, step: saved.setdefault(step, state),
        )
    callback, logged = Plateau(), []
    state = train_ppo(
        RandomEnds(),
        make("lstm", seed=3),
        EVALUATED,
        callbacks=[callback],
        initial_state=saved[max(saved)],
        log_fn=lambda metrics, step: logged.append(step),
    ).training_state
    whole, theirs = undisturbed
    assert logged[0] == max(saved) + STEP  # what was done before the break is not done again
    assert callback.seen == theirs.seen
    assert_same(nnx.state(state.networks), nnx.state(whole.networks))
    assert_same((state.optimizer, state.schedules), (whole.optimizer, whole.schedules))


def test_states_of_other_callbacks_are_refused(undisturbed):
    state, _ = undisturbed
    with pytest.raises(ValueError, match="callbacks: expected 1 as in the run that goes on"):
        train_ppo(RandomEnds(), make("lstm"), EVALUATED, initial_state=state)


def test_a_state_that_json_cannot_hold_is_refused():
    callback = Plateau()
    callback.seen = np.zeros(2)
    with pytest.raises(TypeError, match=r"expected a state_dict\(\) of dicts, lists"):
        train_ppo(
            RandomEnds(),
            make("mlp"),
            QUIET,
            callbacks=[callback],
            checkpoint_fn=lambda state, step: None,
        )


class Saver:
    """A checkpoint function that asks for a save after every evaluation, and can be waited for."""

    def __init__(self):
        self.saved, self.waited, self.metrics = [], 0, {}

    def __call__(self, state, step):
        self.saved.append(step)
        self.metrics = dict(state.metrics)

    def is_due(self, metrics, steps):
        return "eval/episode_reward/mean" in metrics

    def wait(self):
        self.waited += 1


def test_checkpoints_are_taken_when_asked_for_and_waited_for():
    saver = Saver()
    train_ppo(RandomEnds(), make("mlp"), EVALUATED, checkpoint_fn=saver)
    assert saver.saved == [0, 2 * STEP, 4 * STEP, 6 * STEP]
    assert saver.waited == 1
    assert {"eval/episode_reward/mean", "losses/total"} <= saver.metrics.keys()


def test_checkpoints_are_taken_by_time():
    saver = Saver()
    config = dataclasses.replace(QUIET, checkpoint_every_minutes=1e-9)
    train_ppo(RandomEnds(), make("mlp"), config, total_steps=3 * STEP, checkpoint_fn=saver)
    assert saver.saved == [0, STEP, 2 * STEP, 3 * STEP]


def test_the_price_of_a_run_is_told(caplog, monkeypatch):
    monkeypatch.setattr(_watch, "MEASURED_SECONDS", 0.0)
    monkeypatch.setattr(_watch, "EVALUATION_SHARE", 0.0)
    ppo = dataclasses.replace(PPO, logging_level=LoggingLevel.THROUGHPUT)
    logs = []
    train_ppo(
        RandomEnds(),
        make("mlp"),
        dataclasses.replace(EVALUATED, ppo=ppo),
        log_fn=lambda metrics, step: logs.append(metrics),
        checkpoint_fn=Saver(),
    )
    total = {name: sum(m[name] for m in logs) for name in logs[0] if name.startswith("time/")}
    assert total["time/video"] == 0
    assert all(total[f"time/{part}"] > 0 for part in ("train", "evaluation", "checkpoint", "host"))
    assert caplog.text.count("Evaluation takes") == 1
    assert "Raise EvalConfig.every_steps" in caplog.text


def test_an_environment_that_never_ends_is_told_of_once(caplog, monkeypatch):
    monkeypatch.setattr(_watch, "STEPS_WITHOUT_END", 2 * T)
    train_ppo(RandomEnds(0.0, 0.0), make("mlp"), QUIET)
    assert caplog.text.count("No episode has ended in 8 steps of each environment") == 1
    assert "EpisodeWrapper(env, episode_length)" in caplog.text
    caplog.clear()
    train_ppo(RandomEnds(1.0, 0.0), make("mlp"), QUIET)
    assert "No episode" not in caplog.text


class Terrains(RandomEnds):
    """Episodes on one of two terrains, on one of which rewards are higher."""

    def reset(self, rng):
        state = super().reset(rng)
        terrain = jax.random.bernoulli(jax.random.fold_in(rng, 1)).astype(jnp.int32)
        return state.replace(info={**state.info, "terrain": terrain})

    def step(self, state, action):
        after = super().step(state, action)
        info = {**after.info, "terrain": state.info["terrain"]}
        return after.replace(info=info, reward=10.0 * state.info["terrain"])


class Infinite(Plateau):
    """Remembers the best value so far, which is infinite at the start."""

    def state_dict(self):
        return {"best": float("-inf")}

    def load_state_dict(self, state):
        self.best = state["best"]


def test_callbacks_may_remember_infinity():
    saved = []
    train_ppo(
        RandomEnds(),
        make("mlp"),
        QUIET,
        total_steps=STEP,
        callbacks=[Infinite()],
        checkpoint_fn=lambda state, step: saved.append(state.callbacks),
    )
    assert saved[-1] == ({"best": float("-inf")},)


def test_iterations_that_the_divergence_ended_are_no_failure():
    watch = _watch.RunWatch(QUIET)
    metrics = {"updates": 0.0, "nonfinite/updates": 0.0, "nonfinite/samples": 0.0}
    assert not any(watch.failure(metrics, step) for step in range(20))
    metrics["nonfinite/updates"] = 4.0
    assert any(watch.failure(metrics, step) for step in range(20))


def test_evaluation_by_groups():
    names = ("flat", "stairs", "none")
    config = dataclasses.replace(
        EVALUATED,
        eval=EvalConfig(
            every_steps=10**6,
            n_envs=16,
            max_episode_length=5,
            group_by="terrain",
            group_names=names,
            logging_percentiles=None,
        ),
    )
    metrics = train_ppo(Terrains(0.0, 0.0), make("mlp"), config, total_steps=STEP).final_metrics
    assert metrics["eval/flat/episode_reward/mean"] == 0
    assert metrics["eval/stairs/episode_reward/mean"] == 50
    assert metrics["eval/flat/episodes"] + metrics["eval/stairs/episodes"] == 16
    assert not any("eval/none" in name for name in metrics)
    share = metrics["eval/stairs/episodes"] / 16
    assert metrics["eval/episode_reward/mean"] == pytest.approx(50 * share)
    assert metrics["eval/ends/cut"] == 1


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"group_by": "terrain"}, "together with group_names"),
        ({"group_names": ("a",)}, "together with group_names"),
        ({"group_by": "terrain", "group_names": ("a", "a")}, "different names"),
        ({"group_by": "terrain", "group_names": ("ends",)}, "rename 'ends'"),
    ],
)
def test_groups_that_make_no_sense_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        EvalConfig(**options)


def test_groups_that_the_environment_does_not_know_are_refused():
    config = dataclasses.replace(QUIET, eval=EvalConfig(group_by="terrain", group_names=("a",)))
    with pytest.raises(ValueError, match="expected a key of info of RandomEnds, got 'terrain'"):
        train_ppo(RandomEnds(), make("mlp"), config)


class Counted(RandomEnds):
    """Counts how often its step is traced."""

    traced = 0

    def step(self, state, action):
        type(self).traced += 1
        return super().step(state, action)


def test_evaluation_and_recording_compile_once_for_a_structure():
    env = Counted()
    eval_rollout(env, make("lstm"), 2, 3, jax.random.key(0))
    record_episode(env, make("lstm"), 3, jax.random.key(0))
    before = Counted.traced
    for seed in (1, 2):
        first = eval_rollout(env, make("lstm", seed), 2, 3, jax.random.key(seed))
        record_episode(env, make("lstm", seed), 3, jax.random.key(seed))
    assert Counted.traced == before
    other = eval_rollout(env, make("lstm", 1), 2, 3, jax.random.key(2))
    assert float(first["eval/lifespan/mean"]) == float(other["eval/lifespan/mean"])
    env.terminate = 1.0  # a changed environment is another one
    assert eval_rollout(env, make("lstm"), 2, 3, jax.random.key(0))["eval/lifespan/mean"] == 1.0
    assert Counted.traced > before


@pytest.mark.parametrize("key", [0, "key", jnp.zeros(3), None])
def test_keys_that_are_none_are_refused(key):
    for run in (
        lambda: eval_rollout(RandomEnds(), make("mlp"), 2, 3, key),
        lambda: record_episode(RandomEnds(), make("mlp"), 3, key),
    ):
        with pytest.raises(TypeError, match=r"key: expected a random key, such as jax.random.key"):
            run()


def test_stop_of_a_callback_is_no_failure():
    result = train_ppo(RandomEnds(), make("mlp"), QUIET, callbacks=[lambda m, s: Stop("enough")])
    assert result.stopped_by == "enough"
