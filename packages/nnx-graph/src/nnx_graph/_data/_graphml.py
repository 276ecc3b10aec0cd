"""Declarations in GraphML files, through networkx."""

import dataclasses
import json
import os
import re
from collections.abc import Set
from typing import Any

from .._declaration._spec import Connection, GraphSpec, Population
from ._networkx import import_networkx, spec_from_networkx, spec_to_networkx

_JSON = "json:"  # begins what GraphML's own types cannot hold
_NO_TEXT = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that XML does not have, or may not give back as it was."""


def write_graphml(spec: GraphSpec, path: str | os.PathLike[str]) -> None:
    """Writes a declaration to a GraphML file, which Cytoscape, Gephi or yEd open.

    Nodes and edges have the attributes of :func:`spec_to_networkx`. None is left out where it is a
    field; what is neither number, bool nor ordinary text is written as JSON behind ``json:``. The
    id of an edge is the name of the connection.

    Args:
      spec: the declaration.
      path: of the file, which is overwritten; compressed if it ends in ``.gz``.

    Raises:
      ImportError: without networkx.
      ValueError: if a name has characters that XML lacks, or an attribute of the graph is called
        "id"; see also :func:`spec_to_networkx`.

    Example:
      >>> import tempfile
      >>> from nnx_graph import Population
      >>> spec = GraphSpec((Population(name="a", size=2, output_to="y"),), ())
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     write_graphml(spec, f"{folder}/a.graphml")
      ...     read_graphml(f"{folder}/a.graphml") == spec
      True
    """
    owner = "write_graphml"
    networkx = import_networkx(owner)
    graph = spec_to_networkx(spec)
    if "id" in graph.graph:
        raise ValueError(
            f"{owner}: attributes: expected other names, got 'id', which GraphML gives a meaning; "
            "rename the attribute"
        )
    file = networkx.MultiDiGraph()
    file.graph.update(_to_scalars(graph.graph, frozenset(), f"{owner}: attributes"))
    for name, data in graph.nodes(data=True):
        _check_text(f"{owner}: the name of a population", name)
        file.add_node(name)
        where = f"{owner}: nodes[{name!r}]"
        file.nodes[name].update(_to_scalars(data, _optional(Population), where))
    for connection in spec.connections:
        ends, key = (connection.src, connection.dst), connection.name
        data = graph.edges[(*ends, connection.index)]
        file.add_edge(*ends, key)
        where = f"{owner}: edges[{key!r}]"
        file.edges[(*ends, key)].update(_to_scalars(data, _optional(Connection), where))
    networkx.write_graphml(file, os.fspath(path))


def read_graphml(path: str | os.PathLike[str]) -> GraphSpec:
    """Returns the declaration in a GraphML file.

    For files of other origin, whose nodes have no size, hand what ``networkx.read_graphml``
    returns to :func:`spec_from_networkx`, with the sizes to take.

    Args:
      path: of the file.

    Raises:
      ImportError: without networkx.
      ValueError, TypeError: see :func:`spec_from_networkx`.
    """
    networkx = import_networkx("read_graphml")
    graph = networkx.read_graphml(os.fspath(path), force_multigraph=True)
    places = [("attributes", graph.graph)]
    places += [(f"nodes[{node!r}]", data) for node, data in graph.nodes(data=True)]
    places += [(f"edges[{key!r}]", data) for *_, key, data in graph.edges(keys=True, data=True)]
    for where, data in places:
        for name, value in data.items():
            data[name] = _from_scalar(value, f"read_graphml: {where}.{name}")
    return spec_from_networkx(graph)


def _to_scalars(data: dict[str, Any], optional: Set[str], where: str) -> dict[str, Any]:
    """Attributes as GraphML has them; None is left out where that is the default of a field."""
    for name in data:
        _check_text(f"{where}: the name of an attribute", name)
    return {
        name: value if _is_scalar(value) else _JSON + json.dumps(value, allow_nan=False)
        for name, value in data.items()
        if not (value is None and name in optional)
    }


def _optional(kind: type[Population] | type[Connection]) -> frozenset[str]:
    """The fields that are None by default."""
    return frozenset(field.name for field in dataclasses.fields(kind) if field.default is None)


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value) and not value.startswith(_JSON) and not _NO_TEXT.search(value)
    return isinstance(value, bool | int | float)


def _from_scalar(value: Any, where: str) -> Any:
    if not (isinstance(value, str) and value.startswith(_JSON)):
        return value
    try:
        return json.loads(value.removeprefix(_JSON))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{where}: expected JSON behind {_JSON!r}, got {value!r}: {error}"
        ) from error


def _check_text(what: str, name: str) -> None:
    found = _NO_TEXT.search(name)
    if not name or found:
        raise ValueError(
            f"{what}: expected characters that XML has, got {name!r}; rename it, or write JSON"
        )
