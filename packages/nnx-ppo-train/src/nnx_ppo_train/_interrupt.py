"""Ctrl-C: the first one asks a training loop to stop, the second one stops it."""

import logging
import signal
import threading
from types import FrameType, TracebackType

_LOG = logging.getLogger("nnx_ppo_train")


class InterruptRequest:
    """Context in which an interrupt is noted, so that no iteration is cut in the middle.

    Attributes:
      requested: whether an interrupt has come.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: object = None

    def __enter__(self) -> "InterruptRequest":
        self._installed = threading.current_thread() is threading.main_thread()
        if self._installed:
            previous = signal.signal(signal.SIGINT, self._note)
            # None: a handler that was not set from Python, which cannot be set again from here.
            self._previous = signal.default_int_handler if previous is None else previous
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._previous)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        _LOG.warning("Stopping after this iteration; Ctrl-C again stops at once.")
