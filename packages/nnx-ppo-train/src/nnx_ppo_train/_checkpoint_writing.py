"""Writing of checkpoints: complete or absent, and on the disk before anything older is deleted."""

import contextlib
import dataclasses
import errno
import itertools
import json
import logging
import math
import os
import platform
import re
import shutil
import textwrap
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp

from ._arguments import refused
from ._checkpoint_files import ARRAYS, FORMAT, RECORD, described_files, record_checksum
from ._checkpoint_leaves import checksum, describe, named_leaves, of_episodes, on_host
from ._config_json import config_to_json
from ._loop_state import as_loop_state
from ._migrations import CHECKPOINT_VERSION
from ._types import TrainingState

_UNFINISHED = ".unfinished-"
_OWNER = re.compile(r"-(?P<host>[^-]*)-(?P<pid>\d+)-\d+$|-(?P<old_pid>\d+)$")
_HOST = re.sub(r"\W", "_", platform.node())[:40]
_BESIDE_ARRAYS = 2**16  # bytes of a checkpoint's dozen small files
_NUMBERS = itertools.count()
_being_written: set[Path] = set()
_orbax = threading.Lock()  # saves of several savers share Orbax's state: they failed or hung


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """All that a checkpoint holds of a training state, on the host.

    Attributes:
      steps_taken: environment steps.
      leaves: descriptions of the leaves by name.
      arrays: the leaves themselves; shares no memory with the state.
      config: the run's config as JSON, or None.
      callbacks: states of the callbacks as JSON.
      metrics: the last metrics by name.
    """

    steps_taken: int
    leaves: dict[str, dict[str, Any]]
    arrays: dict[str, np.ndarray]
    config: Any
    callbacks: list[Any]
    metrics: dict[str, float]

    @classmethod
    def of(cls, state: TrainingState, config: Any, include_env_state: bool) -> "Snapshot":
        """Copies a training state.

        Raises:
          TypeError: if the state of a callback is nothing that JSON can hold.
        """
        with refused("TrainingState", "a state whose leaves are arrays", state, TypeError):
            leaves = named_leaves(as_loop_state(state))
            if not include_env_state:
                leaves = {name: leaf for name, leaf in leaves.items() if not of_episodes(name)}
            described = {name: describe(leaf) for name, leaf in leaves.items()}
            arrays = on_host(leaves)
            metrics = {name: float(value) for name, value in state.metrics.items()}
        return cls(
            steps_taken=state.steps_taken,
            leaves=described,
            arrays=arrays,
            config=config_to_json(config),
            callbacks=[
                to_json(callback, f"state_dict() of callback {index}")
                for index, callback in enumerate(state.callbacks)
            ],
            metrics=metrics,
        )

    def record(self) -> dict[str, Any]:
        """The record for JSON, without what depends on the files."""
        return {
            "format": FORMAT,
            "version": CHECKPOINT_VERSION,
            "steps_taken": self.steps_taken,
            "leaves": {
                name: {**leaf, "checksum": checksum(self.arrays[name])}
                for name, leaf in self.leaves.items()
            },
            "config": self.config,
            "callbacks": self.callbacks,
            "metrics": to_json(self.metrics, "metrics"),
        }


