"""Arrows along curves, and the outlines of boxes, as patches of matplotlib."""

import math
from collections.abc import Sequence
from typing import Any

from ._curves import Box, Point, Segment
from ._marks import Head

Curve = tuple[Segment, ...]

_BAR_FROM, _BAR_TO = 0.5, 0.25  # of the length of a head, before the box


def arrow(
    curve: Curve, *, heads: Sequence[Head], head: float, width: float, dashed: bool, **look: Any
) -> list[Any]:
    """Returns the patches of an arrow.

    Args:
      curve: from its source to its destination, in the unit of the axes.
      heads: that at its destination, and that at its source if there is one.
      head: length of a head, in the same unit.
      width: of the line, in points.
      dashed: whether the line is; the heads are not.
      **look: options of every patch, among them ``color``.
    """
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    patches = []
    for place, kind in enumerate(heads):
        curve = reverse(curve) if place else curve
        patches.append(_head(curve[-1], kind, head, width, look))
        curve = _shortened(curve, head * (_BAR_FROM if kind == "bar" else 1.0))
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


def _head(segment: Segment, kind: Head, length: float, width: float, look: dict[str, Any]) -> Any:
    """The head of an arrow that ends with the segment."""
    from matplotlib.patches import Polygon

    (x, y), (u, v) = segment[-1], _heading(segment)

    def corner(back: float, aside: float) -> Point:
        return (
            x - back * length * u - aside * length * v,
            y - back * length * v + aside * length * u,
        )

    if kind == "bar":
        ends = [(_BAR_FROM, 0.4), (_BAR_FROM, -0.4), (_BAR_TO, -0.4), (_BAR_TO, 0.4)]
        return Polygon([corner(*end) for end in ends], closed=True, linewidth=0, **look)
    corners = [corner(0.0, 0.0), corner(1.0, 0.4), corner(1.0, -0.4)]
    if kind == "arrow":
        return Polygon(corners, closed=True, linewidth=0, **look)
    outline = {"facecolor": "white", "edgecolor": look["color"], "linewidth": 0.8 * width}
    rest = {name: value for name, value in look.items() if name != "color"}
    return Polygon(corners, closed=True, joinstyle="miter", **outline, **rest)


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
