"""Declarations as graphs of networkx, and back; networkx is imported when it is needed."""

import dataclasses
from collections.abc import Hashable, Mapping
from typing import Any

from .._declaration._check_spec import check_is_spec, check_spec
from .._declaration._hints import shown, which_name
from .._declaration._limits import Limits, check_limits, checked_limits
from .._declaration._plain import Items, plain_items
from .._declaration._spec import Activation, Connection, GraphSpec, Population
from .._declaration._validation import checked_activation
from ._codec import decode_fields, decode_value, encode_fields
from ._data import FORMAT, VERSION, check_version
from ._edges import Entries, entries_by_name

_NODE = tuple(
    f.name for f in dataclasses.fields(Population) if f.name not in ("name", "attributes")
)
_EDGE = tuple(
    f.name
    for f in dataclasses.fields(Connection)
    if f.name not in ("src", "dst", "index", "attributes")
)
_PLACE = "declared"  # attribute of an edge: its place in the order of declaration
_DEFAULTS = {"node": "node_default", "edge": "edge_default"}  # where networkx puts those of a file


def import_networkx(owner: str) -> Any:
    """Returns the module; raises ImportError that says how to install it."""
    try:
        import networkx
    except ImportError as error:
        raise ImportError(
            f"{owner}: expected networkx to be installed, got {error}; "
            "run pip install nnx-graph[networkx]"
        ) from error
    return networkx


def spec_to_networkx(spec: GraphSpec) -> Any:
    """Returns a declaration as a networkx.MultiDiGraph.

    Nodes are the names of populations, in the order of declaration; edges have the index of the
    connection as key. Attributes are the fields, defaults included, in the form of
    :func:`spec_to_dict`, and beside them those that the declaration keeps. An edge also has its
    place in the order of declaration, ``declared``.

    Args:
      spec: the declaration.

    Raises:
      ImportError: without networkx.
      ValueError: if a kept attribute has the name of a field; see also :func:`spec_to_dict`.

    Example:
      >>> populations = Population(name="a", size=2), Population(name="b", size=1)
      >>> spec = GraphSpec(populations, (Connection(src="a", dst="b", delay=3),))
      >>> graph = spec_to_networkx(spec)
      >>> graph.nodes["a"]["size"], graph.edges["a", "b", 0]["delay"]
      (2, 3)
      >>> spec_from_networkx(graph) == spec
      True
    """
    owner = "spec_to_networkx"
    check_is_spec(owner, spec)
    graph = import_networkx(owner).MultiDiGraph()
    nodes = [f"{owner}: nodes[{shown(p.name)}]" for p in spec.populations]
    edges = [f"{owner}: edges[{shown(c.src)}, {shown(c.dst)}, {c.index}]" for c in spec.connections]
    check_spec(spec, nodes, edges)
    about = {"format": FORMAT, "version": VERSION}
    graph.graph.update(_beside(about, spec.attributes, owner, *_DEFAULTS.values()))
    for population, where in zip(spec.populations, nodes, strict=True):
        fields = encode_fields(population, where, defaults=True)
        own = {name: fields[name] for name in _NODE}
        graph.add_node(population.name)
        graph.nodes[population.name].update(_beside(own, population.attributes, where))
    for place, (connection, where) in enumerate(zip(spec.connections, edges, strict=True)):
        fields = encode_fields(connection, where, defaults=True)
        own = {name: fields[name] for name in _EDGE} | {_PLACE: place}
        key = graph.add_edge(connection.src, connection.dst, connection.index)
        data = graph.edges[connection.src, connection.dst, key]
        data.update(_beside(own, connection.attributes, where))
    return graph


