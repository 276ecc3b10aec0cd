"""A picture of a graph as boxes and curves, in inches, before anything draws it."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from .._declaration._delay import longest
from .._declaration._spec import Connection, GraphSpec
from ._curves import LOOP, LOOP_STEP, PORT, Box, Frame, Segment, make_curves
from ._layout import Layout, lay_out
from ._marks import connection_label
from ._placement import Item, place

Direction = Literal["forward", "backward", "both"]

_BOX, _TALLEST_BOX = 0.21, 2.0  # height of a box, and of one where many wires end
_BETWEEN, _BETWEEN_CONNECTED = 0.13, 0.2  # between boxes of a column
_LANE = 0.035  # on each side of a wire that passes a column
_GAP, _WIDEST_GAP = 0.42, 1.2  # between columns, and where many wires pass
_AROUND_LABEL = 1.6  # so many times its width has the gap in which a label is
_WIDEST_FOR_LABELS = 1.8


@dataclasses.dataclass(frozen=True)
class Wire:
    """A connection as it is drawn, or several that are drawn as one.

    Attributes:
      src: name of the source.
      dst: name of the destination.
      delay: in steps; the longest one of several.
      direction: whether it leads along the levels, back, or stands for one of each.
      label: what is written beside it; "" for several that are drawn as one.
    """

    src: str
    dst: str
    delay: int
    direction: Direction
    label: str = ""


@dataclasses.dataclass(frozen=True)
class Page:
    """Boxes and curves of a picture; y grows downwards.

    Attributes:
      width: of everything.
      height: of everything.
      boxes: by population.
      curves: for each wire the curve from its source to its destination.
    """

    width: float
    height: float
    boxes: Mapping[str, Box]
    curves: tuple[tuple[Segment, ...], ...]


def make_wires(spec: GraphSpec, merged: bool) -> tuple[Wire, ...]:
    """Returns one wire for each connection, or for all between the same two populations.

    Args:
      spec: the declaration.
      merged: draw parallel connections, and those of both directions, as one.

    Example:
      >>> from nnx_graph import Population
      >>> populations = tuple(Population(name=name, size=1) for name in "ab")
      >>> there, back = Connection(src="a", dst="b"), Connection(src="b", dst="a", delay=1)
      >>> make_wires(GraphSpec(populations, (there, back)), merged=True)
      (Wire(src='a', dst='b', delay=1, direction='both', label=''),)
    """
    layout = lay_out(spec)
    groups: dict[object, list[Connection]] = {}
    for connection in spec.connections:
        ends = frozenset((connection.src, connection.dst))
        groups.setdefault(ends if merged else connection.name, []).append(connection)
    wires = [_wire(group, layout) for group in groups.values()]
    if merged:
        return tuple(wires)
    labels = map(connection_label, spec.connections)
    return tuple(dataclasses.replace(w, label=x) for w, x in zip(wires, labels, strict=True))


def _wire(connections: list[Connection], layout: Layout) -> Wire:
    forward = [c for c in connections if c.name not in layout.backward]
    first = (forward or connections)[0]
    ends = {(c.src, c.dst) for c in connections}
    direction: Direction = "both" if len(ends) > 1 else "forward" if forward else "backward"
    return Wire(first.src, first.dst, max(longest(c.delay) for c in connections), direction)


class Wiring:
    """Decides what is next to what; :meth:`page` then spreads it over a page of some size.

    Args:
      spec: the declaration.
      wires: what to draw, from :func:`make_wires`.
      widths: width of the box of each population.
      labels: width of the label of each wire; none if left out.
    """

    def __init__(
        self,
        spec: GraphSpec,
        wires: tuple[Wire, ...],
        widths: Mapping[str, float],
        labels: Sequence[float] | None = None,
    ):
        levels = lay_out(spec).levels
        self._widths = widths
        self._tall = _box_heights(levels, wires)
        loops = Counter(wire.src for wire in wires if wire.src == wire.dst)
        between = [(wire.src, wire.dst) for wire in wires if wire.src != wire.dst]
        beside = {end for pair in between if levels[pair[0]] == levels[pair[1]] for end in pair}
        room = {}
        for name, tall in self._tall.items():
            side = (tall + (_BETWEEN_CONNECTED if name in beside else _BETWEEN)) / 2
            above = LOOP + LOOP_STEP * (loops[name] - 1) + 0.04 if loops[name] else 0.0
            room[name] = (side + above, side)
        self._placement = place(levels, between, room, _LANE)
        self._home = {i: n for n, column in enumerate(self._placement.columns) for i in column}
        self._routes = self._find_routes(wires)
        self._wide = [
            max(widths[item] for item in column if isinstance(item, str))
            for column in self._placement.columns
        ]
        self._gaps = self._find_gaps([0.0] * len(wires) if labels is None else labels)

    def page(self, width: float = 0.0, height: float = 0.0) -> Page:
        """Returns boxes and curves; the wider or higher the page, the more room between them."""
        free = sum(self._gaps)
        spare = max(0.0, width - sum(self._wide) - free)
        gaps = [gap * (1 + min(1.2, spare / free)) for gap in self._gaps]
        stretch = max(1.0, min(1.8, height / self._placement.total))
        heights = {item: stretch * y for item, y in self._placement.heights.items()}
        edges: list[tuple[float, float]] = []
        boxes = {}
        x = 0.0
        for column, wide, gap in zip(self._placement.columns, self._wide, gaps, strict=True):
            edges.append((x, x + wide))
            for item in column:
                if isinstance(item, str):
                    middle = x + wide / 2
                    boxes[item] = Box(middle, heights[item], wide, self._tall[item])
            x += wide + gap
        frame = Frame(boxes, heights, self._home, edges, gaps)
        curves = tuple(map(tuple, make_curves(frame, self._routes)))
        return Page(x, stretch * self._placement.total, boxes, curves)

    def _find_routes(self, wires: tuple[Wire, ...]) -> list[tuple[Item, ...]]:
        """The population, the lanes and the population that each wire passes."""
        routes: list[tuple[Item, ...]] = []
        number = 0  # lanes count wires between different populations
        for wire in wires:
            first, last = self._home[wire.src], self._home[wire.dst]
            step = 1 if last >= first else -1
            lanes = tuple((number, column) for column in range(first + step, last, step))
            routes.append((wire.src, *lanes, wire.dst))
            number += wire.src != wire.dst
        return routes

    def _find_gaps(self, labels: Sequence[float]) -> list[float]:
        """Room right of each column, for what passes and its labels; little right of the last."""
        passing: Counter[int] = Counter()
        count = len(self._wide)
        least = [0.0] * count
        for route, label in zip(self._routes, labels, strict=True):
            columns = [self._home[item] for item in route]
            if route[0] != route[-1]:
                passing.update(min(pair) for pair in itertools.pairwise(columns))
                for column in (min(columns[:2]), min(columns[-2:])):
                    least[column] = max(least[column], _AROUND_LABEL * label)
        gaps = [min(_WIDEST_GAP, _GAP + 0.012 * passing[column]) for column in range(count)]
        gaps = [
            max(gap, min(_WIDEST_FOR_LABELS, room)) for gap, room in zip(gaps, least, strict=True)
        ]
        return [*gaps[:-1], gaps[-1] if passing[count - 1] else 0.01]


def _box_heights(levels: Mapping[str, int], wires: tuple[Wire, ...]) -> dict[str, float]:
    """A box is as high as the side on which more wires end needs it."""
    ends: Counter[tuple[str, int]] = Counter()
    for wire in wires:
        ahead = levels[wire.dst] - levels[wire.src]
        if ahead:
            ends[wire.src, 1 if ahead > 0 else -1] += 1
            ends[wire.dst, -1 if ahead > 0 else 1] += 1
    return {
        name: min(_TALLEST_BOX, max(_BOX, PORT * (max(ends[name, -1], ends[name, 1]) + 1)))
        for name in levels
    }
