"""Which products of a level go together: few operations for many, at the cost of padding."""

import itertools
from collections.abc import Sequence

MAX_PRODUCTS = 8
"""So many single products may compute what enters a level; beyond, they are batched by shape."""
MAX_BATCHES = 4
"""So many batches are enough; more are joined while padding costs little."""
MAX_PADDING = 2
"""How many times its own weights a batch may have, zeros included."""
SMALL = 1 << 14
"""A batch of at most so many weights costs next to nothing, whatever part of it is padding."""

Shape = tuple[int, int]


def batched(shapes: Sequence[Shape]) -> list[list[int]]:
    """Groups products so that each group is one batched product of its largest shape.

    Args:
      shapes: rows and columns of each.

    Returns:
      The places of the members of each group.

    Example:
      >>> batched([(2, 3), (4, 3)])
      [[0], [1]]
      >>> [len(group) for group in batched([(2, 3)] * 10 + [(3, 3)] * 10)]
      [10, 10]
    """
    if len(shapes) <= MAX_PRODUCTS:
        return [[place] for place in range(len(shapes))]
    groups: dict[Shape, list[int]] = {}
    for place, (rows, columns) in enumerate(shapes):
        groups.setdefault((1 << (rows - 1).bit_length(), columns), []).append(place)
    merged = list(groups.values())
    while len(merged) > MAX_BATCHES:
        pairs = itertools.combinations(range(len(merged)), 2)
        first, second = min(
            pairs, key=lambda pair: _added(shapes, merged[pair[0]], merged[pair[1]])
        )
        joined = merged[first] + merged[second]
        own = sum(shapes[place][0] * shapes[place][1] for place in joined)
        if _weights(shapes, joined) > max(SMALL, MAX_PADDING * own):
            break
        merged = [m for place, m in enumerate(merged) if place not in (first, second)]
        merged.append(joined)
    return [sorted(group) for group in merged]


def _weights(shapes: Sequence[Shape], members: Sequence[int]) -> int:
    """Weights of a batch, zeros included."""
    rows = max(shapes[place][0] for place in members)
    return len(members) * rows * max(shapes[place][1] for place in members)


def _added(shapes: Sequence[Shape], first: list[int], second: list[int]) -> int:
    """Zeros that joining two batches adds."""
    return _weights(shapes, first + second) - _weights(shapes, first) - _weights(shapes, second)
