"""Where populations go in a picture: levels from left to right, few crossings."""

import dataclasses
from collections.abc import Iterable, Mapping

from ._order import strong_components, topological_order
from ._spec import GraphSpec

_SWEEPS = 4


@dataclasses.dataclass(frozen=True)
class Layout:
    """Positions for drawing a graph.

    Attributes:
      positions: (level, height) by population; levels count from 0, heights are centred on 0 and
        one unit apart within a level.
      backward: names of the connections that lead against the levels, or stay on one.
    """

    positions: Mapping[str, tuple[int, float]]
    backward: frozenset[str]


def lay_out(spec: GraphSpec) -> Layout:
    """Places each population right of whatever feeds it, as far as cycles allow.

    Connections without delay always lead right; of the delayed ones, each that does not close a
    cycle with those before it does, too.

    Args:
      spec: the declaration, without a cycle of delay 0.

    Returns:
      The layout.

    Example:
      >>> from nnx_graph import Connection, Population
      >>> a, b = Population(name="a", size=1), Population(name="b", size=1)
      >>> there, back = Connection(src="a", dst="b"), Connection(src="b", dst="a", delay=1)
      >>> layout = lay_out(GraphSpec((a, b), (there, back)))
      >>> layout.positions, sorted(layout.backward)
      ({'a': (0, 0.0), 'b': (1, 0.0)}, ['b->a'])
    """
    edges = [(c.src, c.dst) for c in spec.connections if c.delay == 0]
    for connection in spec.connections:
        edge = connection.src, connection.dst
        if connection.delay and not _closes_cycle(spec.names, edges, edge):
            edges.append(edge)
    levels: dict[str, int] = {}
    for name in topological_order(spec.names, edges):
        levels[name] = max((levels[a] + 1 for a, b in edges if b == name), default=0)
    backward = frozenset(c.name for c in spec.connections if levels[c.dst] <= levels[c.src])
    columns = _untangle(spec.names, levels, edges)
    positions = {
        name: (level, (len(column) - 1) / 2 - row)
        for level, column in enumerate(columns)
        for row, name in enumerate(column)
    }
    return Layout({name: positions[name] for name in spec.names}, backward)


def _closes_cycle(
    names: Iterable[str], edges: list[tuple[str, str]], edge: tuple[str, str]
) -> bool:
    if edge[0] == edge[1]:
        return True
    return any(set(edge) <= set(group) for group in strong_components(list(names), [*edges, edge]))


def _untangle(
    names: Iterable[str], levels: Mapping[str, int], edges: list[tuple[str, str]]
) -> list[list[str]]:
    """Orders each level by the mean place of its neighbours, left to right and back again."""
    columns: list[list[str]] = [[] for _ in range(max(levels.values(), default=-1) + 1)]
    for name in names:
        columns[levels[name]].append(name)
    neighbours: dict[str, list[str]] = {name: [] for name in levels}
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    for sweep in range(_SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        for level in range(len(columns))[::step]:
            place = {n: (i + 0.5) / len(c) for c in columns for i, n in enumerate(c)}
            behind = {
                name: [place[n] for n in neighbours[name] if (level - levels[n]) * step > 0]
                for name in columns[level]
            }
            columns[level].sort(
                key=lambda name, behind=behind, place=place: (
                    sum(behind[name]) / len(behind[name]) if behind[name] else place[name]
                )
            )
    return columns
