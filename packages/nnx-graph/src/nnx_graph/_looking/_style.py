"""How a graph is drawn, by how much there is to draw; and the legend that says so."""

import dataclasses
import functools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from .._declaration._spec import GraphSpec
from ._marks import Head, heads_by_source
from ._text import role_of
from ._wiring import Wire, make_wires

MOST_LABELLED = 60  # connections; beyond, line widths tell the delays, and pairs are one line

FACE = {"input": "#cfe3f5", "internal": "#f2f2f2", "output": "#fbdcc0"}
EDGE = "#44546a"
COLOUR = {"forward": EDGE, "backward": "#c0392b", "both": "#7d3c98"}
_SAYS = {"forward": "forward", "backward": "leads back", "both": "both ways"}
_LINE_WIDTHS = (0.5, 0.9, 1.3, 1.9)  # points, from short delays to long ones
_ENDS: dict[Head, tuple[str, dict[str, Any]]] = {
    "arrow": ("excitatory", {"marker": ">", "markersize": 5}),
    "bar": ("inhibitory", {"marker": "|", "markersize": 7, "markeredgewidth": 2}),
    "open": ("either sign", {"marker": ">", "markersize": 5, "markerfacecolor": "white"}),
}


@dataclasses.dataclass(frozen=True)
class Style:
    """How the connections of a graph are shown.

    Attributes:
      wires: the lines.
      labelled: whether delays are numbers; line widths otherwise.
      longest: for each line width in use, the longest delay that it stands for.
      ends: the head of the arrows that leave each population.
    """

    wires: tuple[Wire, ...]
    labelled: bool
    longest: tuple[int, ...]
    ends: Mapping[str, Head]

    @classmethod
    def of(cls, spec: GraphSpec) -> "Style":
        """Chooses by the number of connections."""
        labelled = len(spec.connections) <= MOST_LABELLED
        wires = make_wires(spec, merged=not labelled)
        delays = sorted({wire.delay for wire in wires})
        count = min(len(delays), len(_LINE_WIDTHS))
        last = [delays[(len(delays) * (part + 1)) // count - 1] for part in range(count)]
        return cls(wires, labelled, tuple(last), heads_by_source(spec))

    @property
    def alpha(self) -> float:
        """Opacity of the lines."""
        return 1.0 if self.labelled else 0.65

    @functools.cached_property
    def degrees(self) -> Counter[str]:
        """How many lines end at each population."""
        return Counter(end for wire in self.wires for end in (wire.src, wire.dst))

    def width(self, wire: Wire) -> float:
        """Width of a line, in points."""
        if self.labelled:
            return 1.0
        rank = next(rank for rank, longest in enumerate(self.longest) if wire.delay <= longest)
        return _LINE_WIDTHS[rank]

    def heads(self, wire: Wire) -> tuple[Head, ...]:
        """The head at the destination of a line, and that at its source if it has one."""
        return (self.ends[wire.src], self.ends[wire.dst])[: 1 + (wire.direction == "both")]

    def head(self, wire: Wire) -> float:
        """Length of the head of an arrow, in inches at full size."""
        return (0.08 if self.labelled else 0.06) + 0.012 * self.width(wire)

    def dashed(self, wire: Wire) -> bool:
        """Whether a line is dashed."""
        return self.labelled and wire.direction == "backward"

    def legend(self, spec: GraphSpec) -> list[Any]:
        """Handles of a matplotlib legend, for what there is to explain."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        roles = {role_of(population) for population in spec.populations} - {"internal"}
        handles: list[Any] = [
            Patch(facecolor=FACE[role], edgecolor=EDGE, label=role) for role in sorted(roles)
        ]
        of_direction = {wire.direction: wire for wire in self.wires}
        for direction in (d for d in COLOUR if d in of_direction):
            dashes = "--" if self.dashed(of_direction[direction]) else "-"
            look: dict[str, Any] = {
                "color": COLOUR[direction],
                "linewidth": 1.2,
                "label": _SAYS[direction],
            }
            handles.append(Line2D([], [], linestyle=dashes, **look))
        if not self.labelled:
            for longest, span in self._spans().items():
                width = _LINE_WIDTHS[self.longest.index(longest)]
                handles.append(Line2D([], [], color=EDGE, linewidth=width, label=f"delay {span}"))
        elif any(wire.delay for wire in self.wires):
            number: dict[str, Any] = {"linestyle": "", "marker": "$2$", "color": EDGE}
            handles.append(Line2D([], [], label="delay (steps)", **number))
        if self.labelled and any(c.share for c in spec.connections):
            equal: dict[str, Any] = {"linestyle": "", "marker": "$=$", "color": EDGE}
            handles.append(Line2D([], [], label="shared", markeredgewidth=0.2, **equal))
        if any(population.sign for population in spec.populations):
            used = {head for wire in self.wires for head in self.heads(wire)}
            for text, look in (_ENDS[head] for head in _ENDS if head in used):
                handles.append(Line2D([], [], linestyle="", color=EDGE, label=text, **look))
        return handles

    def _spans(self) -> dict[int, str]:
        """The delays of each line width as text, by the longest of them."""
        spans, before = {}, -1
        for longest in self.longest:
            delays = sorted({w.delay for w in self.wires if before < w.delay <= longest})
            spans[longest] = str(longest) if len(delays) == 1 else f"{delays[0]} to {longest}"
            before = longest
        return spans
