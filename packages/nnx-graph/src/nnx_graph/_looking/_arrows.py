"""Arrows along curves, and the outlines of boxes, as patches of matplotlib."""

import math
from typing import Any

from ._curves import Box, Point, Segment

Curve = tuple[Segment, ...]


def arrow(
    curve: Curve, *, head: float, both: bool, width: float, dashed: bool, **look: Any
) -> list[Any]:
    """Returns the patches of an arrow.

    Args:
      curve: from its source to its destination, in the unit of the axes.
      head: length of the head, in the same unit.
      both: whether it has a head at each end.
      width: of the line, in points.
      dashed: whether the line is; the heads are not.
      **look: options of every patch.
    """
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    patches = [_head(curve[-1], head, look)]
    curve = _shortened(curve, head)
    if both:
        curve = reverse(curve)
        patches.append(_head(curve[-1], head, look))
        curve = _shortened(curve, head)
    points = [curve[0][0], *(point for segment in curve for point in segment[1:])]
    path = Path(points, [Path.MOVETO, *[Path.CURVE4] * (len(points) - 1)])
    style = (0, (4, 2)) if dashed else "-"
    line = PathPatch(path, fill=False, linewidth=width, linestyle=style, capstyle="butt", **look)
    return [line, *patches]


def reverse(curve: Curve) -> Curve:
    """The same curve from its end to its start."""
    return tuple((d, c, b, a) for a, b, c, d in reversed(curve))


def outline(box: Box, role: str, **look: Any) -> Any:
    """Returns the patch of a box: rounded for inputs, pointed for outputs."""
    from matplotlib.patches import FancyBboxPatch, Polygon

    left, right, half = box.x - box.width / 2, box.x + box.width / 2, box.height / 2
    point = min(0.07, half)
    if role == "output":
        corners = [(left + point, box.y - half), (right - point, box.y - half), (right, box.y)]
        corners += [(right - point, box.y + half), (left + point, box.y + half), (left, box.y)]
        return Polygon(corners, closed=True, **look)
    rounding = min(0.1, half) if role == "input" else 0.02
    style = f"round,pad=0,rounding_size={rounding}"
    return FancyBboxPatch((left, box.y - half), box.width, box.height, boxstyle=style, **look)


def _head(segment: Segment, length: float, look: dict[str, Any]) -> Any:
    """The head of an arrow that ends with the segment."""
    from matplotlib.patches import Polygon

    (x, y), (u, v) = segment[-1], _heading(segment)
    back, half = (x - length * u, y - length * v), 0.4 * length
    corners = [
        (x, y),
        (back[0] - half * v, back[1] + half * u),
        (back[0] + half * v, back[1] - half * u),
    ]
    return Polygon(corners, closed=True, linewidth=0, **look)


def _heading(segment: Segment) -> Point:
    """The direction in which a curve arrives, of length 1."""
    (x, y), (u, v) = segment[-1], segment[-2]
    length = math.dist((x, y), (u, v)) or 1.0
    return (x - u) / length, (y - v) / length


def _shortened(curve: Curve, length: float) -> Curve:
    """The curve without its end, where the head of the arrow is."""
    *before, (start, one, two, (x, y)) = curve
    u, v = _heading(curve[-1])
    return (*before, (start, one, two, (x - length * u, y - length * v)))
