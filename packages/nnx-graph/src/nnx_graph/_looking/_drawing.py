"""Pictures of graphs; matplotlib is imported when they are drawn."""

import math
from typing import Any

from .._declaration._spec import GraphSpec, Population
from ._arrows import Curve, arrow, outline, reverse
from ._curves import Point, point_on
from ._figure import (
    FONT,
    SMALLEST_FONT,
    check_axes,
    check_matplotlib,
    inches,
    new_axes,
    text_width,
)
from ._style import COLOUR, EDGE, FACE, Style
from ._text import population_label, role_of
from ._wiring import Page, Wire, Wiring

_PADDING = 0.09  # inches between a name and the ends of its box
_MARGIN = 0.12  # inches around everything
_SMALLER = 0.85  # of the font of names is that of labels
_ASIDE = 0.12  # inches between a curve and a long label for which there is no room on it
_LEGEND_ROW, _LEGEND_COLUMN = 0.18, 0.95  # inches
_NARROWEST, _LARGEST = 4.8, 20.0  # inches of a figure that is made here

Place = tuple[float, float, float]
"""Where the middle of a label is, and how much farther than a digit it reaches to each side."""


def draw_graph(graph: Any, ax: Any = None) -> Any:
    """Draws populations from left to right with the connections between them.

    Boxes hold name, size and, where it is not the sum, the aggregation; inputs are blue and
    rounded, outputs orange and pointed. What leads back, which closes cycles, is red and dashed.
    Beside a connection are its delay in steps, its connectivity, "frozen", and "=" with the name
    under which weights are shared. Where a population has a sign, what leaves inhibitory ones ends
    in a bar, and what leaves those without a sign in an open head. A graph of more than 60
    connections is drawn with thin lines without such labels: one for all connections between two
    populations, violet where they go both ways, the wider the longer their delay. A legend says so.

    Args:
      graph: a graph, finalized or not.
      ax: matplotlib axes, cleared of ticks and given limits; draw at the final figure size, for
        everything is measured out to it. None for axes on a pyplot figure of fitting size.

    Returns:
      The axes.

    Raises:
      TypeError: if ``graph`` is not a PopulationGraph, or ``ax`` no axes.
      ValueError: if it has no populations.
      ImportError: without matplotlib, which ``pip install nnx-graph[drawing]`` brings.

    Example:
      >>> draw_graph(graph).figure.savefig("graph.png")  # doctest: +SKIP
    """
    spec = getattr(graph, "spec", None)
    if not isinstance(spec, GraphSpec):
        raise TypeError(
            f"draw_graph: expected a PopulationGraph, got {type(graph).__name__}; for a network "
            "that contains one, pass the graph itself"
        )
    if not spec.populations:
        raise ValueError("draw_graph: expected at least one population, got none; add some")
    check_matplotlib("draw_graph")
    check_axes("draw_graph", ax)
    style = Style.of(spec)
    names = {p.name: population_label(p) for p in spec.populations}
    widths = {name: text_width(text) + 2 * _PADDING for name, text in names.items()}
    labels = [_SMALLER * text_width(wire.label) for wire in style.wires]
    wiring = Wiring(spec, style.wires, widths, labels)
    if ax is None:
        ax = _new_axes(wiring.page(), len(style.legend(spec)))
    canvas = _Canvas(ax, wiring, style, spec)
    for population in spec.populations:
        canvas.draw_population(population, names[population.name])
    canvas.draw_wires()
    canvas.draw_legend()
    return ax


