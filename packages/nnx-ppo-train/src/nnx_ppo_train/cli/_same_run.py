"""Settings of a run compared with those of the command line, for ``--resume-if-exists``."""

from pathlib import Path
from typing import Any

from .._config_json import config_to_json
from ._errors import UsageError
from ._run_config import RunConfig

FREE = (
    "import_path",
    "train.ppo.total_steps",
    "train.ppo.logging_level",
    "train.ppo.logging_percentiles",
    "train.eval.logging_level",
    "train.eval.logging_percentiles",
)
"""What may differ: none of it changes what an iteration computes."""


def check_same(path: Path, saved: RunConfig, wanted: RunConfig) -> None:
    """Raises UsageError if the settings of a run are not those that are wanted.

    Args:
      path: the run folder.
      saved: the run in it.
      wanted: what the command line says.
    """
    before, now = _fields(saved), _fields(wanted)
    differing = [
        f"{_flag(name)} (the run has {before.get(name)!r}, got {now.get(name)!r})"
        for name in sorted(before.keys() | now.keys())
        if name not in FREE and before.get(name) != now.get(name)
    ]
    if differing:
        raise UsageError(
            f"--run-dir {path}: expected the settings of the run in it, got others: "
            f"{', '.join(differing)}; give those of the run, or choose another --run-dir"
        )


def _fields(run: RunConfig) -> dict[str, Any]:
    """Every setting by its path, as JSON has it."""
    found: dict[str, Any] = {}

    def collect(value: Any, path: str) -> None:
        if isinstance(value, dict) and value:
            for name, part in value.items():
                collect(part, f"{path}.{name}" if path else name)
        else:
            found[path] = value

    collect(config_to_json(run), "")
    if run.init_from is not None:  # the other run may have saved newer ones since
        found["init_from"] = str(Path(run.init_from).parent)
    return found


def _flag(path: str) -> str:
    return f"--{path.removeprefix('train.').replace('_', '-')}"
