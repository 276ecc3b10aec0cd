"""Declarations as plain dicts and as JSON, and back."""

import json
from collections.abc import Mapping
from typing import Any

from .._declaration._check_spec import check_is_spec, check_spec
from .._declaration._hints import shown, which_name
from .._declaration._limits import Limits, check_limits, checked_limits
from .._declaration._plain import plain_items
from .._declaration._spec import Connection, GraphSpec, Population
from ._codec import decode_fields, encode_fields, encode_items
from ._json import parse_json

FORMAT, VERSION = "nnx-graph", 1
"""What a written declaration says of itself."""


def spec_to_dict(spec: GraphSpec) -> dict[str, Any]:
    """Returns a declaration as a dict of dicts, lists, strings, numbers, bools and None.

    Fields that have their default are left out. Activations and modules are written by the names
    under which they are registered.

    Args:
      spec: the declaration, of a graph that is finalized or not.

    Returns:
      ``{"format": "nnx-graph", "version": 1, "populations": [...], "connections": [...]}``, each
      population and connection a dict of its fields, in the order of declaration.

    Raises:
      ValueError: if an activation or module has no name, or the declaration is none that calls
        could have made.
      TypeError: if a field is of another type than it should be.

    Example:
      >>> import jax.numpy as jnp
      >>> spec = GraphSpec(
      ...     (
      ...         Population(name="a", size=2, input_from="x", activation=jnp.tanh),
      ...         Population(name="b", size=1, output_to="y"),
      ...     ),
      ...     (Connection(src="a", dst="b", delay=3),),
      ... )
      >>> data = spec_to_dict(spec)
      >>> data["populations"][0]
      {'name': 'a', 'size': 2, 'activation': 'tanh', 'input_from': 'x'}
      >>> data["connections"]
      [{'src': 'a', 'dst': 'b', 'delay': 3}]
      >>> spec_from_dict(data) == spec
      True
    """
    owner = "spec_to_dict"
    check_is_spec(owner, spec)
    populations = [f"{owner}: populations[{shown(p.name)}]" for p in spec.populations]
    connections = [f"{owner}: connections[{shown(c.name)}]" for c in spec.connections]
    check_spec(spec, populations, connections)
    about = encode_items(spec.attributes, f"{owner}: attributes")
    return {
        "format": FORMAT,
        "version": VERSION,
        **({"attributes": about} if about else {}),
        "populations": list(map(encode_fields, spec.populations, populations)),
        "connections": list(map(encode_fields, spec.connections, connections)),
    }


def spec_from_dict(data: Mapping[str, Any], *, limits: Limits | None = None) -> GraphSpec:
    """Returns the declaration that :func:`spec_to_dict` wrote, or that was written by hand.

    A connection without ``index`` is the next parallel one of those before it.

    Args:
      data: as :func:`spec_to_dict` describes; fields that have a default may be missing.
      limits: see :class:`Limits`; None for the default ones.

    Raises:
      TypeError: if a value is of another type than it should be.
      ValueError: if format or version are others, a field is unknown or missing, a name is unknown
        or there twice, a value is out of range, or a limit is exceeded. The message says where, for
        example ``connections[3].delay``.
    """
    owner = "spec_from_dict"
    limits = checked_limits(owner, limits)
    if not isinstance(data, Mapping):
        raise TypeError(
            f"{owner}: expected a dict, got {type(data).__name__}; for JSON, use spec_from_json"
        )
    check_version(owner, data.get("format"), data.get("version"))
    for name in data:
        known = ("format", "version", "attributes", "populations", "connections")
        if name not in known:
            hint = which_name(name, known)
            raise ValueError(f"{owner}: expected the name of a field, got {shown(name)}; {hint}")
    items = _list(owner, data, "populations")
    limits.check(owner, "max_populations", len(items))
    populations = [f"{owner}: populations[{place}]" for place in range(len(items))]
    declared = tuple(map(decode_fields, [Population] * len(items), items, populations))
    items = _list(owner, data, "connections")
    limits.check(owner, "max_connections", len(items))
    connections = [f"{owner}: connections[{place}]" for place in range(len(items))]
    connected = tuple(map(decode_fields, [Connection] * len(items), _indexed(items), connections))
    attributes = plain_items(data.get("attributes", {}), f"{owner}: attributes")
    spec = GraphSpec(declared, connected, attributes)
    check_spec(spec, populations, connections)
    check_limits(owner, spec, limits)
    return spec


def spec_to_json(spec: GraphSpec, indent: int | None = 2) -> str:
    """Returns a declaration as JSON, equal for equal declarations.

    Args:
      spec: see :func:`spec_to_dict`.
      indent: spaces for each level; None for a single line.

    Raises:
      ValueError, TypeError: see :func:`spec_to_dict`.

    Example:
      >>> spec = GraphSpec((Population(name="a", size=2, output_to="y"),), ())
      >>> print(spec_to_json(spec))
      {
        "format": "nnx-graph",
        "version": 1,
        "populations": [
          {
            "name": "a",
            "size": 2,
            "output_to": "y"
          }
        ],
        "connections": []
      }
    """
    return json.dumps(spec_to_dict(spec), indent=indent, allow_nan=False)


def spec_from_json(text: str, *, limits: Limits | None = None) -> GraphSpec:
    """Returns the declaration that JSON describes.

    Args:
      text: the JSON itself; for a file, ``Path(...).read_text()``.
      limits: see :class:`Limits`; None for the default ones.

    Raises:
      TypeError: if ``text`` is no str; see also :func:`spec_from_dict`.
      ValueError: if it is no JSON, or an object has a key twice, or a limit is exceeded; see also
        :func:`spec_from_dict`.

    Example:
      >>> spec = GraphSpec((Population(name="a", size=2, output_to="y"),), ())
      >>> spec_from_json(spec_to_json(spec)) == spec
      True
    """
    owner = "spec_from_json"
    if not isinstance(text, str):
        raise TypeError(
            f"{owner}: expected JSON as a str, got {type(text).__name__}; for a file, pass "
            "path.read_text()"
        )
    limits = checked_limits(owner, limits)
    limits.check(f"{owner}: text", "max_file_bytes", len(text))
    return spec_from_dict(parse_json(owner, text, "for a file, pass its text"), limits=limits)


def check_version(owner: str, format_name: Any, version: Any) -> None:
    """Raises unless what describes a graph says that it is of this format and version."""
    if not isinstance(format_name, str) or format_name != FORMAT:
        raise ValueError(
            f"{owner}: format: expected {shown(FORMAT)}, got {shown(format_name)}; pass what "
            "spec_to_dict returned, or add the field"
        )
    if type(version) is not int or version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        cure = "update nnx-graph" if newer else f'write "version": {VERSION}'
        raise ValueError(f"{owner}: version: expected {VERSION}, got {shown(version)}; {cure}")


def _list(owner: str, data: Mapping[str, Any], name: str) -> list[Any]:
    items = data.get(name)
    if not isinstance(items, list | tuple):
        raise TypeError(
            f"{owner}: {name}: expected a list of dicts, got {shown(items)} of type "
            f"{type(items).__name__}; give one for each"
        )
    return list(items)


def _indexed(items: list[Any]) -> list[Any]:
    """Numbers parallel connections that bear no number; leaves alone what is malformed."""
    counts: dict[Any, int] = {}
    indexed = []
    for item in items:
        if isinstance(item, Mapping):
            ends = item.get("src"), item.get("dst")
            if all(isinstance(end, str) for end in ends):
                item = {"index": counts.get(ends, 0), **item}
                counts[ends] = counts.get(ends, 0) + 1
        indexed.append(item)
    return indexed
