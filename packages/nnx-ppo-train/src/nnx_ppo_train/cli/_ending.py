"""How a training ended, and the exit code that says so."""

import dataclasses
import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

from .._nonfinite import NonFiniteError
from ._errors import one_line, reason

FAILED = 1
USAGE_ERROR = 2
INTERRUPTED = 130  # exit code of a program that Ctrl-C ended
SIGNALS = {
    128 + getattr(signal, name): name for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)
}
"""Exit codes 143 and 138, after signals by which a batch system announces the end of a job."""

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


@dataclasses.dataclass(frozen=True)
class Ending:
    """The end of a training.

    Attributes:
      code: the exit code.
      stopped_by: why it ended before its last step, None if it did not or by a signal.
      failure: why it failed, or None.
    """

    code: int = 0
    stopped_by: str | None = None
    failure: str | None = None

    @property
    def hurries(self) -> bool:
        """Whether a batch system is about to end the process."""
        return self.code in SIGNALS


def end_of(work: Callable[[], str | None], folder: Path) -> Ending:
    """Does the work of a training and returns how it ended.

    Args:
      work: trains; returns why it ended early, if it did.
      folder: the run folder; where it cannot be written the run has failed.
    """
    try:
        return Ending(stopped_by=work())
    except KeyboardInterrupt:
        return Ending(INTERRUPTED)
    except SystemExit as stop:
        if not isinstance(stop.code, int) or stop.code not in SIGNALS:
            raise  # somebody else's
        return Ending(stop.code)
    except NonFiniteError as error:
        return Ending(FAILED, failure=one_line(error))
    except OSError as error:
        if not _is_about(error, folder):
            raise
        return Ending(FAILED, failure=_in_words(error))


def _is_about(error: OSError, folder: Path) -> bool:
    """Whether an error says that the run folder cannot be written."""
    if error.filename is not None:
        return Path(os.fsdecode(error.filename)).absolute().is_relative_to(folder.absolute())
    return error.errno in _NO_SPACE or str(folder.absolute()) in str(error)


def _in_words(error: OSError) -> str:
    if error.filename is None:
        return one_line(error)
    return f"{os.fsdecode(error.filename)} cannot be written: {reason(error)}"
