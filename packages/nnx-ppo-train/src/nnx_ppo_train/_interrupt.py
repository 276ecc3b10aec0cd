"""Signals: the first one asks a training loop to stop, the second one stops it."""

import logging
import signal
import threading
from types import FrameType, TracebackType

_LOG = logging.getLogger("nnx_ppo_train")
_JOB_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)
)
"""Signals by which a batch system announces the end of a job; Windows has no SIGUSR1."""


class InterruptRequest:
    """Context in which signals are noted, so that no iteration is cut in the middle.

    SIGINT (Ctrl-C) is always noted. SIGTERM and SIGUSR1 are noted where their handler is the
    default one, which would end the process: a handler of the user's own stays in place. The second
    signal raises what :meth:`raise_requested` raises, at the next Python instruction. Outside the
    main thread, where Python delivers no signals, nothing is installed.

    Attributes:
      requested: whether a signal has come.
      signal: the first signal that came, or None.

    Example:
      >>> with InterruptRequest() as interrupt:
      ...     signal.raise_signal(signal.SIGTERM)
      >>> interrupt.requested, interrupt.signal.name
      (True, 'SIGTERM')
    """

    def __init__(self) -> None:
        self.requested = False
        self.signal: signal.Signals | None = None
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> "InterruptRequest":
        if threading.current_thread() is threading.main_thread():
            self._install(signal.SIGINT)
            for number in _JOB_SIGNALS:
                if _is_ours_to_take(signal.getsignal(number)):
                    self._install(number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous.clear()

    def raise_requested(self) -> None:
        """Ends the program's work if a signal asked for it, once all is saved.

        Raises:
          KeyboardInterrupt: after SIGINT.
          SystemExit: after SIGTERM (code 143) and SIGUSR1 (138): 128 plus the signal's number, as
            a shell reports a process that the signal ended.
        """
        if self.signal is not None:
            raise _exception(self.signal)

    def _install(self, number: signal.Signals) -> None:
        previous = signal.signal(number, self._note)
        # None: a handler that was not set from Python, which cannot be set again from here.
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        self._previous[number] = usual if previous is None else previous

    def _note(self, number: int, frame: FrameType | None) -> None:
        received = signal.Signals(number)
        if self.requested:
            raise _exception(received)
        self.requested, self.signal = True, received
        if received == signal.SIGINT:
            _LOG.warning("Stopping after this iteration; Ctrl-C again stops at once.")
        else:
            _LOG.warning(
                "%s: stopping after this iteration; a second one stops at once.", received.name
            )


def _is_ours_to_take(handler: object) -> bool:
    """Returns whether a handler is the default one, or that of a request further out."""
    owner = getattr(handler, "__self__", None)
    return handler is signal.SIG_DFL or isinstance(owner, InterruptRequest)


def _exception(number: signal.Signals) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
