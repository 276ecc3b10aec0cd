"""Which way connections lead in a picture: levels from left to right, and what leads back."""

import dataclasses
import heapq
from collections.abc import Iterable, Mapping

from .._declaration._order import Edge, strong_components, topological_order
from .._declaration._spec import GraphSpec


@dataclasses.dataclass(frozen=True)
class Layout:
    """Levels for drawing a graph.

    Attributes:
      levels: by population, from 0 at the left.
      backward: names of the connections that lead against the levels, or stay on one. Each of them
        is part of a cycle.
    """

    levels: Mapping[str, int]
    backward: frozenset[str]


def lay_out(spec: GraphSpec) -> Layout:
    """Places each population right of what feeds it, as far as cycles allow.

    Connections whose shortest delay is 0 lead right, and so do those that are part of no cycle.
    Where only delayed connections of a cycle arrive, the nearest source decides: the levels of a
    recurrent network are distances from its inputs.

    Args:
      spec: the declaration; one with a cycle of delay 0 is laid out too, so that it can be seen.

    Returns:
      The layout.

    Example:
      >>> from nnx_graph import Connection, Population
      >>> a, b = Population(name="a", size=1), Population(name="b", size=1)
      >>> there, back = Connection(src="a", dst="b"), Connection(src="b", dst="a", delay=1)
      >>> layout = lay_out(GraphSpec((a, b), (there, back)))
      >>> layout.levels, sorted(layout.backward)
      ({'a': 0, 'b': 1}, ['b->a'])
    """
    edges = [(c.src, c.dst) for c in spec.connections if c.src != c.dst]
    components = strong_components(spec.names, edges)
    home = {name: number for number, group in enumerate(components) for name in group}
    strict = [(a, b) for a, b in edges if home[a] != home[b]]
    strict += _without_cycles(
        spec, [(c.src, c.dst) for c in spec.connections if not c.shortest_delay]
    )
    fed = {b for _, b in edges}
    starts = [p.name for p in spec.populations if p.input_from is not None or p.name not in fed]
    order = [*starts, *(name for group in components for name in group)]
    levels = _levels(order, len(starts), set(strict), dict.fromkeys(edges))
    backward = frozenset(c.name for c in spec.connections if levels[c.dst] <= levels[c.src])
    return Layout({name: levels[name] for name in spec.names}, backward)


def _without_cycles(spec: GraphSpec, edges: list[Edge]) -> list[Edge]:
    """The edges, less those that close a cycle with the ones before them."""
    edges = [(a, b) for a, b in edges if a != b]
    if len(topological_order(spec.names, edges)) == len(spec.names):
        return edges
    kept: list[Edge] = []
    for edge in edges:
        if len(topological_order(spec.names, [*kept, edge])) == len(spec.names):
            kept.append(edge)
    return kept


def _levels(
    order: list[str], starts: int, strict: set[Edge], edges: Iterable[Edge]
) -> dict[str, int]:
    """Takes populations from left to right, each as soon as what feeds it allows.

    Args:
      order: where to begin, and to begin anew when nothing that is left can be reached.
      starts: so many of ``order`` are at level 0 unless strict edges reach them.
      strict: edges that must lead right, without a cycle.
      edges: all edges, these among them.
    """
    after: dict[str, list[str]] = {name: [] for name in order}
    waiting = dict.fromkeys(order, 0)
    for a, b in edges:
        after[a].append(b)
        waiting[b] += (a, b) in strict
    bound = {name for name in order if waiting[name]}
    floor = dict.fromkeys(order, 0)
    rank = {name: number for number, name in enumerate(dict.fromkeys(order))}
    queue = [(0, rank[name], name) for name in order[:starts] if name not in bound]
    heapq.heapify(queue)
    levels: dict[str, int] = {}
    rest = iter(order)
    while len(levels) < len(after):
        if not queue:
            name = next(name for name in rest if name not in levels and name not in bound)
            queue = [(0, rank[name], name)]
        level, _, name = heapq.heappop(queue)
        if name in levels:
            continue
        levels[name] = level
        for other in after[name]:
            if (name, other) in strict:
                waiting[other] -= 1
                floor[other] = max(floor[other], level + 1)
                if not waiting[other]:
                    heapq.heappush(queue, (floor[other], rank[other], other))
            elif other not in bound:
                heapq.heappush(queue, (level + 1, rank[other], other))
    return levels