def spec_from_networkx(
    graph: Any,
    *,
    size: int | None = None,
    delay: Any = 0,
    activation: Activation | str | None = None,
    inputs: Entries = None,
    outputs: Entries = None,
    limits: Limits | None = None,
) -> GraphSpec:
    """Returns the declaration that a networkx graph describes, its own or that of another origin.

    Attributes of nodes and edges that are named as fields of :class:`Population` and
    :class:`Connection` are these fields, in the form of :func:`spec_to_dict`; all others are kept.
    Each edge of an undirected graph is a connection in both directions.

    Args:
      graph: of any class of networkx. A node's name is its ``str()``.
      size: number of units of nodes without the attribute ``size``.
      delay: steps of edges without the attribute ``delay``. Without a delay, a cycle has no order:
        :meth:`PopulationGraph.finalize` prints it.
      activation: of nodes without the attribute ``activation``, a function or name.
      inputs: entries of the observation by node, or a list of nodes, which read the entries of
        their names; they go before the attribute ``input_from``.
      outputs: entries of the output, likewise.
      limits: see :class:`Limits`; None for the default ones.

    Raises:
      ImportError: without networkx.
      TypeError: if ``graph`` is none of networkx, or an attribute of another type than the field,
        or not plain data.
      ValueError: if two nodes have the same name, a node has no size, or a value is out of range.
        The message says where, for example ``edges['a', 'b', 0].delay``.

    Example:
      >>> import networkx
      >>> ring = networkx.cycle_graph(3)
      >>> spec = spec_from_networkx(ring, size=4, delay=1, activation="tanh", outputs=[0])
      >>> [c.name for c in spec.connections]
      ['0->1', '1->0', '0->2', '2->0', '1->2', '2->1']
    """
    owner = "spec_from_networkx"
    networkx = import_networkx(owner)
    if not isinstance(graph, networkx.Graph):
        raise TypeError(
            f"{owner}: expected a graph of networkx, got {shown(graph)} of type "
            f"{type(graph).__name__}"
        )
    limits = checked_limits(owner, limits)
    limits.check(owner, "max_populations", graph.number_of_nodes())
    count = graph.number_of_edges() * (1 if graph.is_directed() else 2)
    limits.check(owner, "max_connections", count)
    about, defaults = _about(graph, owner)
    names = _node_names(graph, owner)

    def name_of(node: Any, where: str) -> str:
        if str(node) not in names.values():
            hint = which_name(node, tuple(names.values()))
            raise ValueError(f"{where}: expected a node of the graph, got {shown(node)}; {hint}")
        return str(node)

    read = entries_by_name(f"{owner}: inputs", inputs, name_of)
    put = entries_by_name(f"{owner}: outputs", outputs, name_of)
    populations, nodes = [], []
    for node, data in graph.nodes(data=True):
        nodes.append(f"{owner}: nodes[{shown(node)}]")
        fields, kept = _apart({**defaults["node"], **data}, _NODE, nodes[-1])
        if "size" not in fields and size is None:
            raise ValueError(
                f"{nodes[-1]}.size: expected a number of units, got no such attribute; add it, or "
                "pass size= for all that have none"
            )
        fields = {"size": size, **fields, "attributes": kept, "name": names[node]}
        fields.setdefault("activation", checked_activation(names[node], activation))
        for field, given in (("input_from", read), ("output_to", put)):
            if names[node] in given:
                fields[field] = given[names[node]]
        populations.append(decode_fields(Population, fields, nodes[-1]))
    connections, edges = _connections(graph, defaults["edge"], names, delay, owner)
    spec = GraphSpec(tuple(populations), tuple(connections), about)
    check_spec(spec, nodes, edges)
    check_limits(owner, spec, limits)
    return spec


def _beside(fields: dict[str, Any], kept: Items, where: str, *taken: str) -> dict[str, Any]:
    """Joins fields and kept attributes, which networkx has in one dict."""
    for name, _ in kept:
        if name in fields or name in taken:
            raise ValueError(
                f"{where}.attributes: expected names that are not used here, got {shown(name)}; "
                "rename the attribute"
            )
    return fields | dict(kept)


def _apart(
    data: Mapping[str, Any], names: tuple[str, ...], where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields among the attributes of a node or edge, and the others."""
    kept = {name: value for name, value in data.items() if name not in names}
    plain_items(kept, where)
    return {name: data[name] for name in names if name in data}, kept


def _about(graph: Any, owner: str) -> tuple[Items, dict[str, Mapping[str, Any]]]:
    """The kept attributes of the graph, and the defaults of nodes and edges from a file."""
    about = dict(graph.graph)
    defaults = {kind: about.pop(name, {}) for kind, name in _DEFAULTS.items()}
    if about.get("format") == FORMAT:
        check_version(owner, about.pop("format"), about.pop("version", None))
    return plain_items(about, f"{owner}: attributes of the graph"), defaults


def _node_names(graph: Any, owner: str) -> dict[Hashable, str]:
    """The name of each node, in order."""
    names, nodes = {}, {}
    for node in graph.nodes:
        name = str(node)
        if name in nodes:
            raise ValueError(
                f"{owner}: expected nodes of different names, got {shown(nodes[name])} and "
                f"{shown(node)}, which are both {shown(name)} as str; relabel one of them"
            )
        names[node], nodes[name] = name, node
    return names


def _connections(
    graph: Any, defaults: Mapping[str, Any], names: Mapping[Hashable, str], delay: Any, owner: str
) -> tuple[list[Connection], list[str]]:
    """The connections in the order in which they were declared, else in that of the graph."""
    keys = {"keys": True} if graph.is_multigraph() else {}
    found = []
    for *edge, data in graph.edges(data=True, **keys):
        where = f"{owner}: edges[{', '.join(map(repr, edge))}]"
        fields, kept = _apart({**defaults, **data}, _EDGE, where)
        place = decode_value(int | None, kept.pop(_PLACE, None), f"{where}.{_PLACE}")
        fields = {"delay": delay, **fields, "attributes": kept}
        ends = [(edge[0], edge[1])]
        if not graph.is_directed() and edge[0] != edge[1]:
            ends.append((edge[1], edge[0]))
        found += [(place, src, dst, fields, where) for src, dst in ends]
    found.sort(key=lambda item: (item[0] is None, item[0] or 0))  # stable: others come last
    parallel: dict[tuple[str, str], int] = {}
    connections = []
    for _, src, dst, fields, where in found:
        ends = names[src], names[dst]
        index = parallel.setdefault(ends, 0)
        parallel[ends] += 1
        fields = fields | {"src": ends[0], "dst": ends[1], "index": index}
        connections.append(decode_fields(Connection, fields, where))
    return connections, [where for *_, where in found]
