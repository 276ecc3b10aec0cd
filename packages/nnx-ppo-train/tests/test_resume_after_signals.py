"""Runs that signals end between checkpoints: resumed, they equal undisturbed ones bit for bit."""

import dataclasses
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nnx_ppo_train import EvalConfig, PPOConfig, ScaleLearningRate, TrainConfig, train_ppo
from nnx_ppo_train._loop_state import as_loop_state

from ._networks import RandomEnds, make

ITERATION = 4 * 4
CONFIG = TrainConfig(
    ppo=PPOConfig(
        n_envs=4,
        rollout_length=4,
        total_steps=10 * ITERATION,
        n_epochs=1,
        n_minibatches=2,
        normalize_values=False,
        normalize_rewards=True,
        entropy_schedule="linear",
    ),
    eval=EvalConfig(n_envs=4, max_episode_length=3, every_steps=4 * ITERATION),
    checkpoint_every_steps=5 * ITERATION,
)


@dataclasses.dataclass
class OnEvaluations:
    """Scales the learning rate at the first line, and at every second evaluation from then on."""

    seen: int = 0

    def __call__(self, metrics, steps):
        if "eval/episode_reward/mean" not in metrics:
            return None
        self.seen += 1
        return ScaleLearningRate(0.5 + self.seen / 8) if self.seen % 2 else None

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]


def at_some_steps(metrics, steps):
    """A callback without a memory.

    It acts where the next iteration is under way already, unless the run ends there.
    """
    return ScaleLearningRate(0.9) if steps in (0, 2 * ITERATION, 7 * ITERATION) else None


class Run:
    """Trains on and on, ended by signals where it is told."""

    def __init__(self):
        self.lines, self.state = {}, None

    def train(self, signals=(), raised_in="log"):
        """Trains to the end; each signal, by steps, ends the run, which then goes on."""
        signals = dict(signals)

        def raise_at(place, steps):
            if place == raised_in and steps in signals:
                signal.raise_signal(signals.pop(steps))

        def log(metrics, steps):
            assert steps not in self.lines
            self.lines[steps] = metrics
            raise_at("log", steps)

        def callback(metrics, steps):
            raise_at("callback", steps)

        def save(state, steps):
            self.state = state
            raise_at("checkpoint", steps)

        while True:
            try:
                result = train_ppo(
                    RandomEnds(),
                    make("mlp"),
                    CONFIG,
                    log_fn=log,
                    checkpoint_fn=save,
                    callbacks=[at_some_steps, OnEvaluations(), callback],
                    initial_state=self.state,
                )
            except (KeyboardInterrupt, SystemExit):
                continue
            assert not signals
            self.state = result.training_state
            return self


@pytest.fixture(scope="module")
def undisturbed():
    return Run().train()


def leaves(state):
    def plain(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    found = jax.tree_util.tree_leaves_with_path(as_loop_state(state))
    return {jax.tree_util.keystr(path): plain(leaf) for path, leaf in found}


@pytest.mark.parametrize(
    ("raised_in", "signals"),
    [
        ("log", {16: signal.SIGTERM, 96: signal.SIGINT}),  # end at 32 and 112
        pytest.param("callback", {0: signal.SIGINT, 64: signal.SIGTERM}, marks=pytest.mark.slow),
        pytest.param("checkpoint", {0: signal.SIGTERM, 80: signal.SIGINT}, marks=pytest.mark.slow),
    ],
)
def test_resumed_run_equals_the_undisturbed_one(undisturbed, raised_in, signals):
    run = Run().train(signals, raised_in)
    assert run.state.callbacks == undisturbed.state.callbacks == (None, {"seen": 4}, None)
    assert run.lines == undisturbed.lines
    found, expected = leaves(run.state), leaves(undisturbed.state)
    assert found.keys() == expected.keys()
    for name, leaf in found.items():
        assert leaf.dtype == expected[name].dtype, name
        assert leaf.tobytes() == expected[name].tobytes(), name
