"""The files of a checkpoint: found, read, and refused with a remedy where they are damaged."""

import json
import textwrap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp

from ._checkpoint_leaves import are_descriptions, checksum, empty
from ._config_json import read_json
from ._migrations import checkpoint_versions, migrated_checkpoint

FORMAT = "nnx-ppo-train checkpoint"
ARRAYS, RECORD = "arrays", "checkpoint.json"
_ENTRIES = {"callbacks", "config", "files", "leaves", "metrics", "steps_taken"}
_READ_AT_ONCE = 2**24  # bytes of a file


def checkpoints_in(directory: Path) -> list[Path]:
    """The complete checkpoints in a directory, oldest first."""
    found = [path for path in directory.glob("step_*") if (path / RECORD).is_file()]
    return sorted((path for path in found if path.name[5:].isdigit()), key=step_of)


def step_of(path: Path) -> int:
    """The number of steps that a checkpoint's name says."""
    return int(path.name.removeprefix("step_"))


def read_record(path: Path) -> dict[str, Any]:
    """Reads what JSON notes down of a checkpoint, as this version would have written it.

    Raises:
      FileNotFoundError: if there is nothing at the path.
      ValueError: if it is no checkpoint, of another format, or damaged.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a checkpoint, there is nothing")
    file = path / RECORD
    if not file.is_file():
        inside = [entry.name for entry in checkpoints_in(path)] if path.is_dir() else []
        hint = f"; it is a directory of checkpoints, load {inside[-1]} in it" if inside else ""
        raise ValueError(f"{path}: expected a checkpoint, there is no {RECORD} in it{hint}")
    remedy = f"restore it, or delete {path}; {_before(path)}"
    record = read_json(file, remedy)
    version, known = record.get("version"), checkpoint_versions()
    if record.get("format") != FORMAT or isinstance(version, bool) or version not in known:
        raise ValueError(
            f"{file}: expected format {FORMAT!r}, version {' or '.join(map(str, known))}, got "
            f"{record.get('format')!r}, version {version!r}; load it with the "
            f"release of nnx-ppo-train that wrote it; if it is damaged, {_before(path)}"
        )
    if version > 3 or "checksum" in record:
        _check_own_checksum(file, record, remedy)
    if not _is_whole(record) or (version > 3 and not record.keys() >= _ENTRIES):
        raise ValueError(
            f"{file}: expected the entries leaves, files, steps_taken, config, callbacks and "
            f"metrics as they were written, got {', '.join(record)}; {remedy}"
        )
    return migrated_checkpoint(record)


def _is_whole(record: Mapping[str, Any]) -> bool:
    """Returns whether a record has the entries that it must have, of the right kinds."""
    steps, config = record.get("steps_taken"), record.get("config")
    return (
        type(steps) is int
        and steps >= 0
        and isinstance(record.get("files", {}), dict)
        and isinstance(record.get("callbacks", []), list)
        and isinstance(record.get("metrics", {}), dict)
        and (config is None or isinstance(config, dict))
        and are_descriptions(record.get("leaves"))
    )


def record_checksum(record: Mapping[str, Any]) -> str:
    """Checksum of a record's content, whatever the layout of its text."""
    content = {name: value for name, value in record.items() if name != "checksum"}
    return checksum(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def _check_own_checksum(file: Path, record: Mapping[str, Any], remedy: str) -> None:
    found, expected = record_checksum(record), record.get("checksum")
    if found != expected:
        raise ValueError(
            f"{file}: expected content with the checksum {expected!r} that it names, got "
            f"{found!r}: it was changed after it was written; {remedy}"
        )


def _before(path: Path) -> str:
    """Names the checkpoint before one that is damaged."""
    order = checkpoints_in(path.parent)
    earlier = order[: order.index(path)] if path in order else []
    return f"the one before is {earlier[-1].name}" if earlier else "there is none before it"


def described_files(path: Path) -> dict[str, dict[str, Any]]:
    """Size in bytes and checksum of every file of the arrays."""
    return {
        name: {"bytes": file.stat().st_size, "checksum": _file_checksum(file)}
        for name, file in _array_files(path).items()
    }


def _array_files(path: Path) -> dict[str, Path]:
    files = sorted(file for file in (path / ARRAYS).rglob("*") if file.is_file())
    return {file.relative_to(path).as_posix(): file for file in files}


def _file_checksum(file: Path) -> str:
    value = 0
    with file.open("rb") as stream:
        while chunk := stream.read(_READ_AT_ONCE):
            value = zlib.crc32(chunk, value)
    return f"{value:08x}"


def read_arrays(path: Path, record: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Reads the arrays of a checkpoint by the names of their leaves.

    Raises:
      ValueError: if files are missing or damaged; the message names the file or the leaf, and the
        checkpoint before.
    """
    leaves = record["leaves"]
    try:
        wanted = {name: empty(leaf) for name, leaf in leaves.items()}
        wanted = {name: array for name, array in wanted.items() if array.size}
        _check_files(path, record["files"])
        with ocp.StandardCheckpointer() as checkpointer:
            found = checkpointer.restore(path / ARRAYS, wanted)
        _check_arrays(found, leaves)
    except (KeyError, MemoryError, OSError, OverflowError, TypeError, ValueError) as error:
        reason = textwrap.shorten(str(error).partition(" [tensorstore_spec")[0], 300)
        raise ValueError(
            f"{path}: expected a whole checkpoint, got one that cannot be read ({reason}); "
            f"delete it, {_before(path)}"
        ) from error
    return {name: found.get(name, empty(leaf)) for name, leaf in leaves.items()}


def _check_files(path: Path, described: Mapping[str, Any]) -> None:
    """Raises ValueError if a file is not as it was written.

    Orbax would report that in threads of its own, or read other values.
    """
    found = _array_files(path)
    for name, file in described.items():
        if name not in found:
            raise ValueError(f"{name} is missing")
        size = found[name].stat().st_size
        if size != file["bytes"]:
            raise ValueError(f"{name} has {size} bytes instead of {file['bytes']}")
        if "checksum" in file and _file_checksum(found[name]) != file["checksum"]:
            raise ValueError(f"{name} was changed after it was written: its checksum differs")


def _check_arrays(arrays: Mapping[str, Any], leaves: Mapping[str, Any]) -> None:
    """Raises ValueError if an array is not the one that was to be saved."""
    for name, array in arrays.items():
        expected = leaves[name].get("checksum")
        if expected is not None and checksum(np.asarray(array)) != expected:
            raise ValueError(f"leaf {name} has other values than were saved: its checksum differs")
