"""The curves of a picture: from box to box, through lanes, around neighbours, and back again."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from ._placement import Item

Point = tuple[float, float]
Segment = tuple[Point, Point, Point, Point]
"""A cubic Bézier curve: start, two control points, end."""

PORT = 0.045  # inches between two ends on the same side of a box
LOOP = 0.16  # inches that a connection from a population to itself stands above its box
LOOP_STEP = 0.09  # inches that each further one stands above the one before


@dataclasses.dataclass(frozen=True)
class Box:
    """Where a population is, in inches; y grows downwards.

    Attributes:
      x: of the middle.
      y: of the middle.
      width: of the box.
      height: of the box.
    """

    x: float
    y: float
    width: float
    height: float


@dataclasses.dataclass(frozen=True)
class Frame:
    """Everything that curves start at, end at, or pass.

    Attributes:
      boxes: by population.
      heights: of the middle of every population and lane.
      columns: of every population and lane.
      edges: left and right end of each column.
      gap: room right of each column.
    """

    boxes: Mapping[str, Box]
    heights: Mapping[Item, float]
    columns: Mapping[Item, int]
    edges: Sequence[tuple[float, float]]
    gap: Sequence[float]


def make_curves(frame: Frame, routes: Sequence[Sequence[Item]]) -> list[list[Segment]]:
    """Returns the curve of each route.

    Args:
      frame: where things are.
      routes: a population, the lanes on the way, and another population; the same population twice
        for a connection from it to itself.
    """
    return _Curves(frame, routes).draw()


class _Curves:
    def __init__(self, frame: Frame, routes: Sequence[Sequence[Item]]):
        self._frame = frame
        self._routes = routes
        neighbours: list[list[Item]] = [[] for _ in frame.edges]
        for item in sorted(frame.boxes, key=frame.heights.__getitem__):
            neighbours[frame.columns[item]].append(item)
        self._rank = {item: rank for column in neighbours for rank, item in enumerate(column)}
        self._ports = self._spread_ports()
        self._loops: Counter[Item] = Counter()

    def draw(self) -> list[list[Segment]]:
        curves = []
        for number, route in enumerate(self._routes):
            a, b = route[0], route[-1]
            if a == b:
                curves.append([self._loop(a)])
            elif self._adjacent(a, b):
                curves.append([self._down_or_up(number, a, b)])
            elif self._frame.columns[a] == self._frame.columns[b]:
                curves.append([self._around(number, a, b)])
            else:
                curves.append(self._through(number, route))
        return curves

    def _adjacent(self, a: Item, b: Item) -> bool:
        """Whether one is right below the other."""
        same = self._frame.columns[a] == self._frame.columns[b]
        return same and abs(self._rank[a] - self._rank[b]) == 1

    def _spread_ports(self) -> dict[tuple[int, Item], float]:
        """How far from the middle of its side each curve meets each of its boxes."""
        sides: dict[tuple[Item, str], list[tuple[float, int, int]]] = {}
        for number, route in enumerate(self._routes):
            if route[0] != route[-1]:
                for end, towards in ((route[0], route[1]), (route[-1], route[-2])):
                    side, order = self._towards(end, towards, number)
                    sides.setdefault((end, side), []).append((*order, number))
        self._met_from_above = {name for name, side in sides if side == "above"}
        ports = {}
        for (name, side), curves in sides.items():
            assert isinstance(name, str)
            box = self._frame.boxes[name]
            along = box.width if side in ("above", "below") else box.height
            step = min(2 * PORT if side in ("above", "below") else PORT, 0.8 * along / len(curves))
            for rank, (_, _, number) in enumerate(sorted(curves)):
                ports[number, name] = step * (rank - (len(curves) - 1) / 2)
        return ports

    def _towards(self, end: Item, other: Item, number: int) -> tuple[str, tuple[float, int]]:
        """The side on which a curve leaves a box, and what orders it there."""
        columns, heights = self._frame.columns, self._frame.heights
        up = heights[other] < heights[end]
        if self._adjacent(end, other):
            return "above" if up else "below", (0.0, number)
        if columns[end] == columns[other]:  # around what is between, one in the other
            return "right", (heights[other], -number if up else number)
        side = "left" if columns[other] < columns[end] else "right"
        return side, (heights[other], number)

    def _loop(self, name: Item) -> Segment:
        assert isinstance(name, str)
        box, rank = self._frame.boxes[name], self._loops[name]
        self._loops[name] += 1
        top = box.y - box.height / 2
        middle = box.x + (box.width / 4 if name in self._met_from_above else 0.0)
        foot = min(0.07 + 0.05 * rank, box.width / 4)
        wide, high = 0.06 + foot, (LOOP + LOOP_STEP * rank) * 4 / 3  # a curve reaches 3/4 of that
        return (
            (middle - foot, top),
            (middle - wide, top - high),
            (middle + wide, top - high),
            (middle + foot, top),
        )

    def _down_or_up(self, number: int, a: Item, b: Item) -> Segment:
        """Straight to the next box of the column."""
        assert isinstance(a, str)
        assert isinstance(b, str)
        first, last = self._frame.boxes[a], self._frame.boxes[b]
        down = 1 if last.y > first.y else -1
        x = (first.x + last.x) / 2 + self._ports[number, a]
        return _straight(
            (x, first.y + down * first.height / 2), (x, last.y - down * last.height / 2)
        )

    def _around(self, number: int, a: Item, b: Item) -> Segment:
        """Right of the boxes between two of the same column."""
        start, end = self._side(number, a, 1), self._side(number, b, 1)
        gap = self._frame.gap[self._frame.columns[a]]
        bend = min(0.9 * gap, 0.12 + 0.35 * abs(end[1] - start[1]))
        outside = max(start[0], end[0]) + bend
        return start, (outside, start[1]), (outside, end[1]), end

    def _through(self, number: int, route: Sequence[Item]) -> list[Segment]:
        """Over the gaps between columns, and straight along the lanes."""
        columns, edges = self._frame.columns, self._frame.edges
        ahead = 1 if columns[route[-1]] > columns[route[0]] else -1
        curve: list[Segment] = []
        here = self._side(number, route[0], ahead)
        for item in route[1:]:
            if isinstance(item, str):
                there = self._side(number, item, -ahead)
            else:
                there = (edges[columns[item]][(1 - ahead) // 2], self._frame.heights[item])
            middle = (here[0] + there[0]) / 2
            curve.append((here, (middle, here[1]), (middle, there[1]), there))
            here = there
            if not isinstance(item, str):
                here = (edges[columns[item]][(1 + ahead) // 2], there[1])
                curve.append(_straight(there, here))
        return curve

    def _side(self, number: int, name: Item, side: int) -> Point:
        """Where a curve meets a box: on its right (1) or left (-1)."""
        assert isinstance(name, str)
        box = self._frame.boxes[name]
        return box.x + side * box.width / 2, box.y + self._ports[number, name]


def point_on(segment: Segment, along: float) -> Point:
    """Returns the point of a curve at a fraction of its parameter.

    Example:
      >>> point_on(((0.0, 0.0), (0.0, 1.0), (2.0, 1.0), (2.0, 0.0)), 0.5)
      (1.0, 0.75)
    """
    rest = 1 - along
    weights = (rest**3, 3 * rest**2 * along, 3 * rest * along**2, along**3)
    x, y = (sum(w * p[axis] for w, p in zip(weights, segment, strict=True)) for axis in (0, 1))
    return x, y


def _straight(start: Point, end: Point) -> Segment:
    third = (end[0] - start[0]) / 3, (end[1] - start[1]) / 3
    return (
        start,
        (start[0] + third[0], start[1] + third[1]),
        (end[0] - third[0], end[1] - third[1]),
        end,
    )
