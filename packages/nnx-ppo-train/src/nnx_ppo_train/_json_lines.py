"""Metrics as a file of JSON lines: written while training, read back from damaged files as well."""

import contextlib
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ._arguments import as_path, refused
from ._validate import check_instance, check_whole_number

_MOST_PENDING = 2**24  # bytes that wait for a full disk; lines beyond are dropped


class JSONLinesLogger:
    """A ``log_fn`` that appends one line of JSON to a file for each call.

    A line holds "step" (environment steps), "wall_time" (seconds trained so far) and the metrics.
    Values that are not finite are null, since JSON has neither NaN nor infinity. A step that has a
    line already gets no second one. Every line is written at once, so that a killed process loses
    none; where the disk is full no half line stays, and later calls write what is pending.

    Args:
      path: the file; its folder is made when needed.
      start_step: environment steps at which training goes on. Lines of later steps are dropped: a
        run that was killed has logged more than its newest checkpoint knows. None is a new file.

    Raises:
      ValueError: if there are lines already and ``start_step`` is None; if there is a folder.
      OSError: here and in later calls, if the file cannot be written.

    Example:
      >>> with JSONLinesLogger("metrics.jsonl") as log:
      ...     log({"losses/actor": 0.5, "train/episode_reward": float("nan")}, 64)
      >>> [line["losses/actor"] for line in read_metrics("metrics.jsonl")]
      [0.5]
    """

    def __init__(self, path: str | os.PathLike[str], start_step: int | None = None):
        self.path = as_path(path, "JSONLinesLogger")
        if start_step is not None:
            check_whole_number(start_step, "JSONLinesLogger: start_step", at_least=0)
        if self.path.is_dir():
            raise ValueError(f"{self.path}: expected the path of a file, got that of a folder")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = _parsed_lines(self.path)
        if lines and start_step is None:
            raise ValueError(
                f"{self.path}: expected a new file, got one with {len(lines)} lines; choose "
                "another path, or give start_step=state.steps_taken to go on after a checkpoint"
            )
        kept = [line for line in lines if line[1]["step"] <= (start_step or 0)]
        self._last_step = max((record["step"] for _, record in kept), default=-1)
        trained = max((_number(record.get("wall_time")) for _, record in kept), default=0.0)
        self._started = time.monotonic() - (trained if math.isfinite(trained) else 0.0)
        _replace_content(self.path, b"".join(text + b"\n" for text, _ in kept))
        self._file = self.path.open("ab", buffering=0)
        self._size = self.path.stat().st_size
        self._pending = b""

    def __call__(self, metrics: Mapping[str, Any], step: int) -> None:
        """Appends a line, unless the step has one already.

        Args:
          metrics: numbers, or arrays of them, which become lists.
          step: environment steps.

        Raises:
          OSError: if it cannot be written now; the line is kept and written with the next one.
        """
        check_whole_number(step, "JSONLinesLogger: step", at_least=0)
        check_instance(metrics, "JSONLinesLogger: metrics", Mapping, "{'losses/actor': 0.5}")
        if step <= self._last_step:
            return
        self._last_step = step
        wall_time = round(time.monotonic() - self._started, 3)
        record = {"step": int(step), "wall_time": wall_time}
        with refused("JSONLinesLogger: metrics", "numbers and arrays", metrics, TypeError):
            record |= {name: _plain(value) for name, value in metrics.items()}
            line = json.dumps(record, allow_nan=False).encode() + b"\n"
        if len(self._pending) + len(line) <= _MOST_PENDING:
            self._pending += line
        self._write_pending()

    def close(self) -> None:
        """Writes what is pending and closes the file; a second time does nothing."""
        if self._file.closed:
            return
        try:
            self._write_pending()
        finally:
            self._file.close()

    def __enter__(self) -> "JSONLinesLogger":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write_pending(self) -> None:
        left = memoryview(self._pending)
        try:
            while left:
                left = left[self._file.write(left) or 0 :]
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self._size)  # no half line
            raise
        self._size += len(self._pending)
        self._pending = b""


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns the lines of a metrics file; what is no such line is left out.

    Args:
      path: the file; an absent one has no lines.

    Returns:
      For each line a dict of its "step" (int) and its numbers (float). A null, which stands for a
      value that was not finite, is NaN; a metric that the line lacks is absent.

    Raises:
      OSError: if the file cannot be read.
    """
    lines = []
    for _, record in _parsed_lines(Path(path)):
        numbers = {name: _number(value) for name, value in record.items() if _is_number(value)}
        lines.append(numbers | {"step": record["step"]})
    return lines


def _parsed_lines(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    """The lines that are objects with a step, as text and as records."""
    if not path.exists():
        return []
    found = []
    for text in path.read_bytes().split(b"\n"):
        try:
            record = json.loads(text.decode())
        except (ValueError, RecursionError):  # cut short, binary, or nested without end
            continue
        step = record.get("step") if isinstance(record, dict) else None
        if isinstance(step, int) and not isinstance(step, bool) and 0 <= step < 2**63:
            found.append((text, record))
    return found


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _number(value: Any) -> float:
    """A number as a float; NaN for whatever is no finite number."""
    if value is None or not _is_number(value):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:  # an int that no float can hold
        return math.nan


def _plain(value: Any) -> Any:
    """Returns a value that JSON can hold; None for numbers that are not finite."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return _plain(np.asarray(value).tolist())


def _replace_content(path: Path, content: bytes) -> None:
    """Gives an existing file another content, unless it has that already; whole or not at all."""
    if path.exists() and path.read_bytes() != content:
        unfinished = path.with_name(f"{path.name}.unfinished")
        unfinished.write_bytes(content)
        unfinished.replace(path)
