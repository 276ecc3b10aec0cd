"""Declarations in GraphML files, through networkx."""

import dataclasses
import io
import json
import os
import re
from collections.abc import Set
from typing import Any

from .._declaration._hints import shown
from .._declaration._limits import Limits, checked_limits
from .._declaration._spec import Connection, GraphSpec, Population
from ._files import check_graphml, read_file
from ._json import parse_json
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
        where = f"{owner}: nodes[{shown(name)}]"
        file.nodes[name].update(_to_scalars(data, _optional(Population), where))
    for connection in spec.connections:
        ends, key = (connection.src, connection.dst), connection.name
        data = graph.edges[(*ends, connection.index)]
        file.add_edge(*ends, key)
        where = f"{owner}: edges[{shown(key)}]"
        file.edges[(*ends, key)].update(_to_scalars(data, _optional(Connection), where))
    networkx.write_graphml(file, os.fspath(path))


def read_graphml(path: str | os.PathLike[str], *, limits: Limits | None = None) -> GraphSpec:
    """Returns the declaration in a GraphML file.

    For files of other origin, whose nodes have no size, hand what ``networkx.read_graphml``
    returns to :func:`spec_from_networkx`, with the sizes to take.

    Args:
      path: of the file; one that ends in ``.gz`` or ``.bz2`` is decompressed.
      limits: see :class:`Limits`; None for the default ones.

    Raises:
      ImportError: without networkx.
      OSError: if the file cannot be read, for example FileNotFoundError.
      ValueError: if it is no GraphML, declares entities, has an id twice, or exceeds a limit; see
        also :func:`spec_from_networkx`.
      TypeError: if ``path`` is no path; see also :func:`spec_from_networkx`.
    """
    owner = "read_graphml"
    networkx = import_networkx(owner)
    limits = checked_limits(owner, limits)
    content = read_file(owner, path, limits)
    check_graphml(owner, content, limits)
    try:
        graph = networkx.read_graphml(io.BytesIO(content), force_multigraph=True)
    except MemoryError:
        raise
    except Exception as error:  # networkx raises KeyError, AttributeError and others, too
        raise ValueError(
            f"{owner}: expected GraphML, got {shown(os.fspath(path))}, of which networkx says: "
            f"{type(error).__name__}: {str(error)[:200]}; export the graph anew"
        ) from error
    places = [("attributes", graph.graph)]
    places += [(f"nodes[{shown(node)}]", data) for node, data in graph.nodes(data=True)]
    places += [
        (f"edges[{shown(key)}]", data) for *_, key, data in graph.edges(keys=True, data=True)
    ]
    for where, data in places:
        for name, value in data.items():
            data[name] = _from_scalar(value, f"read_graphml: {where}.{name}")
    return spec_from_networkx(graph, limits=limits)


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
    hint = f"write JSON behind {_JSON!r}"
    return parse_json(where, value.removeprefix(_JSON), hint)


def _check_text(what: str, name: str) -> None:
    found = _NO_TEXT.search(name)
    if not name or found:
        raise ValueError(
            f"{what}: expected characters that XML has, got {shown(name)}; rename it, or write JSON"
        )
