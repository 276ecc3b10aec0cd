"""A picture of a graph on axes that the caller brings; nothing here imports matplotlib."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ._graph import PopulationGraph
from ._layout import Layout, lay_out
from ._spec import Connection, Population

_FACE = {"input": "#d7e8f7", "internal": "#f2f2f2", "output": "#fbe3cf"}
_FORWARD, _BACKWARD = "#44546a", "#c0504d"


def draw_graph(graph: PopulationGraph, ax: Any) -> None:
    """Draws populations from left to right with the connections between them.

    Boxes hold the name and the size; inputs are blue, outputs orange. The number on a connection
    is its delay in steps; connections that lead back, which close cycles, are dashed and red.

    Args:
      graph: a graph, finalized or not.
      ax: matplotlib axes; cleared of ticks, and given limits. Draw at the final figure size,
        since the labels are placed on the curves as they are then.

    Raises:
      TypeError: if ``graph`` is not a PopulationGraph.
      ValueError: if it has no populations.

    Example:
      >>> from matplotlib.figure import Figure  # doctest: +SKIP
      >>> figure = Figure()  # doctest: +SKIP
      >>> draw_graph(graph, figure.add_subplot())  # doctest: +SKIP
      >>> figure.savefig("graph.png")  # doctest: +SKIP
    """
    if not isinstance(graph, PopulationGraph):
        raise TypeError(
            f"draw_graph: expected a PopulationGraph, got {type(graph).__name__}; for a network "
            "that contains one, pass the graph itself"
        )
    spec = graph.spec
    if not spec.populations:
        raise ValueError("draw_graph: expected at least one population, got none; add some")
    layout = lay_out(spec)
    canvas = _Canvas(ax, layout, Counter(end for c in spec.connections for end in (c.src, c.dst)))
    for population in spec.populations:
        canvas.draw_population(population)
    pairs = {(c.src, c.dst) for c in spec.connections}
    for connection in spec.connections:
        if connection.src == connection.dst:
            canvas.draw_loop(connection)
        else:
            canvas.draw_connection(connection, (connection.dst, connection.src) in pairs)
    if any(c.delay for c in spec.connections):
        ax.set_title("number on a connection: its delay in steps", fontsize=8, color="#666666")


class _Canvas:
    def __init__(self, ax: Any, layout: Layout, degrees: Mapping[str, int]):
        self._ax = ax
        self._layout = layout
        self._degrees = degrees
        self._boxes: dict[str, Any] = {}
        levels = [level for level, _ in layout.positions.values()]
        heights = [abs(height) for _, height in layout.positions.values()]
        top = max(heights) + 0.8
        ax.set_xlim(-0.5, max(levels) + 0.5)
        ax.set_ylim(-top, top)
        ax.set_axis_off()
        inches = ax.get_window_extent().height / ax.figure.dpi
        self._font = max(4.0, min(10.0, 26.0 * inches / top / 2))

    def draw_population(self, population: Population) -> None:
        role = (
            "input" if population.input_from else "output" if population.output_to else "internal"
        )
        text = self._ax.text(
            *self._layout.positions[population.name],
            f"{population.name} ({population.size})",
            ha="center",
            va="center",
            fontsize=self._font,
            zorder=3,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": _FACE[role], "edgecolor": _FORWARD},
        )
        self._boxes[population.name] = text.get_bbox_patch()

    def draw_connection(self, connection: Connection, has_reverse: bool) -> None:
        back = connection.name in self._layout.backward
        start = self._layout.positions[connection.src]
        end = self._layout.positions[connection.dst]
        bend = 0.12 if has_reverse else 0.0
        if abs(end[0] - start[0]) != 1:  # would otherwise pass through what lies between
            bend = 0.25
        bend += 0.12 * connection.index
        self._arrow(
            start, end, bend, back, (self._boxes[connection.src], self._boxes[connection.dst])
        )
        if connection.delay:
            crowded_start = self._degrees[connection.src] > self._degrees[connection.dst]
            point = self._on_curve(start, end, bend, 0.65 if crowded_start else 0.35)
            self._label(point, connection.delay, back)

    def draw_loop(self, connection: Connection) -> None:
        x, y = self._to_pixels(self._layout.positions[connection.src])
        unit = self._font * self._ax.figure.dpi / 72
        wide, high = unit * (0.9 + 0.5 * connection.index), unit * 0.9
        start = self._to_data((x - wide, y + high))
        end = self._to_data((x + wide, y + high))
        self._arrow(start, end, -1.6, True, (None, None))
        self._label((x, y + high + 1.6 * wide), connection.delay, True)

    def _on_curve(self, start: Any, end: Any, bend: float, along: float) -> tuple[float, float]:
        """The pixel at a fraction of the quadratic curve that "arc3" draws."""
        (x0, y0), (x1, y1) = self._to_pixels(start), self._to_pixels(end)
        control = (x0 + x1) / 2 + bend * (y1 - y0), (y0 + y1) / 2 - bend * (x1 - x0)
        weights = (1 - along) ** 2, 2 * along * (1 - along), along**2
        x = weights[0] * x0 + weights[1] * control[0] + weights[2] * x1
        return x, weights[0] * y0 + weights[1] * control[1] + weights[2] * y1

    def _arrow(self, start: Any, end: Any, bend: float, back: bool, boxes: tuple[Any, Any]) -> None:
        self._ax.annotate(
            "",
            xy=end,
            xytext=start,
            zorder=1,
            arrowprops={
                "arrowstyle": "-|>",
                "connectionstyle": f"arc3,rad={bend}",
                "linestyle": "--" if back else "-",
                "color": _BACKWARD if back else _FORWARD,
                "patchA": boxes[0],
                "patchB": boxes[1],
                "shrinkA": 0,
                "shrinkB": 1,
            },
        )

    def _label(self, pixels: tuple[float, float], delay: int, back: bool) -> None:
        self._ax.text(
            *self._to_data(pixels),
            str(delay),
            ha="center",
            va="center",
            fontsize=max(5.0, 0.85 * self._font),
            color=_BACKWARD if back else _FORWARD,
            zorder=2,
            bbox={"boxstyle": "circle,pad=0.12", "facecolor": "white", "edgecolor": "none"},
        )

    def _to_pixels(self, point: tuple[float, float]) -> tuple[float, float]:
        x, y = self._ax.transData.transform(point)
        return float(x), float(y)

    def _to_data(self, pixels: tuple[float, float]) -> tuple[float, float]:
        x, y = self._ax.transData.inverted().transform(pixels)
        return float(x), float(y)
