"""Memory, open files and threads of one long training with a checkpoint a minute.

Run with `uv run python benchmarks/soak.py --minutes 30`; Linux only, since it reads /proc. Two MLPs
train on the cart-pole with evaluations, a JSON-lines log and `keep=3`; the log sleeps, so that half
a core is busy. The resident memory is sampled all along; its slope is that of the least-squares
line through the samples after the first fifth. `leak_mib_per_hour` is the slope that one state kept
for each checkpoint would give.

The C library gives threads memory of their own, which fills up over the first 20 to 40 checkpoints
(with 6 MB a state by 150 MB): MALLOC_ARENA_MAX=1 in the environment makes short runs tell more.
"""

import argparse
import dataclasses
import json
import os
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx
from nnx_ppo_train import (
    EvalConfig,
    JSONLinesLogger,
    PPOConfig,
    Stop,
    TrainConfig,
    TrainingState,
    latest_checkpoint,
    make_checkpoint_fn,
    make_env,
    train_ppo,
)
from nnx_ppo_train.presets import make_mlp_actor_critic

MIB = 2**20
WARM_UP = 0.2  # share of the run before the line
BUSY_HALF = 0.03  # seconds the log sleeps for each line
PPO = PPOConfig(n_envs=8, rollout_length=8, total_steps=10**12, n_epochs=1, n_minibatches=2)


def resident() -> float:
    """Resident memory of this process (MiB)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def open_files() -> int:
    """Number of open file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


def threads() -> int:
    """Number of threads of this process, those of libraries too."""
    return len(os.listdir("/proc/self/task"))


@dataclasses.dataclass(frozen=True)
class Sample:
    """What the process uses at one time.

    Attributes:
      seconds: time since training began.
      resident: resident memory (MiB).
      open_files: file descriptors.
      threads: threads.
    """

    seconds: float
    resident: float
    open_files: int
    threads: int


class Sampler:
    """Context in which a thread samples what the process uses, once it was asked for the time.

    Args:
      every: seconds between samples.
    """

    def __init__(self, every: float):
        self.samples: list[Sample] = []
        self._every = every
        self._ended = threading.Event()
        self._begun: float | None = None
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    @property
    def seconds(self) -> float:
        """Seconds since sampling began; begins it."""
        if self._begun is None:
            self._begun = time.monotonic()
            self._thread.start()
        return time.monotonic() - self._begun

    def __enter__(self) -> "Sampler":
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._begun is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            self.samples.append(Sample(self.seconds, resident(), open_files(), threads()))


def slope_per_hour(samples: list[Sample]) -> float:
    """Slope of the resident memory by least squares (MiB/hour)."""
    hours = np.array([sample.seconds for sample in samples]) / 3600
    return float(np.polyfit(hours, [sample.resident for sample in samples], 1)[0])


def state_bytes(state: TrainingState) -> int:
    """Bytes of what training keeps of network and optimizer."""
    leaves = jax.tree.leaves((nnx.state(state.networks), state.optimizer))
    return sum(leaf.nbytes for leaf in leaves)


def soak(minutes: float, checkpoint_seconds: float, hidden: int, folder: Path) -> dict[str, Any]:
    """Trains for so long; returns what it used.

    Args:
      minutes: how long.
      checkpoint_seconds: seconds between checkpoints.
      hidden: width of both hidden layers of actor and critic; 500 makes a state of 6 MB.
      folder: where checkpoints and the log go.
    """
    env = make_env("cartpole")
    sizes = (hidden, hidden)
    network = make_mlp_actor_critic(
        env.observation_size,
        env.action_size,
        nnx.Rngs(0),
        actor_hidden_sizes=sizes,
        critic_hidden_sizes=sizes,
    )
    config = TrainConfig(
        ppo=PPO,
        eval=EvalConfig(every_steps=500 * PPO.steps_per_iteration, n_envs=4, max_episode_length=50),
        checkpoint_every_steps=10**11,
        checkpoint_every_minutes=checkpoint_seconds / 60,
    )
    save, saved = make_checkpoint_fn(folder / "checkpoints", config, keep=3), []
    sampler = Sampler(every=min(2.0, minutes / 10))

    def checkpoint(state: TrainingState, step: int) -> None:
        save(state, step)
        saved.append(state_bytes(state))

    def end(metrics: Mapping[str, float], step: int) -> Stop | None:
        del metrics
        if step == 0:
            return None  # before compilation
        return Stop("time is up") if sampler.seconds > 60 * minutes else None

    with JSONLinesLogger(folder / "metrics.jsonl") as lines, sampler:

        def log(metrics: Mapping[str, float], step: int) -> None:
            lines(metrics, step)
            time.sleep(BUSY_HALF)

        result = train_ppo(
            env, network, config, log_fn=log, checkpoint_fn=checkpoint, callbacks=[end]
        )
        save.wait()
    return _report(sampler.samples, saved, result.total_iterations) | {
        "evaluations": len(result.eval_history),
        "kept": len(list((folder / "checkpoints").iterdir())),
        "newest": latest_checkpoint(folder / "checkpoints").name,
    }


def _report(samples: list[Sample], saved: list[int], iterations: int) -> dict[str, Any]:
    seconds = samples[-1].seconds
    settled = [sample for sample in samples if sample.seconds >= WARM_UP * seconds]
    third = max(1, len(settled) // 3)
    ends = settled[:third], settled[-third:]
    state = saved[-1] / MIB
    return {
        "minutes": seconds / 60,
        "iterations": iterations,
        "checkpoints": len(saved),
        "state_mib": state,
        "slope_mib_per_hour": slope_per_hour(settled),
        "leak_mib_per_hour": state * len(saved) / (seconds / 3600),
        "resident_mib": [round(s.resident, 1) for s in samples[:: max(1, len(samples) // 30)]],
        # the fewest in the first and in the last third: saves under way have some of their own
        "open_files": [min(sample.open_files for sample in part) for part in ends],
        "threads": [min(sample.threads for sample in part) for part in ends],
    }


def main(words: list[str] | None = None) -> None:
    """Runs the soak and prints its report as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--checkpoint-seconds", type=float, default=60.0)
    parser.add_argument("--hidden", type=int, default=500)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        found = soak(options.minutes, options.checkpoint_seconds, options.hidden, Path(folder))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
