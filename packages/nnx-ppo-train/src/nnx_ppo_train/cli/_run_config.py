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
from .._migrations import RUN_VERSION, migrated_run, run_versions
from .._validate import instance
from ..presets import NetworkOptions
from ._errors import one_line

FORMAT = "nnx-ppo run"
ENDED = "ended"
_REMEDY = "restore it from a copy, or train anew into another folder"
_DISTRIBUTIONS = ("nnx-ppo-train", "nnx-graph", "nnx-stateful", "jax", "jaxlib", "flax", "optax")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A run.

    Attributes:
      env: name of the environment, as ``--env`` takes it.
      network: name of the network, as ``--network`` takes it.
      net: options of a built-in network, None for the default ones; a network of the user's own
        has none.
      train: the training config.
      import_path: folders from which modules of the user's own are imported.
      init_from: checkpoint of another run whose parameters this one began with, or None.
      init_take: patterns of the parameters that were taken from it.
      init_freeze: patterns of the parameters that are not trained.
    """

    env: str
    network: str
    net: NetworkOptions | None = None
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    import_path: tuple[str, ...] = ()
    init_from: str | None = None
    init_take: tuple[str, ...] = ("*",)
    init_freeze: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        instance(self, "env", str, "'cartpole'")
        instance(self, "network", str, "'graph'")
        instance(self, "init_from", str, "'runs/a/checkpoints/step_0000000064'", optional=True)
        for name in ("import_path", "init_take", "init_freeze"):
            instance(self, name, tuple, "('a', 'b')")
            if not all(isinstance(word, str) for word in getattr(self, name)):
                raise TypeError(f"RunConfig.{name}: expected words, got {getattr(self, name)!r}")

    @property
    def is_own_network(self) -> bool:
        """Whether the network comes from a factory of the user's own."""
        return ":" in self.network


def write_run_config(file: Path, run: RunConfig, command: list[str]) -> None:
    """Writes config.json: format, run, command, versions and time."""
    record = {
        "format": FORMAT,
        "version": RUN_VERSION,
        **_run_to_json(run),
        "command": command,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: importlib.metadata.version(name) for name in _DISTRIBUTIONS},
    }
    _write(file, record)


def read_run_config(file: Path) -> RunConfig:
    """Reads config.json; fields that an older one lacks mean what its version did.

    Raises:
      ValueError: if it is of another format, or has unknown fields or illegal values.
    """
    record = _migrated(file, _read(file))
    names = {field.name for field in dataclasses.fields(RunConfig)}
    fields = {name: value for name, value in record.items() if name in names}
    if ":" in str(fields.get("network")):
        fields.pop("net", None)  # earlier versions noted down what such a network ignores
    try:
        return config_from_json(RunConfig, fields, str(file))
    except (AttributeError, KeyError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{file}: expected fields as they were written, got others ({one_line(error)}); "
            f"{_REMEDY}"
        ) from error


def update_run_config(file: Path, run: RunConfig) -> None:
    """Replaces the run in config.json and keeps the rest, but for how the run ended."""
    record = {**_read(file), "version": RUN_VERSION}
    for name in (ENDED, "net"):
        record.pop(name, None)
    _write(file, record | _run_to_json(run))


def note_end(file: Path, steps: int, stopped_by: str) -> None:
    """Notes down that a run ended before its last step, for good, and why."""
    _write(file, _read(file) | {ENDED: {"steps": steps, "stopped_by": stopped_by}})


def read_end(file: Path) -> tuple[int, str] | None:
    """Returns the step at which a run ended before its last one, and why; None if it did not."""
    ended = _read(file).get(ENDED)
    if not isinstance(ended, dict) or not isinstance(ended.get("steps"), int):
        return None
    return ended["steps"], str(ended.get("stopped_by"))


def _run_to_json(run: RunConfig) -> dict[str, Any]:
    record = config_to_json(run)
    if run.net is None:
        del record["net"]
    return record


def _migrated(file: Path, record: dict[str, Any]) -> dict[str, Any]:
    if record.get("format") != FORMAT or record.get("version") not in run_versions():
        newest = max(run_versions())
        raise ValueError(
            f"{file}: expected format {FORMAT!r}, version {newest} or an earlier one, got "
            f"{record.get('format')!r}, version {record.get('version')!r}; use the "
            "release of nnx-ppo-train that wrote it"
        )
    return migrated_run(record)


def _read(file: Path) -> dict[str, Any]:
    try:
        return read_json(file, _REMEDY)
    except RecursionError as error:
        raise ValueError(
            f"{file}: expected a JSON object as it was written, got one that is nested too deeply; "
            f"{_REMEDY}"
        ) from error


def _write(file: Path, record: dict[str, Any]) -> None:
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(record, indent=2) + "\n")
    unfinished.replace(file)
