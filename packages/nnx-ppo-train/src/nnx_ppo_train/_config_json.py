"""Configs as JSON and back, and JSON files that may be damaged."""

import dataclasses
import difflib
import enum
import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

Record = TypeVar("Record")

_FUNCTION = "schedule"  # the first functions that configs had


def config_to_json(config: Any) -> Any:
    """Turns a config into what JSON can hold.

    Args:
      config: a frozen dataclass of numbers, strings, flags, tuples, dicts, schedules and further
        dataclasses.

    Returns:
      Dicts, lists, strings and numbers; flags by name, several joined by "|"; of a function, such
      as a schedule, its name alone, which :func:`config_from_json` refuses.

    Example:
      >>> from nnx_ppo_train import EvalConfig
      >>> config_to_json(EvalConfig(n_envs=8))["logging_level"]
      'NONE'
    """
    if dataclasses.is_dataclass(config):
        fields = dataclasses.fields(config)
        return {field.name: config_to_json(getattr(config, field.name)) for field in fields}
    if isinstance(config, enum.Flag):
        return flag_to_text(config)
    if isinstance(config, Mapping):
        return {str(key): config_to_json(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [config_to_json(value) for value in config]
    if callable(config):  # to be read by people, nothing rebuilds it
        return {_FUNCTION: getattr(config, "__qualname__", type(config).__name__)}
    return config


def config_from_json(kind: type[Record], data: Any, where: str) -> Record:
    """Rebuilds a config from what :func:`config_to_json` made; fields that lack keep defaults.

    Args:
      kind: the config's class.
      data: a dict of its fields.
      where: what to call it in errors.

    Raises:
      TypeError: if ``data`` is no dict.
      ValueError: if a field is unknown, its value illegal, or a function, of which only the name
        is known.

    Example:
      >>> from nnx_ppo_train import PPOConfig
      >>> config_from_json(PPOConfig, config_to_json(PPOConfig()), "ppo") == PPOConfig()
      True
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"{where}: expected an object with fields, got {data!r}")
    hints = typing.get_type_hints(kind)
    for name in data:
        if name not in hints:
            near = difflib.get_close_matches(name, hints, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(hints)}"
            raise ValueError(f"{where}: {kind.__name__} has no field {name!r}{hint}")
    return kind(
        **{name: _value(hints[name], value, f"{where}.{name}") for name, value in data.items()}
    )


def read_json(file: Path, remedy: str) -> dict[str, Any]:
    """Reads a file that holds one JSON object.

    Args:
      file: the file.
      remedy: what to do when it is damaged, for the message.

    Raises:
      ValueError: if it cannot be read, or holds something else.
    """
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{file}: expected a JSON object, got text that is none ({error}); {remedy}"
        ) from error
    if not isinstance(record, dict):
        kind = type(record).__name__
        raise ValueError(f"{file}: expected a JSON object, got a {kind}; {remedy}")
    return record


def flag_to_text(flag: enum.Flag) -> str:
    """Name of a flag; several are joined by "|"."""
    if flag.name is not None and "|" not in flag.name:
        return flag.name
    return "|".join(member.name or "" for member in type(flag) if member in flag)


def flag_from_text(kind: type[Record], text: str, where: str) -> Record:
    """Reads a flag, or several joined by "|" or ",".

    Raises:
      ValueError: if there is no flag of such a name.
    """
    members: Mapping[str, Any] = getattr(kind, "__members__")  # noqa: B009 - Record is an enum
    flag = kind(0)  # type: ignore[call-arg]
    for name in text.replace(",", "|").split("|"):
        if name.strip().upper() not in members:
            raise ValueError(
                f"{where}: expected {', '.join(members)}, or several joined by ',', got {name!r}"
            )
        flag |= members[name.strip().upper()]
    return flag


def _value(hint: Any, value: Any, where: str) -> Any:
    if isinstance(value, Mapping) and isinstance(value.get(_FUNCTION), str):
        raise ValueError(
            f"{where}: expected a value, got the name of a function, {value[_FUNCTION]!r}, which "
            "cannot be rebuilt from JSON; build the config in Python as it was, and pass it"
        )
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for kind in kinds:
        if dataclasses.is_dataclass(kind):
            return config_from_json(typing.cast(type, kind), value, where)
        if isinstance(kind, type) and issubclass(kind, enum.Flag):
            return flag_from_text(kind, typing.cast(str, value), where)
        if typing.get_origin(kind) is tuple and isinstance(value, list):
            return tuple(value)
    return value
