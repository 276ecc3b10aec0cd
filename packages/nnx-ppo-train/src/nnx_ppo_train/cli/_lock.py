"""A lock on a run folder, so that no two processes train in it."""

import contextlib
import os
import socket
import sys
from pathlib import Path
from types import TracebackType

from ._errors import UsageError, reason

LOCK = ".lock"


class RunLock:
    """Context in which a run folder belongs to this process.

    The lock is one of the operating system on an open file, so a killed process cannot leave it
    behind; the file itself stays, since removing it would let two processes lock two files of one
    name. On a file system without such locks there is none, and the run goes on.

    Args:
      folder: the run folder.

    Raises:
      UsageError: on entering, if another process holds the lock or the folder cannot be written.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._descriptor: int | None = None

    def __enter__(self) -> "RunLock":
        try:
            descriptor = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise UsageError(
                f"{self._folder}: expected a run folder that can be written, got "
                f"{reason(error)!r}; change its permissions, or copy it"
            ) from error
        try:
            _lock(descriptor)
        except (BlockingIOError, PermissionError) as error:
            holder = _read(descriptor)
            os.close(descriptor)
            raise UsageError(
                f"{self._folder}: expected a run folder that no process works in, got one in use"
                f"{holder}; wait until that run has ended, or end it"
            ) from error
        except OSError:  # a file system that has no locks, as some clusters' have none
            pass
        self._descriptor = descriptor
        with contextlib.suppress(OSError):  # for the message alone; the disk may be full
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, f"{os.getpid()} {socket.gethostname()}".encode())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Gives the folder free; a second time does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        """Locks a byte beyond what is read: Windows forbids to read locked bytes."""
        os.lseek(descriptor, 2**20, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        """Locks the open file, as long as it is open."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _read(descriptor: int) -> str:
    """The holder that a lock file names, in words."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        words = os.read(descriptor, 300).decode(errors="replace").split()
    except OSError:
        return ""
    return f" by process {words[0]} on {words[1]}" if len(words) == 2 else ""
