"""Migrations of records that earlier versions wrote: checkpoints and configs of runs.

A field that a config lacks means what that version did, not what is the default today: old runs go
on as they began. To add a field whose default changes what runs do, add a line to
:data:`_NEW_FIELDS`; to change the format of checkpoints, raise :data:`CHECKPOINT_VERSION` and add
a step to :data:`_STEPS`.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

CHECKPOINT_VERSION = 5
RUN_VERSION = 3

_OF_RUNS = {1: 3, 2: 4, 3: 5}
"""Version of checkpoints by the version of config.json that the same releases wrote."""

_NEW_FIELDS: dict[int, dict[str, Any]] = {
    4: {
        "ppo.nonfinite": "ignore",
        "ppo.weight_decay_mask": "all",
        "checkpoint_every_minutes": None,
    },
    5: {"ppo.normalize_values": False},
}
"""By version of checkpoints: fields of TrainConfig that came with it, and what was done before."""


def migrated_config(config: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Returns the JSON of a TrainConfig with what later versions added, as the old one behaved.

    Args:
      config: the JSON object as it was written; left as it is.
      version: version of checkpoints at that time.

    Example:
      >>> migrated_config({"ppo": {"n_envs": 8}}, 3)["ppo"]["nonfinite"]
      'ignore'
    """
    migrated = copy.deepcopy(dict(config))
    for introduced, fields in sorted(_NEW_FIELDS.items()):
        for path, before in fields.items() if introduced > version else ():
            *groups, name = path.split(".")
            place: Any = migrated
            for group in groups:
                place = place.setdefault(group, {}) if isinstance(place, dict) else None
            if isinstance(place, dict):  # else malformed, which reading the config reports
                place.setdefault(name, before)
    return migrated


def migrated_run(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the record of a config.json of this or an earlier version as one of this version.

    Args:
      record: the JSON object as it was written; left as it is. Its "version" must be in
        :func:`run_versions`.

    Example:
      >>> migrated_run({"version": 1, "train": {}})["train"]["checkpoint_every_minutes"] is None
      True
    """
    train = record.get("train", {})
    if isinstance(train, Mapping):
        train = migrated_config(train, _OF_RUNS[record["version"]])
    return {**record, "version": RUN_VERSION, "train": train}


def run_versions() -> tuple[int, ...]:
    """Versions of config.json that can be read."""
    return tuple(_OF_RUNS)


def checkpoint_versions() -> tuple[int, ...]:
    """Versions of checkpoints that can be read."""
    return (*_STEPS, CHECKPOINT_VERSION)


def migrated_checkpoint(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the record of a checkpoint of this or an earlier version as one of this version.

    Args:
      record: the content of checkpoint.json; left as it is. Its "version" must be in
        :func:`checkpoint_versions`.

    Returns:
      The record; "written_as" in it is the version that it was written with.
    """
    migrated = dict(record)
    for version in range(record["version"], CHECKPOINT_VERSION):
        migrated = _STEPS[version](migrated)
    if isinstance(migrated.get("config"), Mapping):
        migrated["config"] = migrated_config(migrated["config"], record["version"])
    return {**migrated, "version": CHECKPOINT_VERSION, "written_as": record["version"]}


def _from_version_3(record: dict[str, Any]) -> dict[str, Any]:
    """Version 4 brought checksums, states of callbacks, and metrics."""
    sizes = record.get("files", {})  # none in the first checkpoints of version 3
    files = {name: {"bytes": size} for name, size in sizes.items()}
    return {"config": None, **record, "files": files, "callbacks": [], "metrics": {}}


_STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    3: _from_version_3,
    4: dict,  # version 5 brought fields of the config alone
}
"""By version of checkpoints: what turns its record into one of the next version."""


def stand_ins(
    saved: Iterable[str], wanted: Iterable[str], written_as: int
) -> dict[str, str | None]:
    """Returns what stands for leaves that checkpoints of an earlier version do not have.

    Args:
      saved: names of the leaves in the checkpoint.
      wanted: names of the leaves of a state of today.
      written_as: version of the checkpoint.

    Returns:
      By the name of a leaf the name of the saved one that it equals, or None for zeros.

    Example:
      >>> stand_ins(["0/mean/value"], ["0/mean_low/value"], 3)
      {'0/mean_low/value': None}
    """
    if written_as >= 4:
        return {}
    present = set(saved)
    absent = [name for name in wanted if name not in present]
    found: dict[str, str | None] = {}
    for name in absent:
        high = "/".join(part.removesuffix("_low") for part in name.split("/"))
        if high != name and high in present:
            found[name] = None  # low-order words of statistics, which were plain float32 before
        elif name == "schedules/coming_scale" and "schedules/learning_rate_scale" in present:
            found[name] = "schedules/learning_rate_scale"
    return found
