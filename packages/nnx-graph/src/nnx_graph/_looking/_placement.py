"""Where populations go on the page: columns, the order in each, and lanes for long connections.

The method of layers of Sugiyama, Tagawa and Toda (IEEE Trans. SMC 1981): what spans several columns
gets a lane in each column between, columns are ordered by the mean place of their neighbours, and
then everything moves towards its neighbours as far as the order allows.
"""

import bisect
import dataclasses
import math
from collections.abc import Mapping, Sequence

from .._declaration._order import Edge

_TALLEST = 24  # populations in a column before it is split
_SWEEPS = 12  # each orders all columns once
_SETTLING = 24  # each moves all columns once

Item = str | tuple[int, int]
"""A population, or the lane of a wire (its number) in a column."""


@dataclasses.dataclass(frozen=True)
class Placement:
    """Places of a graph on the page, in the unit of the given room.

    Attributes:
      columns: what is in each, from top to bottom.
      heights: of the middle of each item; they grow downwards, from the top of the highest at 0.
      total: height of everything.
    """

    columns: tuple[tuple[Item, ...], ...]
    heights: Mapping[Item, float]
    total: float


def place(
    levels: Mapping[str, int],
    wires: Sequence[Edge],
    room: Mapping[str, tuple[float, float]],
    lane: float,
) -> Placement:
    """Arranges populations in columns and orders each so that few wires cross.

    Args:
      levels: by population; a level of many populations becomes several columns.
      wires: pairs of different populations.
      room: what each population takes up, above and below its middle, distances included.
      lane: the same for a lane, on each side.

    Returns:
      The placement.

    Example:
      >>> room = dict.fromkeys("abc", (1.0, 1.0))
      >>> placement = place(
      ...     {"a": 0, "b": 1, "c": 2}, [("a", "b"), ("b", "c"), ("a", "c")], room, 0.2
      ... )
      >>> placement.columns
      (('a',), ('b', (2, 1)), ('c',))
    """
    columns: list[list[Item]] = _split(levels)
    home = {name: number for number, column in enumerate(columns) for name in column}
    links: list[list[tuple[Item, Item]]] = [[] for _ in columns]  # to the next column
    beside: list[tuple[Item, Item]] = []  # within a column
    for number, (a, b) in enumerate(wires):
        if home[a] == home[b]:
            beside.append((a, b))
            continue
        left, right = sorted((a, b), key=home.__getitem__)
        lanes: list[Item] = [(number, c) for c in range(home[left] + 1, home[right])]
        for offset, (p, q) in enumerate(zip([left, *lanes], [*lanes, right], strict=True)):
            links[home[left] + offset].append((p, q))
        for item in lanes:
            assert isinstance(item, tuple)
            columns[item[1]].append(item)
    columns = _untangle(columns, links, beside)
    sizes = {
        item: room[item] if isinstance(item, str) else (lane, lane) for c in columns for item in c
    }
    heights = _settle(columns, links, sizes)
    top = min((heights[i] - sizes[i][0] for i in heights), default=0.0)
    bottom = max((heights[i] + sizes[i][1] for i in heights), default=0.0)
    return Placement(
        tuple(map(tuple, columns)), {i: h - top for i, h in heights.items()}, bottom - top
    )


def _split(levels: Mapping[str, int]) -> list[list[Item]]:
    """One column for each level, or several of equal height, filled row by row."""
    tallest = max(_TALLEST, math.ceil(2.5 * math.sqrt(len(levels))))
    columns: list[list[Item]] = []
    for level in range(max(levels.values(), default=-1) + 1):
        names = [name for name, own in levels.items() if own == level]
        count = math.ceil(len(names) / tallest)
        parts: list[list[Item]] = [[*names[part::count]] for part in range(count)]
        columns += parts
    return columns


