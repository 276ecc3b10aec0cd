"""A profile of an iteration: where its time goes, as JAX's profiler sees it."""

from pathlib import Path
from types import TracebackType

import jax

WARM_UP = 3
"""Iterations before the profiled one: the first ones compile and warm caches."""


class IterationProfile:
    """Records one iteration once a run is under way; does nothing without a folder.

    To be told of every iteration that was logged. The trace below the folder opens in Perfetto
    (ui.perfetto.dev, the file ``*.trace.json.gz``) and in TensorBoard's profile plugin.

    Args:
      folder: where the trace goes, or None.
    """

    def __init__(self, folder: Path | None):
        self._folder = folder
        self._seen = 0
        self._recording = False

    def __enter__(self) -> "IterationProfile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def after_iteration(self) -> None:
        """Starts after the warm-up, stops an iteration later."""
        self._seen += 1
        if self._recording:
            self._stop()
        elif self._folder is not None and self._seen == WARM_UP:
            jax.profiler.start_trace(self._folder)
            self._recording = True

    def _stop(self) -> None:
        if self._recording:
            jax.profiler.stop_trace()
            self._recording = False
