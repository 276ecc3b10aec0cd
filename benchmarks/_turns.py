"""Endless processes that take turns, so that what is compared runs at the same time of the day.

All but one of them are stopped (SIGSTOP); each runs for a while, then the next. Iterations count
only if they lie wholly within a turn of their process.
"""

import dataclasses
import itertools
import json
import os
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _peers import RunError

SETTLE = 0.2
"""Seconds of a turn before iterations count: caches and clock are then as they will be."""


class Worker:
    """A process that prints a line of JSON with `time` at its start and after every iteration.

    Args:
        python: The interpreter.
        script: File name in this folder.
        arguments: What the script reads as JSON from its first argument.
        env: Additions to the environment variables.
    """

    def __init__(self, python: Path | str, script: str, arguments: Any, env: Mapping[str, str]):
        path = Path(__file__).with_name(script)
        self.name = f"{script} {json.dumps(arguments)}"
        self.turns: list[tuple[float, float]] = []
        self.lines: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [str(python), str(path), json.dumps(arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | dict(env),
        )
        self._errors: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.lines.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)

    def run(self, iterations: int, seconds: float, timeout: float) -> None:
        """Lets it run until so many iterations are done and so many seconds have passed."""
        begun, before = time.monotonic(), len(self.lines)
        self._process.send_signal(signal.SIGCONT)
        while len(self.lines) < before + iterations or time.monotonic() < begun + seconds:
            if self._process.poll() is not None:
                raise RunError(f"{self.name}: ended early\n{''.join(self._errors)[-3000:]}")
            if time.monotonic() > begun + timeout:
                raise RunError(f"{self.name}: no {iterations} iterations within {timeout:g} s")
            time.sleep(0.01)
        self.pause()
        self.turns.append((begun + SETTLE, time.monotonic()))

    def pause(self) -> None:
        """Stops it until it is run again."""
        self._process.send_signal(signal.SIGSTOP)

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


@dataclasses.dataclass(frozen=True)
class Timing:
    """What a worker took.

    Attributes:
        iteration: Median seconds of an iteration.
        n_iterations: Of how many.
        first: Seconds from the start of training until the first iteration was done, less the
            median of one: tracing, compilation and everything else that happens once.
        peak_bytes: The largest memory of the process.
    """

    iteration: float
    n_iterations: int
    first: float
    peak_bytes: int


def measure(workers: Mapping[str, Worker], rounds: int, seconds: float) -> dict[str, Timing]:
    """Lets workers take turns; the first turn of each ends with its compilation.

    Args:
        workers: By name; they are ended afterwards.
        rounds: Turns of each after the first.
        seconds: Shortest time of a turn.
    """
    try:
        for worker in workers.values():
            worker.pause()
        for worker in workers.values():
            worker.run(iterations=3, seconds=0.0, timeout=1200.0)
        for turn in range(rounds):
            order = list(workers.values())
            for worker in order if turn % 2 == 0 else reversed(order):
                worker.run(iterations=3, seconds=seconds, timeout=600.0)
    finally:
        for worker in workers.values():
            worker.end()
    return {name: timing(worker) for name, worker in workers.items()}


def iterations_by_turn(worker: Worker) -> list[list[float]]:
    """Seconds of the iterations that lie wholly within each turn after the first."""
    times = [line["time"] for line in worker.lines]
    return [
        [
            after - before
            for before, after in itertools.pairwise(times[1:])
            if begin <= before and after <= end
        ]
        for begin, end in worker.turns[1:]
    ]


def medians_of_turns(worker: Worker, pieces: int = 1) -> list[float]:
    """Median seconds of an iteration in each turn after the first.

    Args:
        worker: The worker.
        pieces: Consecutive turns that are taken together, so that a machine whose speed changes
            within seconds changes it for both sides.
    """
    turns = iterations_by_turn(worker)
    groups = [turns[at : at + pieces] for at in range(0, len(turns), pieces)]
    turns = [[seconds for piece in group for seconds in piece] for group in groups]
    if not all(turns):
        raise RunError(f"{worker.name}: a turn without a whole iteration; make turns longer")
    return [statistics.median(turn) for turn in turns]


def timing(worker: Worker) -> Timing:
    """Reads the figures off what a worker told."""
    times = [line["time"] for line in worker.lines]
    inside = [seconds for turn in iterations_by_turn(worker) for seconds in turn]
    if not inside:
        raise RunError(f"{worker.name}: no whole iteration within a turn; make turns longer")
    median = statistics.median(inside)
    peak = max(line["peak_bytes"] for line in worker.lines)
    return Timing(median, len(inside), times[1] - times[0] - median, peak)
