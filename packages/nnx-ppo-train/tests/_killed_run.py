"""A run that tests kill: a script of its own, which goes on from the newest checkpoint it finds.

Called as ``python _killed_run.py FOLDER ITERATIONS``. Everything that a run can remember is in it:
noise in the carry, running statistics of observations and rewards, schedules, and a callback whose
actions depend on metrics and on what it saw before.
"""

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optax
from flax import nnx
from nnx_graph import PopulationGraph
from nnx_ppo_train import (
    EvalConfig,
    JSONLinesLogger,
    NormalTanhSampler,
    PPOAdapter,
    PPOConfig,
    ScaleLearningRate,
    TrainConfig,
    latest_checkpoint,
    load_checkpoint,
    make_checkpoint_fn,
    make_env,
    train_ppo,
)
from nnx_stateful import Dense, Filter, Map, Noise, Normalizer, Sequential, VariationalBottleneck

ITERATION = 4 * 4  # environments times rollout length
CHECKPOINT = 5 * ITERATION  # steps between checkpoints


def make_config(iterations: int) -> TrainConfig:
    """A run with schedules over its length, evaluations and many checkpoints."""
    steps = iterations * ITERATION
    ppo = PPOConfig(
        n_envs=4,
        rollout_length=4,
        total_steps=steps,
        n_epochs=2,
        n_minibatches=2,
        learning_rate=optax.linear_schedule(3e-3, 1e-4, 4 * iterations),
        entropy_schedule="linear",
        desired_kl=1e-3,
        gradient_clipping=1.0,
        normalize_values=False,
        normalize_rewards=True,
    )
    evaluation = EvalConfig(
        every_steps=3 * ITERATION, n_envs=2, max_episode_length=30, seeds="fresh"
    )
    return TrainConfig(
        ppo=ppo, eval=evaluation, checkpoint_every_steps=CHECKPOINT, checkpoint_every_minutes=None
    )


def make_task() -> Any:
    """A task with ends of both kinds."""
    return make_env("cartpole", episode_length=30)


def make_network() -> Sequential:
    """A graph with a delayed loop, a noisy population and a variational bottleneck."""
    rngs = nnx.Rngs(0)
    graph = PopulationGraph(rngs)
    graph.add_input("sense", 4, input_from="x")
    graph.add_population("core", 4, activation=nnx.tanh, compute=Noise(4, rngs, scale=0.1))
    bottleneck = Sequential([Dense(4, 6, rngs), VariationalBottleneck(3, rngs, kl_weight=1e-3)])
    graph.add_output("muscles", 2)
    graph.add_output("value", 1)
    graph.connect("sense", "core")
    graph.connect("core", "core", delay=2)
    graph.connect("core", "muscles", transform=Sequential([bottleneck, Dense(3, 2, rngs)]))
    graph.connect("core", "value")
    graph.finalize()
    sampler = NormalTanhSampler(rngs, entropy_weight=1e-2)
    adapter = PPOAdapter(action=Map(muscles=sampler), value=Filter({"value": "value"}))
    return Sequential([Normalizer(4), Filter({"x": lambda x: x}), graph, adapter])


@dataclasses.dataclass
class Moody:
    """Changes the learning rate by what it has seen so far, and counts how often.

    Attributes:
      best: best evaluation.
      loss: running mean of a metric of every iteration.
      changes: number of changes.
    """

    best: float | None = None
    loss: float = 0.0
    changes: int = 0

    def __call__(self, metrics: Mapping[str, Any], steps: int) -> ScaleLearningRate | None:
        loss = metrics.get("losses/total", metrics.get("losses/critic", 0.0))
        surprised = loss > 1.2 * self.loss
        self.loss += 0.2 * (loss - self.loss)
        score = metrics.get("eval/episode_reward/mean")
        worse = score is not None and self.best is not None and score < self.best
        if score is not None and (self.best is None or score > self.best):
            self.best = score
        if not (worse or surprised):
            return None
        self.changes += 1
        return ScaleLearningRate(0.93 if self.changes % 2 else 1.06)

    def state_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.loss, self.changes = state["best"], state["loss"], state["changes"]


def main(folder: Path, iterations: int) -> None:
    """Trains to the end, from the newest checkpoint if there is one."""
    env, network, config = make_task(), make_network(), make_config(iterations)
    start = None
    if any((folder / "checkpoints").glob("step_*")):
        start = load_checkpoint(latest_checkpoint(folder / "checkpoints"), network, env, config)
    save = make_checkpoint_fn(folder / "checkpoints", config, keep=2)
    with JSONLinesLogger(folder / "metrics.jsonl", start.steps_taken if start else 0) as log:
        train_ppo(
            env,
            network,
            config,
            log_fn=log,
            checkpoint_fn=save,
            callbacks=[Moody()],
            initial_state=start,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
