"""The files of a checkpoint: found, read, and refused with a remedy where they are damaged."""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp

from ._checkpoint_leaves import are_descriptions, empty
from ._config_json import read_json

FORMAT = "nnx-ppo-train checkpoint"
VERSION = 3
ARRAYS, RECORD = "arrays", "checkpoint.json"


def checkpoints_in(directory: Path) -> list[Path]:
    """The complete checkpoints in a directory, oldest first."""
    found = [path for path in directory.glob("step_*") if (path / RECORD).is_file()]
    return sorted((path for path in found if path.name[5:].isdigit()), key=step_of)


def step_of(path: Path) -> int:
    """The number of steps that a checkpoint's name says."""
    return int(path.name.removeprefix("step_"))


def read_record(path: Path) -> dict[str, Any]:
    """Reads what JSON notes down of a checkpoint.

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
    if record.get("format") != FORMAT or record.get("version") != VERSION:
        raise ValueError(
            f"{file}: expected format {FORMAT!r}, version {VERSION}, got "
            f"{record.get('format')!r}, version {record.get('version')!r}; load it with the "
            "release of nnx-ppo-train that wrote it"
        )
    whole = isinstance(record.get("steps_taken"), int) and isinstance(record.get("files", {}), dict)
    if not whole or not are_descriptions(record.get("leaves")):
        raise ValueError(
            f"{file}: expected the entries leaves, files and steps_taken as they were written, "
            f"got {', '.join(record)}; {remedy}"
        )
    return record


def _before(path: Path) -> str:
    """Names the checkpoint before one that is damaged."""
    order = checkpoints_in(path.parent)
    earlier = order[: order.index(path)] if path in order else []
    return f"the one before is {earlier[-1].name}" if earlier else "there is none before it"


def file_sizes(path: Path) -> dict[str, int]:
    """The size in bytes of every file of the arrays."""
    files = sorted(file for file in (path / ARRAYS).rglob("*") if file.is_file())
    return {file.relative_to(path).as_posix(): file.stat().st_size for file in files}


def read_arrays(path: Path, record: dict[str, Any]) -> dict[str, np.ndarray]:
    """Reads the arrays of a checkpoint by the names of their leaves.

    Raises:
      ValueError: if files are missing or damaged.
    """
    leaves = record["leaves"]
    wanted = {}
    for name, leaf in leaves.items():
        array = empty(leaf)
        if array.size:
            wanted[name] = array
    try:
        _check_files(path, record.get("files", {}))  # none in early checkpoints
        with ocp.StandardCheckpointer() as checkpointer:
            found = checkpointer.restore(path / ARRAYS, wanted)
    except (KeyError, OSError, TypeError, ValueError) as error:
        reason = textwrap.shorten(str(error).partition(" [tensorstore_spec")[0], 300)
        raise ValueError(
            f"{path}: expected a whole checkpoint, got one that cannot be read ({reason}); "
            f"delete it, {_before(path)}"
        ) from error
    return {name: found.get(name, empty(leaf)) for name, leaf in leaves.items()}


def _check_files(path: Path, sizes: dict[str, int]) -> None:
    """Raises ValueError if a file is missing or cut: Orbax reports that in threads of its own."""
    found = file_sizes(path)
    for name, size in sizes.items():
        if name not in found:
            raise ValueError(f"{name} is missing")
        if found[name] != size:
            raise ValueError(f"{name} has {found[name]} bytes instead of {size}")
