"""Records as JSON-like data and back: what a field may hold is read off its annotation."""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .._declaration._hints import shown, which_name
from .._declaration._kinds import KINDS, kind_name
from .._declaration._plain import Items, plain, plain_items
from .._declaration._registry import activation_called, name_of_activation, names_of_class
from .._declaration._spec import Named, Unnamed

Record = TypeVar("Record")

_PLAIN = {bool: "a bool", int: "an int", float: "a float", str: "a str", type(None): "None"}


def encode_fields(record: Any, where: str, defaults: bool = False) -> dict[str, Any]:
    """Returns the fields of a record as JSON-like data, by name.

    Args:
      record: a frozen dataclass.
      where: its place, for errors.
      defaults: whether fields at their default are there, too.

    Raises:
      ValueError: if a field holds a function or module without a registered name.
      TypeError: if it holds something that no data stands for.

    Example:
      >>> from nnx_graph import Connection
      >>> encode_fields(Connection(src="a", dst="b", transform=Named("gru")), "here")
      {'src': 'a', 'dst': 'b', 'transform': 'gru'}
    """
    hints = _annotations(type(record))
    data = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if defaults or not (type(value) is type(field.default) and value == field.default):
            place = f"{where}.{field.name}"
            is_items = hints[field.name] == Items
            data[field.name] = encode_items(value, place) if is_items else _encode(value, place)
    return data


def encode_items(items: Items, where: str) -> dict[str, Any]:
    """Returns plain data by name as JSON-like data."""
    return {name: _as_lists(value) for name, value in plain_items(items, where)}


