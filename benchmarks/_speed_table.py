"""Steps per second beside a peer: runs both sides in turns, keeps and prints the figures."""

import argparse
import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import _peers
from _peers import Peer, RunError
from _results import Results, chosen, print_table
from _speed_gymnax import Task
from _turns import Timing, Worker, measure

OURS = "nnx-ppo-train"
NO_CACHE = {"JAX_ENABLE_COMPILATION_CACHE": "false", "JAX_COMPILATION_CACHE_DIR": ""}
"""So that compilations count."""


def compare(peer: Peer, tasks: Mapping[str, Task], script: str, description: str) -> int:
    """Reads the command line, measures what is not known yet, prints the table.

    Args:
        peer: Compared with; both sides run in its environment, which has our packages.
        tasks: What is timed, by name.
        script: Trains a task with the peer.
        description: For `--help`.

    Returns:
        The exit status: 1 if a measurement failed.
    """
    options = turn_arguments(description, f"speed_vs_{peer.name}", "--tasks").parse_args()
    names = chosen(options.tasks, list(tasks), "--tasks")
    rounds, seconds = (2, 0.5) if options.quick else (options.rounds, options.turn)
    results = Results(options.out, options.fresh)
    python = _peers.make_environment(peer)
    settings = {
        name: {**dataclasses.asdict(tasks[name]), "rounds": rounds, "seconds": seconds}
        for name in names
    }
    failed = 0
    for name in names:
        if results.get(name, settings[name]) is not None:
            continue
        ours = {"peer": peer.name, "name": name}
        try:
            workers = {
                peer.name: Worker(python, script, {"name": name}, NO_CACHE),
                OURS: Worker(python, "_speed_gymnax_ours.py", ours, NO_CACHE),
            }
            timings = measure(workers, rounds, seconds)
        except RunError as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            continue
        result = {library: dataclasses.asdict(timing) for library, timing in timings.items()}
        results.put(name, settings[name], result)
        print_table(head(peer), [row(name, tasks[name], peer, result)])
    print()
    found = {name: results.get(name, settings[name]) for name in names}
    rows = [row(name, tasks[name], peer, result) for name, result in found.items() if result]
    print_table(head(peer), rows)
    print(f"\n{peer.version} / {OURS}; a ratio above 1 is in favour of the latter.")
    print(f"Results in {options.out}")
    return 1 if failed else 0


def turn_arguments(description: str, name: str, choice: str) -> argparse.ArgumentParser:
    """The options of measurements in turns; `choice` is that of what to measure."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(choice, nargs="+", metavar="NAME", help="some of them; default all")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each process")
    parser.add_argument("--turn", type=float, default=3.0, help="seconds of a turn, at least")
    parser.add_argument("--quick", action="store_true", help="short turns: does it run?")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    default = _peers.ROOT / "runs" / "benchmarks" / f"{name}.json"
    parser.add_argument("--out", type=Path, default=default, help="JSON file of the results")
    return parser


def head(peer: Peer) -> list[str]:
    """Head of the table."""
    return [
        f"beside {peer.name}",
        "steps/s",
        "ratio",
        "first compile (s)",
        "ratio",
        "peak (MiB)",
        "ratio",
    ]


def row(name: str, task: Task, peer: Peer, result: dict[str, dict[str, Any]]) -> list[str]:
    """Peer / ours."""
    before, after = (Timing(**result[library]) for library in (peer.name, OURS))
    return [
        name,
        f"{task.steps / before.iteration:,.0f} / {task.steps / after.iteration:,.0f}",
        f"{before.iteration / after.iteration:.2f}",
        f"{before.first:.1f} / {after.first:.1f}",
        f"{before.first / after.first:.2f}",
        f"{before.peak_bytes / 2**20:.0f} / {after.peak_bytes / 2**20:.0f}",
        f"{before.peak_bytes / after.peak_bytes:.2f}",
    ]
