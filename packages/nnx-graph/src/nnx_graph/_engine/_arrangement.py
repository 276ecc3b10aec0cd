"""Arrangement: which populations of a graph lie together, in which order, and in which columns."""

from collections.abc import Iterable
from typing import Any

from .._declaration._aggregation import is_module
from .._declaration._delay import Run, taps
from .._declaration._spec import Connection, Population
from ._packing import Locate, Ring
from ._plan import Plan
from ._selection import Piece, Selection


class Arrangement:
    """Where everything of a graph lies.

    Args:
      plan: the lowered graph.

    Attributes:
      plan: as given.
      sizes: number of columns of each population and slot.
      taps: what each connection reads, by name.
      slots: the connections that arrive in each slot.
      slots_of: the slots of each population; the last has its name.
      units: populations by unit and level, in order.
      cyclic: whether each unit has a cycle.
      home: unit of each population.
      places: level, first column and size of each population.
      arrivals: level and first column of its intake, by slot and by connection.
      unit_columns: first column of each population among those of its unit.
      shown: number of columns by level that more than a unit with a cycle reads.
      ring_columns: first column of each population in its ring buffer.
      rings: the ring buffers, by name.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.sizes = {p.name: p.size for p in plan.spec.populations}
        self.taps = {c.name: taps(c.delay, self.sizes[c.src]) for c in plan.spec.connections}
        self.slots: dict[str, list[Connection]] = {}
        self.slots_of: dict[str, list[str]] = {}
        for name, population in plan.populations.items():
            apart = plan.incoming[name] if population.aggregate else ()
            slots = {c.name: [c] for c in apart}
            slots[name] = [] if population.aggregate else list(plan.incoming[name])
            self.slots |= slots
            self.slots_of[name] = list(slots)
            self.sizes |= dict.fromkeys(slots, population.size)
        self._rank = {name: rank for rank, name in enumerate(plan.order)}
        self._readers: dict[str, list[str]] = {}
        for connection in plan.spec.connections:
            self._readers.setdefault(connection.src, []).append(connection.dst)
        groups = self._unit_members()
        self.cyclic = [cyclic for _, cyclic in groups]
        self.home = {name: unit for unit, (members, _) in enumerate(groups) for name in members}
        self.units = [self._arrange(members, cyclic) for members, cyclic in groups]
        self.places: dict[str, tuple[int, int, int]] = {}
        self.arrivals: dict[str, tuple[int, int]] = {}
        self.unit_columns: dict[str, int] = {}
        self.shown: dict[int, int] = {}
        self._place()
        self.ring_columns: dict[str, int] = {}
        self.rings = self._make_rings()

    def _place(self) -> None:
        """Gives each population and slot its columns."""
        index = 0
        for unit in self.units:
            offset = 0
            for level in unit:
                column = intake = 0
                self.shown[index] = self._shown_width(level)
                for name in level:
                    self.places[name] = (index, column, self.sizes[name])
                    self.unit_columns[name] = offset + column
                    column += self.sizes[name]
                    for slot in self.slots_of[name]:
                        self.arrivals |= {c.name: (index, intake) for c in self.slots[slot]}
                        self.arrivals[slot] = (index, intake)
                        intake += self.sizes[slot]
                offset += column
                index += 1

    def _unit_members(self) -> list[tuple[list[str], bool]]:
        """Components by depth in the condensed graph, those without a cycle first."""
        plan = self.plan
        home = {n: i for i, c in enumerate(plan.components) for n in c.members}
        depth = [0] * len(plan.components)
        for number, component in enumerate(plan.components):
            feeding = [
                home[c.src]
                for name in component.members
                for c in plan.incoming[name]
                if home[c.src] != number
            ]
            depth[number] = max((depth[f] + 1 for f in feeding), default=0)
        units: dict[tuple[int, bool], list[str]] = {}
        for number, component in enumerate(plan.components):
            units.setdefault((depth[number], component.cyclic), []).extend(component.members)
        return [(units[key], key[1]) for key in sorted(units)]

    def _arrange(self, members: list[str], cyclic: bool) -> list[list[str]]:
        """The levels of a unit, and the order of populations in each."""
        plan, inside = self.plan, set(members)
        depth: dict[str, int] = {}
        for name in sorted(members, key=self._rank.__getitem__):
            immediate = [
                depth[c.src] + 1
                for c in plan.incoming[name]
                if cyclic and not c.shortest_delay and c.src in inside
            ]
            depth[name] = max(immediate, default=0)
        activations = _ranks(plan.populations[name].activation for name in plan.order)
        aggregations = _ranks(self.aggregation(name) for name in plan.order)
        inner = _ranks(self._signatures(name, True) for name in members)
        outer = _ranks(self._signatures(name, False) for name in members)

        def order(name: str) -> tuple[int, ...]:
            population = plan.populations[name]
            return (
                not self._is_shown(name),
                has_module(population),
                aggregations[self.aggregation(name)],
                activations[population.activation],
                population.size,
                plan.ring_lengths.get(name, 0),
                inner[self._signatures(name, True)],
                outer[self._signatures(name, False)],
                self._rank[name],
            )

        count = 1 + max(depth.values())
        return [
            sorted((name for name in members if depth[name] == level), key=order)
            for level in range(count)
        ]

    def incoming(self, slot: str, inner: bool) -> list[Connection]:
        """Default connections into a slot from within the unit, or from other units."""
        return [
            c
            for c in self.slots[slot]
            if not c.has_transform and (self.home[c.src] == self.home[c.dst]) == inner
        ]

    def inside(self, name: str) -> list[Connection]:
        """All connections from within the unit."""
        return [c for c in self.plan.incoming[name] if self.home[c.src] == self.home[name]]

    def signature(self, slot: str, inner: bool) -> tuple[Any, ...]:
        """What a slot sums: equal for slots that read the same."""
        return tuple(sorted((c.src, self.taps[c.name]) for c in self.incoming(slot, inner)))

    def _signatures(self, name: str, inner: bool) -> tuple[Any, ...]:
        return tuple(self.signature(slot, inner) for slot in self.slots_of[name])

    def aggregation(self, name: str) -> tuple[Any, int]:
        """How a population joins how many messages."""
        return self.plan.populations[name].aggregate, len(self.slots_of[name])

    def _make_rings(self) -> dict[str, Ring]:
        """One ring buffer for the populations of a level whose outputs last equally long."""
        sharing: dict[str, list[str]] = {}
        for name in (name for unit in self.units for level in unit for name in level):
            if name in self.plan.ring_lengths:
                sharing.setdefault(self.ring_name(name), []).append(name)
        rings = {}
        for ring, names in sharing.items():
            column = 0
            for name in names:
                self.ring_columns[name] = column
                column += self.sizes[name]
            remembered = Selection.of(map(self.outside, names))
            rings[ring] = Ring(self.plan.ring_lengths[names[0]], remembered)
        return rings

    def ring_name(self, name: str) -> str:
        return f"level{self.places[name][0]}_length{self.plan.ring_lengths[name]}"

    def in_level(self, name: str) -> Piece:
        """A population's output among those of its level, within the scan of a cycle."""
        level, start, size = self.places[name]
        return ("level", level), start, size

    def in_intake(self, slot: str) -> Piece:
        """A slot in the intake of its level."""
        return "level", self.arrivals[slot][1], self.sizes[slot]

    def outside(self, name: str) -> Piece:
        """Where a population's output is found once its unit was evaluated."""
        level, start, size = self.places[name]
        shown = self.shown[level]
        return (
            (("level", level), start, size)
            if start < shown
            else (("hidden", level), start - shown, size)
        )

    def locate(self, src: str, steps: int) -> tuple[Any, int]:
        """Where a population's output of so many steps ago is found outside of a cycle's scan."""
        if not steps:
            return self.outside(src)[:2]
        return ("past", self.ring_name(src), steps), self.ring_columns[src]

    def read(self, connection: Connection) -> Selection:
        """Selects what a connection reads outside of a cycle's scan."""
        return Selection.of(self.pieces(connection, self.locate))

    def pieces(self, connection: Connection, locate: Locate) -> list[Piece]:
        """What a connection reads, tap by tap."""

        def piece(run: Run) -> Piece:
            steps, first, count = run
            key, column = locate(connection.src, steps)
            return key, column + first, count

        return [piece(run) for tap in self.taps[connection.name] for run in tap]

    def rows(self, connection: Connection) -> int:
        """Number of rows of a connection's kernel: the units of its source, for each tap."""
        return len(self.taps[connection.name]) * self.sizes[connection.src]

    def steps(self, connection: Connection) -> list[int]:
        """The delays with which a connection reads any units."""
        return sorted({run[0] for tap in self.taps[connection.name] for run in tap})

    def in_rings(self, members: list[str]) -> Selection:
        """Populations in the ring buffers, by name of these; zeros for those that none holds."""

        def piece(name: str) -> Piece:
            if name not in self.plan.ring_lengths:
                return None, 0, self.sizes[name]
            return self.ring_name(name), self.ring_columns[name], self.sizes[name]

        return Selection.of(map(piece, members))

    def _shown_width(self, names: Iterable[str]) -> int:
        return sum(self.sizes[name] for name in names if self._is_shown(name))

    def _is_shown(self, name: str) -> bool:
        """Whether more than a unit with a cycle reads a population."""
        if not self.cyclic[self.home[name]]:
            return True
        leaving = any(self.home[dst] != self.home[name] for dst in self._readers.get(name, ()))
        return leaving or self.plan.populations[name].output_to is not None

    def is_entered(self, slot: str) -> bool:
        """Whether anything reaches a slot from outside of its unit."""
        others = any(self.home[c.src] != self.home[c.dst] for c in self.slots[slot])
        return others or self._is_driven(slot)

    def _is_driven(self, slot: str) -> bool:
        population = self.plan.populations.get(slot)
        return population is not None and population.input_from is not None

    def drives(self) -> dict[int, Selection]:
        drives = {}
        for names in (level for unit in self.units for level in unit):
            slots = [slot for name in names for slot in self.slots_of[name]]
            if any(map(self._is_driven, slots)):
                drives[self.places[names[0]][0]] = Selection.of(
                    (("drive", slot) if self._is_driven(slot) else None, 0, self.sizes[slot])
                    for slot in slots
                )
        return drives


def has_module(population: Population) -> bool:
    """Whether a population has a module of its own."""
    return population.has_compute or is_module(population.aggregate)


def _ranks(values: Iterable[Any]) -> dict[Any, int]:
    """Numbers values in the order of their first appearance."""
    return {value: rank for rank, value in enumerate(dict.fromkeys(values))}
