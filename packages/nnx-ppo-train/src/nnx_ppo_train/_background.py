"""Threads that write checkpoints while training goes on, and waiting for them."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import orbax.checkpoint  # noqa: F401 - first: what it registers for the exit must run after ours

_LOG = logging.getLogger("nnx_ppo_train")
_under_way: dict[threading.Thread, Path] = {}
_failed: set["BackgroundSave"] = set()
_changing = threading.Lock()


class BackgroundSave:
    """One save in a thread of its own.

    Args:
      directory: where it writes.
      work: what to do.

    Attributes:
      error: what it raised, until it is raised again by :meth:`wait`.
    """

    def __init__(self, directory: Path, work: Callable[[], None]):
        self._work = work
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="checkpoint")
        with _changing:
            _under_way[self._thread] = directory.resolve()
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # for whoever waits
            self.error = error
            with _changing:
                _failed.add(self)
        finally:
            with _changing:
                _under_way.pop(threading.current_thread(), None)

    def join(self) -> None:
        """Waits until it is done."""
        self._thread.join()

    def wait(self) -> None:
        """Waits until it is done; raises what it raised, once."""
        self._thread.join()
        error, self.error = self.error, None
        if error is not None:
            with _changing:
                _failed.discard(self)
            raise error


def wait_for_saves(path: Path | None = None) -> None:
    """Waits for the saves of this process in a directory, or for all; errors are not raised.

    Args:
      path: the directory, or a checkpoint in it; None for all.
    """
    with _changing:
        places = dict(_under_way)
    wanted = None if path is None else (path.resolve(), path.resolve().parent)
    threads = [t for t, place in places.items() if wanted is None or place in wanted]
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join()


def _finish() -> None:
    """Waits for all saves, and logs what nobody has heard of."""
    wait_for_saves()
    for save in list(_failed):
        _LOG.error("A checkpoint was not saved: %s", save.error)


# An interpreter that exits first forbids new work in thread pools, which Orbax relies on, and only
# then waits for threads: a save under way would fail. Python has no public hook before that. Where
# this one is missing, train_ppo's own waiting is all there is.
_before_pools_close = getattr(threading, "_register_atexit", None)
if _before_pools_close is not None:
    _before_pools_close(_finish)
