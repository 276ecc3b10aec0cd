"""Results of a benchmark: kept in a JSON file as they come, so that a run can go on later."""

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _peers


def common_arguments(description: str, name: str) -> argparse.ArgumentParser:
    """The options that all comparisons have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="some of the tasks; default all")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, from 0 on")
    parser.add_argument("--quick", action="store_true", help="few training steps: does it run?")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one process")
    default = _peers.ROOT / "runs" / "benchmarks" / f"{name}.json"
    parser.add_argument("--out", type=Path, default=default, help="JSON file of the results")
    return parser


def chosen(given: Sequence[str] | None, legal: Sequence[str], option: str) -> list[str]:
    """The names asked for, all if none; exits with a message if one does not exist."""
    if unknown := sorted(set(given or ()) - set(legal)):
        raise SystemExit(f"{option}: expected some of {', '.join(legal)}; got {', '.join(unknown)}")
    return list(given or legal)


class Results:
    """A table of results by name, each with what it was measured with, in a JSON file.

    Args:
        path: The file; it is written anew with every result.
        fresh: Whether to forget what it holds.
    """

    def __init__(self, path: Path, fresh: bool = False):
        self._path = path
        known = path.exists() and not fresh
        self._rows: dict[str, Any] = json.loads(path.read_text()) if known else {}

    def get(self, name: str, settings: Any) -> Any:
        """The result of that name if it was measured with these settings, else None."""
        row = self._rows.get(name)
        same = row is not None and row["settings"] == json.loads(json.dumps(settings))
        return row["result"] if same else None

    def put(self, name: str, settings: Any, result: Any) -> None:
        """Keeps a result, also on disk."""
        self._rows[name] = {"settings": settings, "result": result}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(".tmp")
        unfinished.write_text(json.dumps(self._rows, indent=1, sort_keys=True) + "\n")
        os.replace(unfinished, self._path)


def mean_and_std(values: Sequence[float]) -> str:
    """`mean ± standard deviation`, the latter only of several values."""
    if not values:
        return "-"
    mean = statistics.fmean(values)
    digits = 1 if abs(mean) >= 10 else 3
    text = f"{mean:.{digits}f}"
    return text if len(values) < 2 else f"{text} ± {statistics.stdev(values):.{digits}f}"


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a Markdown table."""
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")
