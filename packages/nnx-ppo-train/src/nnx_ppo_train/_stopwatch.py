"""Wall time of a run by what it was spent on."""

import contextlib
import time
from collections.abc import Iterator

PARTS: tuple[str, ...] = ("train", "evaluation", "video", "checkpoint", "host")
"""Iterations on the device, then evaluations, videos, checkpoints, and logging with callbacks."""


class Stopwatch:
    """Seconds spent on each of ``PARTS``, since the last reading and in all.

    Example:
      >>> watch = Stopwatch()
      >>> watch.add("train", 1.5)
      >>> watch.read()["time/train"], watch.read()["time/train"], watch.total("train")
      (1.5, 0.0, 1.5)
    """

    def __init__(self) -> None:
        self._unread = dict.fromkeys(PARTS, 0.0)
        self._total = dict.fromkeys(PARTS, 0.0)

    def add(self, part: str, seconds: float) -> None:
        """Adds seconds to a part."""
        self._unread[part] += seconds
        self._total[part] += seconds

    @contextlib.contextmanager
    def measuring(self, part: str) -> Iterator[None]:
        """Context whose duration is added to a part."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.add(part, time.perf_counter() - begun)

    def read(self) -> dict[str, float]:
        """Returns the seconds since the last reading as metrics ``time/PART``."""
        metrics = {f"time/{part}": seconds for part, seconds in self._unread.items()}
        self._unread = dict.fromkeys(PARTS, 0.0)
        return metrics

    def total(self, part: str | None = None) -> float:
        """Returns the seconds of a part in all, or of all parts."""
        return sum(self._total.values()) if part is None else self._total[part]
