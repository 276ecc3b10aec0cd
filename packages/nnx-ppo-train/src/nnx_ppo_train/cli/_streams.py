"""Standard streams that may be closed, full or broken, as after ``| head``."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def forgiving_streams() -> Iterator[None]:
    """Context in which what cannot be printed is dropped, and the program goes on."""
    _fill_descriptors()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Forgiving(stream) for stream in before)  # type: ignore[assignment]
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        sys.stdout, sys.stderr = before


class _Forgiving:
    """A text stream, or None for one that was closed; drops all once a write has failed."""

    def __init__(self, stream: Any):
        self._stream = stream
        self._gone = stream is None

    def write(self, text: str) -> int:
        """Writes as much as the stream takes; characters that it cannot encode as escapes."""
        if not self._gone:
            try:
                self._stream.write(text)
            except UnicodeEncodeError as error:
                escaped = text.encode(error.encoding, "backslashreplace")
                self._stream.write(escaped.decode(error.encoding))
            except (OSError, ValueError):
                self._lose()
        return len(text)

    def flush(self) -> None:
        """Flushes the stream, if it is still there."""
        if not self._gone:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self._lose()

    def isatty(self) -> bool:
        """Returns whether a person reads along."""
        return not self._gone and self._stream.isatty()

    def _lose(self) -> None:
        """Sends what is buffered to nowhere: the interpreter flushes it once more at its end."""
        self._gone = True
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _fill_descriptors() -> None:
    """Opens descriptors 0 to 2 where they are closed.

    The next file that is opened would get the number, and with it whatever libraries print.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
