"""How a lowered graph is packed: which populations and connections go together, and where."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from .._declaration._spec import Activation, Connection, Population
from ._batching import batched
from ._elementwise import is_elementwise
from ._packing import Block, Level, Locate, Packing, Response, Ring, Unit
from ._plan import Plan
from ._selection import Piece, Selection


def pack(plan: Plan) -> Packing:
    """Works out the packing of a lowered graph."""
    return _Packer(plan).run()


def _ranks(values: Iterable[Any]) -> dict[Any, int]:
    """Numbers values in the order of their first appearance."""
    return {value: rank for rank, value in enumerate(dict.fromkeys(values))}


class _Packer:
    """Builds a Packing step by step."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._sizes = {p.name: p.size for p in plan.spec.populations}
        self._rank = {name: rank for rank, name in enumerate(plan.order)}
        self._home: dict[str, int] = {}  # unit by population
        self._places: dict[str, tuple[int, int, int]] = {}
        self._unit_columns: dict[str, int] = {}
        self._ring_columns: dict[str, int] = {}
        self._shown: dict[int, int] = {}  # number of columns by level
        self._blocks: list[Block] = []
        self._readers: dict[str, list[str]] = {}
        for connection in plan.spec.connections:
            self._readers.setdefault(connection.src, []).append(connection.dst)

    def run(self) -> Packing:
        plan = self._plan
        groups = self._unit_members()
        self._cyclic = [cyclic for _, cyclic in groups]
        for number, (members, _) in enumerate(groups):
            for name in members:
                self._home[name] = number
        levels = [self._arrange(members, cyclic) for members, cyclic in groups]
        index = 0
        for unit in levels:
            offset = 0
            for level in unit:
                column = 0
                self._shown[index] = self._shown_width(level)
                for name in level:
                    self._places[name] = (index, column, self._sizes[name])
                    self._unit_columns[name] = offset + column
                    column += self._sizes[name]
                offset += column
                index += 1
        rings = self._rings([name for unit in levels for level in unit for name in level])
        units = tuple(
            self._unit(level_names, cyclic)
            for level_names, (_, cyclic) in zip(levels, groups, strict=True)
        )
        return Packing(
            plan=plan,
            units=units,
            blocks=tuple(self._blocks),
            places={name: self._outside(name) for name in plan.populations},
            rings=rings,
            drives=self._drives(levels),
            locate=self._locate,
        )

    def _unit_members(self) -> list[tuple[list[str], bool]]:
        """Components by depth in the condensed graph, those without a cycle first."""
        plan = self._plan
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
        plan, inside = self._plan, set(members)
        depth: dict[str, int] = {}
        for name in sorted(members, key=self._rank.__getitem__):
            immediate = [
                depth[c.src] + 1
                for c in plan.incoming[name]
                if cyclic and c.delay == 0 and c.src in inside
            ]
            depth[name] = max(immediate, default=0)
        activations = _ranks(plan.populations[name].activation for name in plan.order)
        inner = _ranks(self._signature(name, True) for name in members)
        outer = _ranks(self._signature(name, False) for name in members)

        def order(name: str) -> tuple[int, ...]:
            population = plan.populations[name]
            return (
                not self._is_shown(name),
                population.has_compute,
                activations[population.activation],
                population.size,
                plan.ring_lengths.get(name, 0),
                inner[self._signature(name, True)],
                outer[self._signature(name, False)],
                self._rank[name],
            )

        count = 1 + max(depth.values())
        return [
            sorted((name for name in members if depth[name] == level), key=order)
            for level in range(count)
        ]

    def _incoming(self, name: str, inner: bool) -> list[Connection]:
        """Default connections from within the unit, or from other units."""
        return [
            c
            for c in self._plan.incoming[name]
            if not c.has_transform and (self._home[c.src] == self._home[name]) == inner
        ]

    def _inside(self, name: str) -> list[Connection]:
        """All connections from within the unit."""
        return [c for c in self._plan.incoming[name] if self._home[c.src] == self._home[name]]

    def _signature(self, name: str, inner: bool) -> tuple[tuple[str, int], ...]:
        """What a population reads: equal for populations that read the same."""
        return tuple(sorted((c.src, c.delay) for c in self._incoming(name, inner)))

    def _rings(self, ordered: list[str]) -> dict[str, Ring]:
        """One ring buffer for the populations of a level whose outputs last equally long."""
        sharing: dict[str, list[str]] = {}
        for name in ordered:
            if name in self._plan.ring_lengths:
                sharing.setdefault(self._ring_name(name), []).append(name)
        rings = {}
        for ring, names in sharing.items():
            column = 0
            for name in names:
                self._ring_columns[name] = column
                column += self._sizes[name]
            remembered = Selection.of(map(self._outside, names))
            rings[ring] = Ring(self._plan.ring_lengths[names[0]], remembered)
        return rings

    def _ring_name(self, name: str) -> str:
        return f"level{self._places[name][0]}_length{self._plan.ring_lengths[name]}"

    def _in_level(self, name: str) -> Piece:
        level, start, size = self._places[name]
        return ("level", level), start, size

    def _outside(self, name: str) -> Piece:
        """Where a population's output is found once its unit was evaluated."""
        level, start, size = self._places[name]
        shown = self._shown[level]
        return (
            (("level", level), start, size)
            if start < shown
            else (("hidden", level), start - shown, size)
        )

    def _locate(self, connection: Connection) -> tuple[Any, int]:
        src = connection.src
        if not connection.delay:
            return self._outside(src)[:2]
        return ("past", self._ring_name(src), connection.delay), self._ring_columns[src]

    def _unit(self, levels: list[list[str]], cyclic: bool) -> Unit:
        members = [name for level in levels for name in level]
        delays: dict[int, dict[str, None]] = {}
        if cyclic:
            for name in members:
                for c in self._inside(name):
                    if c.delay:
                        delays.setdefault(c.delay, {})[c.src] = None
        backs, back_columns = [], {}
        for delay in sorted(delays):
            sources = [name for name in members if name in delays[delay]]
            column = 0
            for name in sources:
                back_columns[delay, name] = column
                column += self._sizes[name]
            pieces = [("unit", self._unit_columns[name], self._sizes[name]) for name in sources]
            backs.append((delay, Selection.of(pieces)))

        def locate_in_cycle(connection: Connection) -> tuple[Any, int]:
            if not connection.delay:
                return self._in_level(connection.src)[:2]
            return ("back", connection.delay), back_columns[connection.delay, connection.src]

        start, entering, packed = 0, 0, []
        for names in levels:
            packed.append(self._level(names, start, entering, locate_in_cycle if cyclic else None))
            start += packed[-1].width
            entering += packed[-1].entering.width
        return Unit(
            levels=tuple(packed),
            cyclic=cyclic,
            width=start,
            modules=self._modules_in_cycle(members) if cyclic else (),
            backs=tuple(backs),
            history=tuple(
                self._remembered(members, delay) for delay in range(1, max(delays, default=0) + 1)
            ),
        )

    def _modules_in_cycle(self, members: list[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        transforms = [c.name for name in members for c in self._inside(name) if c.has_transform]
        computes = [name for name in members if self._plan.populations[name].has_compute]
        found = (("transforms", tuple(transforms)), ("computes", tuple(computes)))
        return tuple((kind, names) for kind, names in found if names)

    def _remembered(self, members: list[str], delay: int) -> Selection:
        """The unit's columns of so many steps ago, as far as ring buffers hold them."""
        lengths = self._plan.ring_lengths

        def piece(name: str) -> Piece:
            size = self._sizes[name]
            if lengths.get(name, 0) < delay:
                return None, 0, size
            return ("past", self._ring_name(name), delay), self._ring_columns[name], size

        return Selection.of(map(piece, members))

    def _level(
        self, names: list[str], start: int, entering_start: int, in_cycle: Locate | None
    ) -> Level:
        populations = [self._plan.populations[name] for name in names]
        columns, width = {}, 0
        for population in populations:
            columns[population.name] = width
            width += population.size
        blocks, from_blocks, _ = self._family(names, False, None)
        inner, from_inner, into_inner = self._family(names, True, in_cycle)
        return Level(
            index=self._places[names[0]][0],
            start=start,
            width=width,
            shown=self._shown[self._places[names[0]][0]],
            entering=Selection.of(
                ("level", columns[p.name], p.size) for p in populations if self._is_entered(p)
            ),
            entering_start=entering_start,
            responses=_responses(populations),
            blocks=blocks,
            inner_blocks=inner,
            from_blocks=from_blocks,
            from_inner_blocks=from_inner,
            into_inner_blocks=into_inner,
            transforms=tuple(
                (c, columns[name])
                for name in names
                for c in self._plan.incoming[name]
                if c.has_transform and not (in_cycle and c in self._inside(name))
            ),
            inner_transforms=tuple(
                (c, columns[name], (*in_cycle(c), self._sizes[c.src]))
                for name in names
                for c in self._inside(name)
                if c.has_transform and in_cycle
            ),
        )

    def _shown_width(self, names: Iterable[str]) -> int:
        return sum(self._sizes[name] for name in names if self._is_shown(name))

    def _is_shown(self, name: str) -> bool:
        """Whether more than a unit with a cycle reads a population."""
        if not self._cyclic[self._home[name]]:
            return True
        leaving = any(self._home[dst] != self._home[name] for dst in self._readers.get(name, ()))
        return leaving or self._plan.populations[name].output_to is not None

    def _is_entered(self, population: Population) -> bool:
        """Whether anything reaches a population from outside of its unit."""
        name = population.name
        inside = {c.name for c in self._inside(name)}
        others = any(c.name not in inside for c in self._plan.incoming[name])
        return others or population.input_from is not None

    def _family(
        self, names: list[str], inner: bool, in_cycle: Locate | None
    ) -> tuple[tuple[int, ...], Selection | None, tuple[Selection, ...]]:
        """Blocks of the connections into a level from within its unit, or from without.

        Returns:
          Their indices, their sums in the order of the level's columns, and for each of them the
          columns of the level in the order of its sums.
        """
        products: dict[Any, list[str]] = {}
        for name in names:
            if signature := self._signature(name, inner):
                products.setdefault(signature, []).append(name)
        if not products:
            return (), None, ()
        shapes = [
            (
                sum(self._sizes[c.src] for c in self._incoming(destinations[0], inner)),
                sum(self._sizes[name] for name in destinations),
            )
            for destinations in products.values()
        ]
        indices, found, into = [], {}, []
        for batch in batched(shapes):
            members = [list(products.values())[place] for place in batch]
            block = self._block(members, inner, in_cycle)
            indices.append(len(self._blocks))
            computed: list[Piece] = []
            for product, destinations in enumerate(block.destinations):
                column = product * block.columns
                for name in destinations:
                    found[name] = (("block", indices[-1]), column)
                    column += self._sizes[name]
                    computed.append(self._in_level(name))
                computed.append((None, 0, (product + 1) * block.columns - column))
            into.append(Selection.of(piece for piece in computed if piece[2]))
            self._blocks.append(block)

        def piece(name: str) -> Piece:
            key, start = found.get(name, (None, 0))
            return key, start, self._sizes[name]

        return tuple(indices), Selection.of(map(piece, names)), tuple(into)

    def _block(self, batch: list[list[str]], inner: bool, in_cycle: Locate | None) -> Block:
        sorted_reads = [
            sorted(self._incoming(destinations[0], inner), key=self._read_order)
            for destinations in batch
        ]
        heights = [sum(self._sizes[c.src] for c in reads) for reads in sorted_reads]
        rows = heights[0] if len(batch) == 1 else max(heights)
        connections = {}
        for product, (destinations, reads) in enumerate(zip(batch, sorted_reads, strict=True)):
            column = 0
            for name in destinations:
                row = 0
                own = sorted(self._incoming(name, inner), key=self._read_order)
                for place, connection in enumerate(own):
                    connections[connection.name] = (product, row, place, column)
                    row += self._sizes[connection.src]
                column += self._sizes[name]
            assert len(reads) == len(own)
        return Block(
            reads=tuple(
                tuple((c.name, self._sizes[c.src]) for c in reads) for reads in sorted_reads
            ),
            destinations=tuple(map(tuple, batch)),
            rows=rows,
            columns=max(sum(self._sizes[name] for name in names) for names in batch),
            connections=tuple(connections.items()),
            sources=self._selection(sorted_reads, rows, self._locate),
            cycle_sources=in_cycle and self._selection(sorted_reads, rows, in_cycle),
            cycle_reads=self._reads_by_delay(sorted_reads, rows) if in_cycle else (),
        )

    def _reads_by_delay(
        self, batch: Sequence[Sequence[Connection]], rows: int
    ) -> tuple[tuple[int, Selection], ...]:
        def read_with(delay: int) -> Locate:
            def locate(connection: Connection) -> tuple[Any, int]:
                if connection.delay != delay:
                    return None, 0
                return "unit", self._unit_columns[connection.src]

            return locate

        delays = sorted({connection.delay for reads in batch for connection in reads})
        return tuple((k, self._selection(batch, rows, read_with(k))) for k in delays)

    def _read_order(self, connection: Connection) -> tuple[int, ...]:
        level, column, _ = self._places[connection.src]
        return connection.delay, level, column, connection.index

    def _selection(
        self, batch: Sequence[Sequence[Connection]], rows: int, locate: Locate
    ) -> Selection:
        pieces: list[Piece] = []
        for reads in batch:
            filled = 0
            for connection in reads:
                pieces.append((*locate(connection), self._sizes[connection.src]))
                filled += self._sizes[connection.src]
            if filled < rows:
                pieces.append((None, 0, rows - filled))
        return Selection.of(pieces)

    def _drives(self, levels: list[list[list[str]]]) -> dict[int, Selection]:
        populations, drives = self._plan.populations, {}
        for names in (level for unit in levels for level in unit):
            if any(populations[name].input_from is not None for name in names):
                drives[self._places[names[0]][0]] = Selection.of(
                    (None if populations[n].input_from is None else ("drive", n), 0, self._sizes[n])
                    for n in names
                )
        return drives


def _responses(populations: list[Population]) -> tuple[Response, ...]:
    """Joins populations side by side that respond alike and have no module."""
    responses: list[Response] = []
    for (activation, compute), group in itertools.groupby(populations, _respond_alike):
        sizes = [population.size for population in group]
        width = sum(sizes)
        if compute is None and all(_is_elementwise(activation, size, width) for size in set(sizes)):
            responses.append(Response(activation, width, 1, elementwise=True))
            continue
        for size, alike in itertools.groupby(sizes):
            responses.append(Response(activation, size, len(list(alike)), compute=compute))
    return tuple(responses)


def _respond_alike(population: Population) -> tuple[Activation | None, str | None]:
    """What tells responses apart, besides the size."""
    return population.activation, population.name if population.has_compute else None


def _is_elementwise(activation: Activation | None, size: int, width: int) -> bool:
    return activation is None or is_elementwise(activation, size, width)
