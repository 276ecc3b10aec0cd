"""What a run folder's config.json says: all that is needed to do the run again."""

import dataclasses
import datetime
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

from .._config import TrainConfig
from .._config_json import config_from_json, config_to_json, read_json
from .._validate import instance
from ..presets import NetworkOptions

FORMAT = "nnx-ppo run"
VERSION = 1
_DISTRIBUTIONS = ("nnx-ppo-train", "nnx-graph", "nnx-stateful", "jax", "jaxlib", "flax", "optax")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A run.

    Attributes:
      env: name of the environment, as ``--env`` takes it.
      network: name of the network, as ``--network`` takes it.
      net: options of the network.
      train: the training config.
      import_path: folders from which modules of the user's own are imported.
    """

    env: str
    network: str
    net: NetworkOptions = dataclasses.field(default_factory=NetworkOptions)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    import_path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        instance(self, "env", str, "'cartpole'")
        instance(self, "network", str, "'graph'")


def write_run_config(file: Path, run: RunConfig, command: list[str]) -> None:
    """Writes config.json: format, run, command, versions and time."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        **config_to_json(run),
        "command": command,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: importlib.metadata.version(name) for name in _DISTRIBUTIONS},
    }
    _write(file, record)


def read_run_config(file: Path) -> RunConfig:
    """Reads config.json.

    Raises:
      ValueError: if it is of another format, or has unknown fields or illegal values.
    """
    record = _read(file)
    if record.get("format") != FORMAT or record.get("version") != VERSION:
        raise ValueError(
            f"{file}: expected format {FORMAT!r}, version {VERSION}, got "
            f"{record.get('format')!r}, version {record.get('version')!r}; use the "
            "release of nnx-ppo-train that wrote it"
        )
    names = {field.name for field in dataclasses.fields(RunConfig)}
    return config_from_json(
        RunConfig, {name: value for name, value in record.items() if name in names}, str(file)
    )


def update_run_config(file: Path, run: RunConfig) -> None:
    """Replaces the run in config.json and keeps the rest."""
    _write(file, _read(file) | config_to_json(run))


def _read(file: Path) -> dict[str, Any]:
    return read_json(file, "restore it from a copy, or train anew into another folder")


def _write(file: Path, record: dict[str, Any]) -> None:
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(record, indent=2) + "\n")
    unfinished.replace(file)