def write_checkpoint(path: Path, snapshot: Snapshot) -> None:
    """Writes a checkpoint beside its place, syncs it to the disk and moves it there.

    Raises:
      OSError: if that fails, as on a full disk; nothing is left of it then.
    """
    unfinished = path.parent / f"{_UNFINISHED}{path.name}-{_HOST}-{os.getpid()}-{next(_NUMBERS)}"
    _being_written.add(unfinished)
    try:
        with _told_in_one_line(path, snapshot):
            made = _make_folders(unfinished)
            _check_space(unfinished, snapshot)
            stored = {name: array for name, array in snapshot.arrays.items() if array.size}
            with _orbax, _without_tracebacks(), ocp.StandardCheckpointer() as checkpointer:
                checkpointer.save(unfinished / ARRAYS, stored)  # refuses arrays without elements
            record = {**snapshot.record(), "files": described_files(unfinished)}
            record["checksum"] = record_checksum(record)
            (unfinished / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
            for folder, _, files in os.walk(unfinished):
                for file in files:
                    _sync(Path(folder, file))
                _sync(Path(folder))
            unfinished.rename(path)
            for folder in made:
                _sync(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        _being_written.discard(unfinished)


def delete_checkpoint(path: Path) -> None:
    """Deletes a checkpoint; one that is half deleted never counts as complete."""
    name = f"{_UNFINISHED}{path.name}-{_HOST}-{os.getpid()}-{next(_NUMBERS)}"
    shutil.rmtree(path.rename(path.parent / name))


def delete_leftovers(directory: Path) -> None:
    """Deletes what saves left behind whose process was killed; others may still be writing."""
    for path in directory.glob(f"{_UNFINISHED}*"):
        if path not in _being_written and _is_abandoned(path.name):
            shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(name: str) -> bool:
    owner = _OWNER.search(name)
    if owner is None or owner["host"] not in (None, _HOST):
        return False  # of a machine whose processes nobody here can see
    pid = int(owner["pid"] or owner["old_pid"])
    if pid == os.getpid():
        return True  # a process of the same number before this one, as in a container
    if os.name == "nt":  # where os.kill would end it
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def to_json(value: Any, where: str) -> Any:
    """Plain data as JSON that every reader takes: numbers that are not finite as {"float": "nan"}.

    Raises:
      TypeError: if there is something in it that JSON cannot hold.
    """
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"{where}: expected keys that are str, got {list(value)!r}")
        return {key: to_json(entry, f"{where}[{key!r}]") for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry, f"{where}[{index}]") for index, entry in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(float(value))}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"{where}: expected what JSON can hold (dict, list, str, number, bool, None), got a "
        f"{type(value).__name__}; turn it into such, arrays by .tolist()"
    )


def from_json(value: Any) -> Any:
    """The data that :func:`to_json` was given; tuples come back as lists."""
    if isinstance(value, dict):
        if value.keys() == {"float"} and value["float"] in ("nan", "inf", "-inf"):
            return float(value["float"])
        return {key: from_json(entry) for key, entry in value.items()}
    return [from_json(entry) for entry in value] if isinstance(value, list) else value


def _make_folders(path: Path) -> list[Path]:
    """Makes a folder and those above it; returns the folders whose entries change."""
    missing = [path, *(folder for folder in path.parents if not folder.exists())]
    path.mkdir(parents=True)
    return [folder.parent for folder in missing]


def _check_space(folder: Path, snapshot: Snapshot) -> None:
    """Raises OSError if the disk is full already.

    TensorStore would find out too, but its threads go on to complain on stderr after that.
    """
    needed = sum(array.nbytes for array in snapshot.arrays.values()) + _BESIDE_ARRAYS
    if shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _sync(path: Path) -> None:
    """Waits until a file or folder is on the disk."""
    if os.name == "nt" and path.is_dir():
        return  # folders cannot be opened there
    flags = os.O_RDONLY if os.name != "nt" else os.O_RDWR
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _told_in_one_line(path: Path, snapshot: Snapshot) -> Iterator[None]:
    """Context in which failures to write become an OSError of one line."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:  # the last two are TensorStore's
        full = "No space left" in str(error) or getattr(error, "errno", 0) == errno.ENOSPC
        megabytes = sum(array.nbytes for array in snapshot.arrays.values()) / 1e6
        reason = textwrap.shorten(str(error).partition(" [tensorstore_spec")[0], 300)
        if full:
            reason = f"no space left on the device, {megabytes:.1f} MB of arrays are to be stored"
        failure = OSError(
            f"{path}: expected to save a checkpoint, got an error ({reason}); "
            f"{'free some space' if full else 'see to it'}, or save into another directory. "
            "Earlier checkpoints are as they were"
        )
        failure.errno = errno.ENOSPC if full else getattr(error, "errno", None)
        raise failure from error


class _NotOfCheckpoints(logging.Filter):
    """Passes what is not about checkpoints being written."""

    def filter(self, record: logging.LogRecord) -> bool:
        return _UNFINISHED not in record.getMessage()


@contextlib.contextmanager
def _without_tracebacks() -> Iterator[None]:
    """Context in which Orbax does not print tracebacks of its threads: the error is raised too."""
    log, quiet = logging.getLogger("absl"), _NotOfCheckpoints()
    log.addFilter(quiet)
    try:
        yield
    finally:
        log.removeFilter(quiet)