def decode_fields(kind: type[Record], data: Any, where: str) -> Record:
    """Returns the record of a kind with the given fields.

    Args:
      kind: a dataclass.
      data: JSON-like values by name; those that have a default may be missing.
      where: their place, for errors.

    Raises:
      TypeError: if ``data`` is no dict, or a value is of another type than its field.
      ValueError: if a field is unknown or missing, or a value is not what the field wants.

    Example:
      >>> from nnx_graph import Connection
      >>> decode_fields(Connection, {"src": "a", "dst": "b", "transform": "gru"}, "here").transform
      Named('gru')
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"{where}: expected a dict of fields, got {_described(data)}")
    hints = _annotations(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in data:
        if name not in fields:
            hint = which_name(name, fields)
            raise ValueError(f"{where}: expected the name of a field, got {shown(name)}; {hint}")
    for name, field in fields.items():
        required = field.default is field.default_factory is dataclasses.MISSING
        if required and name not in data:
            raise ValueError(
                f"{where}: expected the field {shown(name)}, got {sorted(data)}; add it"
            )
    values = {
        name: decode_value(hints[name], value, f"{where}.{name}") for name, value in data.items()
    }
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        same = TypeError if isinstance(error, TypeError) else ValueError
        raise same(f"{where}: {error}") from error


def decode_value(annotation: Any, value: Any, where: str) -> Any:
    """Returns what JSON-like data stand for in a field of the given annotation."""
    if annotation == Items:
        return plain_items(dict(value) if isinstance(value, Mapping) else value, where)
    choices = _choices(annotation)
    for choice in choices:
        matches, decode = _reader(choice)
        if matches(value):
            return decode(value, where)
    known = _known(*choices)
    if known and _has(value, "kind"):
        hint = which_name(value["kind"], known)
        raise ValueError(
            f"{where}: expected the kind of a record, got {shown(value['kind'])}; {hint}"
        )
    expected = " or ".join(dict.fromkeys(filter(None, map(_expected, choices))))
    raise TypeError(f"{where}: expected {expected}, got {_described(value)}; change the value")


def _encode(value: Any, where: str) -> Any:
    if isinstance(value, Named):
        options = encode_items(value.options, where)
        return {"name": value.name, "options": options} if options else value.name
    if isinstance(value, Unnamed):
        cure = (
            f"register_module('...', {value.class_name}) and declare it by that name"
            if not (names := names_of_class(value.class_name))
            else f"declare it by the name of its class, {where.rpartition('.')[2]}={names[0]!r}, "
            f"with options as Named({names[0]!r}, ...)"
        )
        raise ValueError(
            f"{where}: expected a module that has a name, got an instance of {value.class_name}; "
            f"{cure}"
        )
    kind = kind_name(value)
    if kind is not None:
        return {"kind": kind, **encode_fields(value, where)}
    if callable(value):
        name = name_of_activation(value)
        if name is None:
            raise ValueError(
                f"{where}: expected a function that has a name, got {shown(value)}; "
                "register_activation('...', function) before"
            )
        return name
    if isinstance(value, tuple):
        return [_encode(part, f"{where}[{place}]") for place, part in enumerate(value)]
    return _as_lists(plain(value, where))


def _as_lists(value: Any) -> Any:
    return list(map(_as_lists, value)) if isinstance(value, tuple) else value


@functools.cache
def _annotations(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; what is no union has one."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _reader(choice: Any) -> tuple[Callable[[Any], bool], Callable[[Any, str], Any]]:
    """Whether data stand for a value of this kind, and what they stand for."""
    if choice in _PLAIN:
        return lambda value: _is_plain(choice, value), plain if choice is not float else _float
    if typing.get_origin(choice) is tuple:
        return lambda value: isinstance(value, list | tuple), functools.partial(_tuple, choice)
    if typing.get_origin(choice) is Callable:
        return lambda value: isinstance(value, str) or callable(value), _activation
    if choice is Named:
        return lambda value: isinstance(value, str | Named) or _has(value, "name"), _named
    if typing.get_origin(choice) is typing.Literal:
        return lambda value: value in typing.get_args(choice), lambda value, _: value
    known = _known(choice)
    return (
        lambda value: (
            isinstance(value, choice)
            or (_has(value, "kind") and isinstance(value["kind"], str) and value["kind"] in known)
        ),
        _record,
    )


def _expected(choice: Any) -> str:
    """What to give for a value of this kind; "" where nothing can be given."""
    if choice in _PLAIN:
        return _PLAIN[choice]
    if typing.get_origin(choice) is tuple:
        return "a list"
    if typing.get_origin(choice) is Callable:
        return "the name of an activation"
    if choice is Named:
        return "the name of a module, or a dict of its name and options"
    if typing.get_origin(choice) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(choice)))
    names = " or ".join(map(repr, _known(choice)))
    return f"a dict with the kind {names}" if names else ""


def _known(*choices: Any) -> dict[str, type]:
    """The records among the choices, by kind."""
    classes = tuple(choice for choice in choices if isinstance(choice, type))
    return {name: kind for name, kind in KINDS.items() if issubclass(kind, classes)}


def _is_plain(choice: type, value: Any) -> bool:
    """Whether a value, or the NumPy scalar that it is, is of a plain type."""
    if getattr(value, "shape", None) == ():
        value = value.item()
    if choice is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    return type(value) is choice or (choice is str and isinstance(value, str))


def _has(value: Any, key: str) -> bool:
    return isinstance(value, Mapping) and key in value


def _float(value: Any, where: str) -> float:
    return float(plain(value, where))  # type: ignore[arg-type]


def _tuple(choice: Any, value: Any, where: str) -> tuple[Any, ...]:
    arguments = typing.get_args(choice)
    if arguments[-1] is Ellipsis:
        arguments = arguments[:1] * len(value)
    if len(arguments) != len(value):
        raise ValueError(
            f"{where}: expected {len(arguments)} values, got {len(value)}: {shown(value)}"
        )
    return tuple(
        decode_value(argument, part, f"{where}[{place}]")
        for place, (argument, part) in enumerate(zip(arguments, value, strict=True))
    )


def _activation(value: Any, where: str) -> Any:
    return activation_called(value, where) if isinstance(value, str) else value


def _named(value: Any, where: str) -> Named:
    if isinstance(value, Mapping):
        for key in value:
            if key not in ("name", "options"):
                hint = which_name(key, ("name", "options"))
                raise ValueError(
                    f"{where}: expected 'name' and 'options', got {shown(key)}; {hint}"
                )
        name = decode_value(str, value["name"], f"{where}.name")
        options = plain_items(value.get("options", {}), f"{where}.options")
        value = Named(name, **dict(options))
    return value if isinstance(value, Named) else Named(value)


def _record(value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        return value
    fields = dict(value)
    return decode_fields(KINDS[fields.pop("kind")], fields, where)


def _described(value: Any) -> str:
    return f"{shown(value)} of type {type(value).__name__}"