class _Canvas:
    """Axes whose data are inches of the page at full size, y growing downwards."""

    def __init__(self, ax: Any, wiring: Wiring, style: Style, spec: GraphSpec):
        self._ax = ax
        self._style = style
        self._handles = style.legend(spec)
        wide, high = inches(ax)
        self._legend_columns = max(1, min(len(self._handles), int(wide / _LEGEND_COLUMN)))
        rows = -(-len(self._handles) // self._legend_columns)
        below = _LEGEND_ROW * rows
        full = wiring.page()
        free = wide - 2 * _MARGIN, max(0.3 * high, high - below - 2 * _MARGIN)
        self._scale = min(1.4, free[0] / full.width, free[1] / full.height)
        page = wiring.page(free[0] / self._scale, free[1] / self._scale)
        self._page = page
        self._scale = min(self._scale, free[0] / page.width, free[1] / page.height)
        middle = page.width / 2
        reach = wide / self._scale / 2
        top = page.height / 2 - (free[1] / 2 + _MARGIN) / self._scale
        ax.set_xlim(middle - reach, middle + reach)
        ax.set_ylim(top + high / self._scale, top)
        ax.set_axis_off()
        self._font = max(SMALLEST_FONT, FONT * self._scale)

    def draw_population(self, population: Population, text: str) -> None:
        box = self._page.boxes[population.name]
        role = role_of(population)
        look = {"facecolor": FACE[role], "edgecolor": EDGE, "zorder": 3}
        look["linewidth"] = 0.8 * min(1.0, self._scale)
        self._ax.add_patch(outline(box, role, **look))
        self._ax.text(
            box.x,
            box.y,
            text,
            ha="center",
            va="center_baseline",
            fontsize=self._font,
            parse_math=False,
            zorder=4,
        )

    def draw_wires(self) -> None:
        style, labels = self._style, list[Place]()
        for wire, curve in zip(style.wires, self._page.curves, strict=True):
            patches = arrow(
                curve,
                heads=style.heads(wire),
                head=style.head(wire),
                width=style.width(wire) * min(1.0, self._scale),
                dashed=style.dashed(wire),
                color=COLOUR[wire.direction],
                alpha=style.alpha,
                zorder=1,
            )
            for patch in patches:
                self._ax.add_patch(patch)
            if wire.label:
                self._label(wire, curve, labels)

    def draw_legend(self) -> None:
        if self._handles:
            self._ax.legend(
                handles=self._handles,
                loc="lower center",
                ncols=self._legend_columns,
                frameon=False,
                fontsize=max(5.0, min(FONT, self._font)),
                borderaxespad=0.0,
                handlelength=1.6,
                columnspacing=1.2,
            )

    def _label(self, wire: Wire, curve: Curve, taken: list[Place]) -> None:
        """Writes a label beside or on its curve, where there is none yet, near the quieter end."""
        room = 1.3 * self._font / 72 / self._scale
        shape = "circle" if wire.label.isdigit() else "square"
        beyond = max(0.0, _SMALLER * (text_width(wire.label) - text_width("0")) / 2)
        places = [(x, y, beyond) for x, y in self._label_places(wire, curve)]
        x, y, _ = place = _free_place(places, taken, room)
        taken.append(place)
        self._ax.text(
            x,
            y,
            wire.label,
            ha="center",
            va="center",
            fontsize=_SMALLER * self._font,
            color=COLOUR[wire.direction],
            parse_math=False,
            zorder=2,
            bbox={"boxstyle": f"{shape},pad=0.1", "facecolor": "white", "edgecolor": "none"},
        )

    def _label_places(self, wire: Wire, curve: Curve) -> list[Point]:
        if len({x for x, _ in curve[0]}) == 1:  # straight up or down
            x, y = point_on(curve[0], 0.5)
            aside = max(0.07, 0.02 + _SMALLER * text_width(wire.label) / 2)
            return [(x - aside if x < self._page.boxes[wire.src].x else x + aside, y)]
        if wire.src == wire.dst:
            return [point_on(curve[0], 0.5)]
        degree = self._style.degrees
        if degree[wire.src] > degree[wire.dst]:
            curve = reverse(curve)
        on = [point_on(s, t) for s in (curve[0], curve[-1]) for t in (0.35, 0.5, 0.2, 0.65)]
        if wire.label.isdigit():
            return on
        return on + [(x, y + aside) for aside in (_ASIDE, -_ASIDE) for x, y in on]


def _free_place(places: list[Place], taken: list[Place], room: float) -> Place:
    """The first place that is far enough from those taken, or the farthest."""

    def between(one: Place, other: Place) -> float:
        apart = abs(one[0] - other[0]) - one[2] - other[2]
        return math.hypot(max(0.0, apart), one[1] - other[1])

    def distance(place: Place) -> float:
        return min((between(place, other) for other in taken), default=math.inf)

    free = [place for place in places if distance(place) >= room]
    return free[0] if free else max(places, key=distance)


def _new_axes(page: Page, entries: int) -> Any:
    wide = min(_LARGEST, max(page.width + 2 * _MARGIN, _NARROWEST))
    rows = -(-entries // max(1, int(wide / _LEGEND_COLUMN)))
    return new_axes(wide, min(_LARGEST, page.height + 2 * _MARGIN + _LEGEND_ROW * rows))
