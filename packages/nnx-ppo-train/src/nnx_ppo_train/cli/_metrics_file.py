"""metrics.jsonl of a run: a full disk is noted, and the run goes on."""

from pathlib import Path

from .._json_lines import JSONLinesLogger
from ._errors import UsageError, complain, reason


class MetricsFile:
    """Appends metrics to a run's file; what cannot be written is noted once and tried again.

    Args:
      path: the file.
      start_step: environment steps at which training goes on; lines of later steps are dropped.

    Raises:
      UsageError: if the file cannot be made.
    """

    def __init__(self, path: Path, start_step: int = 0):
        self._failed = False
        try:
            self._log = JSONLinesLogger(path, start_step)
        except OSError as error:
            raise UsageError(
                f"{path}: expected a file that can be written, got {reason(error)!r}; make the run "
                "folder writable"
            ) from error

    def write(self, metrics: dict[str, float], step: int) -> None:
        """Appends a line, unless the step has one already."""
        try:
            self._log(metrics, step)
        except OSError as error:
            self._note(error)

    def close(self) -> None:
        """Writes what is pending and closes the file."""
        try:
            self._log.close()
        except OSError as error:
            self._note(error)

    def _note(self, error: OSError) -> None:
        if not self._failed:
            complain(
                f"{self._log.path}: cannot be written ({reason(error)}); the run goes on, and "
                "tries again with every line"
            )
        self._failed = True