def _untangle(
    columns: list[list[Item]],
    links: list[list[tuple[Item, Item]]],
    beside: list[tuple[Item, Item]],
) -> list[list[Item]]:
    """Orders columns by the mean place of their neighbours, both ways; keeps the best."""
    left, right, same = (_neighbours(columns) for _ in range(3))
    for gap in links:
        for p, q in gap:
            right[p].append(q)
            left[q].append(p)
    for p, q in beside:
        same[p].append(q)
        same[q].append(p)
    first = _first_places(columns, left, right)
    columns = [sorted(column, key=first.__getitem__) for column in columns]
    best, fewest = columns, math.inf
    for sweep in range(_SWEEPS):
        order = range(len(columns)) if sweep % 2 == 0 else reversed(range(len(columns)))
        behind = left if sweep % 2 == 0 else right
        place = {n: (i + 0.5) / len(c) for c in columns for i, n in enumerate(c)}
        for number in order:
            column = columns[number]
            wanted = {
                n: _mean([place[m] for m in (*behind[n], *same[n])], place[n]) for n in column
            }
            column.sort(key=wanted.__getitem__)
            place.update((n, (i + 0.5) / len(column)) for i, n in enumerate(column))
        crossings = _crossings(columns, links)
        if crossings < fewest:
            best, fewest = [list(column) for column in columns], crossings
    return best


def _neighbours(columns: list[list[Item]]) -> dict[Item, list[Item]]:
    return {item: [] for column in columns for item in column}


def _first_places(
    columns: list[list[Item]], left: dict[Item, list[Item]], right: dict[Item, list[Item]]
) -> dict[Item, float]:
    """Populations as they are declared, and lanes level with the quieter one of their ends."""
    place: dict[Item, float] = {
        item: (rank + 0.5) / sum(isinstance(other, str) for other in column)
        for column in columns
        for rank, item in enumerate(column)
        if isinstance(item, str)
    }
    for item in (item for column in columns for item in column if not isinstance(item, str)):
        ends = []
        for near in (left, right):
            end: Item = item
            while not isinstance(end, str):
                (end,) = near[end]
            ends.append(end)
        quiet = min(ends, key=lambda end: len(left[end]) + len(right[end]))
        place[item] = place[quiet]
    return place


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(columns: list[list[Item]], links: list[list[tuple[Item, Item]]]) -> int:
    place = {item: i for column in columns for i, item in enumerate(column)}
    count = 0
    for gap in links:
        seen: list[int] = []
        for _, end in sorted((place[p], place[q]) for p, q in gap):
            count += len(seen) - bisect.bisect_right(seen, end)
            bisect.insort(seen, end)
    return count


def _settle(
    columns: list[list[Item]],
    links: list[list[tuple[Item, Item]]],
    sizes: Mapping[Item, tuple[float, float]],
) -> dict[Item, float]:
    """Moves every item towards the mean height of its neighbours; order and room stay."""
    offsets: dict[Item, float] = {}
    for column in columns:
        edge = 0.0
        for item in column:
            above, below = sizes[item]
            offsets[item] = edge + above
            edge += above + below
        for item in column:
            offsets[item] -= edge / 2
    heights = dict(offsets)
    near = _neighbours(columns)
    for gap in links:
        for p, q in gap:
            near[p].append(q)
            near[q].append(p)
    for step in range(_SETTLING):
        for column in columns if step % 2 == 0 else reversed(columns):
            wanted = [_mean([heights[n] for n in near[item]], heights[item]) for item in column]
            slack = _nondecreasing(
                [w - offsets[item] for w, item in zip(wanted, column, strict=True)]
            )
            heights.update((i, offsets[i] + s) for i, s in zip(column, slack, strict=True))
    return heights


def _nondecreasing(values: Sequence[float]) -> list[float]:
    """The nearest sequence that never falls, in least squares: pools what violates it.

    Example:
      >>> _nondecreasing([0.0, 3.0, 1.0])
      [0.0, 2.0, 2.0]
    """
    pools: list[tuple[float, int]] = []
    for value in values:
        pool = (value, 1)
        while pools and pools[-1][0] > pool[0]:
            mean, count = pools.pop()
            pool = (mean * count + pool[0] * pool[1]) / (count + pool[1]), count + pool[1]
        pools.append(pool)
    return [mean for mean, count in pools for _ in range(count)]
