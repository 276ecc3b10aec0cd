"""Effects: what the interventions of a graph do to one step of it."""

from collections.abc import Iterable, Iterator
from typing import Literal

from jaxtyping import Array, Float, Int

from .._declaration._spec import Connection
from ._interventions import Intervention
from ._packing import Level, Packing, Transfer

Stage = Literal["sums", "outputs"]


class Effects:
    """Interventions, as a step of the graph meets them.

    Args:
      packing: of the graph.
      interventions: in the order in which they act.
      step: (B,), steps since the last reset of each row; None where nothing is scheduled.

    Attributes:
      cut: default connections that are lesioned. They are left out of the products; what still
        arrives over them is computed apart.
    """

    def __init__(
        self,
        packing: Packing,
        interventions: Iterable[Intervention] = (),
        step: Int[Array, " B"] | None = None,
    ):
        self._packing = packing
        self._step = step
        self._acting: dict[tuple[Stage, str], list[Intervention]] = {}
        for intervention in interventions:
            stage: Stage = "sums" if intervention.kind == "stimulate" else "outputs"
            self._acting.setdefault((stage, intervention.target), []).append(intervention)
        targets = {target for _, target in self._acting}
        self._populations = [name for name in packing.plan.order if name in targets]
        self.cut = tuple(
            connection
            for connection in packing.plan.spec.connections
            if connection.name in targets and not connection.has_transform
        )

    def on_level(self, stage: Stage, level: Level, columns: Float[Array, "B columns"]) -> Array:
        """The intake of a level as it is responded to, or its outputs as the others see them."""
        for name in self._populations:
            start = self._start(stage, name, level)
            if start is not None and (stage, name) in self._acting:
                own = slice(start, start + self._packing.plan.populations[name].size)
                changed = self._act(stage, name, columns[..., own])
                columns = columns.at[..., own].set(changed)
        return columns

    def on_connection(
        self, connection: Connection, arriving: Float[Array, "B size"]
    ) -> Float[Array, "B size"]:
        """What arrives over a connection."""
        return self._act("outputs", connection.name, arriving)

    def on_transfer(
        self, transfer: Transfer, arriving: Float[Array, "B *connections size"]
    ) -> Float[Array, "B *connections size"]:
        """What arrives over connections with a module, side by side if there are several."""
        if len(transfer.connections) == 1:
            return self.on_connection(transfer.connections[0], arriving)
        for place, connection in enumerate(transfer.connections):
            if ("outputs", connection.name) in self._acting:
                changed = self.on_connection(connection, arriving[:, place])
                arriving = arriving.at[:, place].set(changed)
        return arriving

    def cut_into(self, level: Level) -> Iterator[tuple[Connection, int]]:
        """Those of ``cut`` that lead to a level, and the first of their columns in its intake."""
        for connection in self.cut:
            start = self._start("sums", connection.name, level)
            if start is not None:
                yield connection, start

    def _start(self, stage: Stage, name: str, level: Level) -> int | None:
        """The first column of what has the name in a level; None if it is in another one."""
        if stage == "sums":
            index, start = self._packing.arrivals[name]
            return start if index == level.index else None
        key, start, _ = self._packing.places[name]
        offsets = {("level", level.index): 0, ("hidden", level.index): level.shown}
        return start + offsets[key] if key in offsets else None

    def _act(self, stage: Stage, target: str, x: Array) -> Array:
        for intervention in self._acting.get((stage, target), ()):
            x = intervention.act(x, self._step)
        return x
