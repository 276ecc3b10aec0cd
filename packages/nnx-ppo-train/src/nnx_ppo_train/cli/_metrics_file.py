"""metrics.jsonl: one line of JSON per iteration."""

import json
import math
import time
from pathlib import Path
from typing import Any


class MetricsFile:
    """Appends metrics to a file, each line with its step and the seconds trained so far.

    Opening a file that exists drops the lines after ``start_step``: a run that was killed has
    logged more than its newest checkpoint knows.

    Args:
      path: the file.
      start_step: environment steps at which training goes on.
    """

    def __init__(self, path: Path, start_step: int = 0):
        kept = [line for line in read_metrics(path) if line["step"] <= start_step]
        if path.exists():
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_text("".join(_to_line(line) for line in kept))
            unfinished.replace(path)
        self._last_step = kept[-1]["step"] if kept else -1
        self._started = time.monotonic() - (kept[-1]["wall_time"] if kept else 0.0)
        self._file = path.open("a", encoding="utf-8")

    def write(self, metrics: dict[str, float], step: int) -> None:
        """Appends a line, unless the step has one already."""
        if step <= self._last_step:
            return
        self._last_step = step
        wall_time = round(time.monotonic() - self._started, 3)
        self._file.write(_to_line({"step": step, "wall_time": wall_time, **metrics}))
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Reads the lines of a metrics file; one cut short by a crash is left out."""
    if not path.exists():
        return []
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return lines


def _to_line(metrics: dict[str, Any]) -> str:
    """One line; what is no finite number is null, for JSON knows neither NaN nor infinity."""
    finite = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in metrics.items()
    }
    return json.dumps(finite, allow_nan=False) + "\n"
