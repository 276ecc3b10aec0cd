"""SIGKILL at random moments, in saves too, of a run that is started again each time.

Three kills, or NNX_KILLS; NNX_KILLS_SEED chooses other moments. With NNX_KILLS_LOG each kill is
noted in that file.
"""

import contextlib
import dataclasses
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from nnx_ppo_train import latest_checkpoint
from nnx_ppo_train._checkpoint_files import checkpoints_in, read_arrays, read_record, step_of
from nnx_ppo_train._json_lines import read_metrics

KILLS = int(os.environ.get("NNX_KILLS", "3"))
SEED = int(os.environ.get("NNX_KILLS_SEED", "0"))
ITERATIONS = 12 * (KILLS + 1)
MARKS = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL"),
    pytest.mark.timeout(600 + 120 * KILLS),
]
PATIENCE = 600.0  # seconds; on a busy disk a save alone took 30


@dataclasses.dataclass(frozen=True)
class Run:
    """A run in child processes.

    Attributes:
      command: starts it, or goes on with it.
      folder: where its checkpoints and metrics are.
      iterations: how many it has.
      iteration: environment steps of one.
      env: environment variables of the child process beside this one's.
    """

    command: tuple[str, ...]
    folder: Path
    iterations: int
    iteration: int
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def finish(self) -> None:
        """Runs to the end."""
        with self._child() as child:
            said, _ = child.communicate(timeout=PATIENCE)
        assert child.returncode == 0, said

    def kill(self, draw: random.Random, from_step: int, in_save: bool) -> "Killed":
        """Starts, and kills at a random moment after a step was logged, or in a save after it."""
        before = self._unfinished()
        with self._child() as child:
            deadline = time.monotonic() + PATIENCE
            while not self._is_there(from_step, before if in_save else None):
                assert child.poll() is None, child.communicate()[0]
                assert time.monotonic() < deadline, "the run has not come so far"
                time.sleep(0.002)
            time.sleep(draw.uniform(0.0, 0.03 if in_save else 0.1))
            child.kill()
        checkpoints = checkpoints_in(self.folder / "checkpoints")
        return Killed(
            logged=self.last_step(),
            saved=step_of(checkpoints[-1]) if checkpoints else 0,
            in_save=bool(self._unfinished() - before),
        )

    def last_step(self) -> int:
        """Environment steps of the last line that was logged; -1 for none."""
        lines = read_metrics(self.folder / "metrics.jsonl")
        return int(lines[-1]["step"]) if lines else -1

    def _is_there(self, step: int, unfinished_before: set[Path] | None) -> bool:
        """Returns whether a step was logged, and a save begun where leftovers are given."""
        if self.last_step() < step:
            return False
        return unfinished_before is None or bool(self._unfinished() - unfinished_before)

    def _unfinished(self) -> set[Path]:
        """Saves and deletions that are under way, and what killed processes left of theirs."""
        return set((self.folder / "checkpoints").glob(".unfinished-*"))

    @contextlib.contextmanager
    def _child(self) -> Iterator[subprocess.Popen[str]]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        env = {**os.environ, "JAX_PLATFORMS": "cpu", **self.env}
        with subprocess.Popen(self.command, env=env, **pipes) as child:
            try:
                yield child
            finally:
                child.kill()


@dataclasses.dataclass(frozen=True)
class Killed:
    """What a killed process left behind.

    Attributes:
      logged: environment steps of the last line of metrics.
      saved: environment steps of the newest checkpoint; 0 without one.
      in_save: whether a save was under way.
    """

    logged: int
    saved: int
    in_save: bool


def kill_repeatedly(run: Run, kills: int, seed: int) -> list[Killed]:
    """Kills a run so often, every second time in a save, and then lets it finish.

    Args:
      run: the run.
      kills: how often.
      seed: of the random moments.
    """
    draw, found = random.Random(seed), []
    for number in range(kills):
        share = (number + draw.uniform(0.0, 0.8)) / (kills + 1)
        step = int(share * run.iterations) * run.iteration
        # Lines of a kill before are still there until the run goes on, and drops them.
        step = max(step, run.last_step() + run.iteration)
        found.append(run.kill(draw, step, in_save=number % 2 == 1))
    run.finish()
    return found


def final_state(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """Every array of the newest checkpoint by name, and what else it holds of the training."""
    path = latest_checkpoint(folder / "checkpoints")
    record = read_record(path)
    rest = {key: record[key] for key in ("steps_taken", "callbacks", "config")}
    return read_arrays(path, record), rest


def check_same_state(one: Path, other: Path) -> None:
    """Checks that the newest checkpoints of two runs are equal, bit for bit."""
    (arrays, rest), (expected, expected_rest) = final_state(one), final_state(other)
    assert rest == expected_rest, (rest, expected_rest)
    assert arrays.keys() == expected.keys(), arrays.keys() ^ expected.keys()
    for name, array in arrays.items():
        assert array.dtype == expected[name].dtype, name
        assert array.tobytes() == expected[name].tobytes(), name


def check_same_metrics(one: Path, other: Path) -> None:
    """Checks that two runs logged the same lines, each step once, but for times."""
    lines, expected = (
        [_without_times(json.loads(line)) for line in path.read_text().splitlines()]
        for path in (one, other)
    )
    steps = [line["step"] for line in lines]
    assert steps == [line["step"] for line in expected], steps
    for line, wanted in zip(lines, expected, strict=True):
        assert line == wanted, (line, wanted)


def _without_times(line: dict[str, float]) -> dict[str, float]:
    times = ("wall_time", "throughput/", "time/")
    return {name: value for name, value in line.items() if not name.startswith(times)}


def check_kills(found: list[Killed], checkpoint: int) -> None:
    """Checks that at most the work since the last checkpoint is lost, and kills fell into saves."""
    if log := os.environ.get("NNX_KILLS_LOG"):
        with Path(log).open("a") as file:
            file.writelines(f"{killed}\n" for killed in found)
    for killed in found:
        # The save of the checkpoint before may still have been under way.
        assert killed.logged - killed.saved <= 2 * checkpoint, killed
    assert any(killed.in_save for killed in found), found


def check_killed_equals_undisturbed(disturbed: Run, undisturbed: Run, checkpoint: int) -> None:
    """Runs both, kills one of them, and compares their ends and all that they logged.

    Args:
      disturbed: the run to kill.
      undisturbed: the same run in another folder.
      checkpoint: environment steps between checkpoints.
    """
    undisturbed.finish()
    check_kills(kill_repeatedly(disturbed, KILLS, SEED), checkpoint)
    check_same_state(disturbed.folder, undisturbed.folder)
    check_same_metrics(*(run.folder / "metrics.jsonl" for run in (disturbed, undisturbed)))


def cached(cache: Path) -> dict[str, str]:
    """Environment variables with which a restart compiles little and quickly."""
    return {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
    }
