"""How a lowered graph is packed: which populations and connections go together, and where."""

import itertools
from collections.abc import Iterable
from typing import Any

from .._declaration._aggregation import is_module
from .._declaration._spec import Activation, Connection, Population, Unnamed
from ._arrangement import Arrangement, has_module
from ._blocks import BlockBuilder
from ._elementwise import is_elementwise
from ._packing import Level, Locate, Packing, Response, Transfer, Unit
from ._plan import Plan
from ._selection import Selection


def pack(plan: Plan) -> Packing:
    """Works out the packing of a lowered graph."""
    return _Packer(plan).run()


class _Packer:
    """Builds a Packing from the arrangement of a graph."""

    def __init__(self, plan: Plan):
        self._at = Arrangement(plan)
        self._builder = BlockBuilder(self._at)

    def run(self) -> Packing:
        at = self._at
        units = tuple(itertools.starmap(self._unit, zip(at.units, at.cyclic, strict=True)))
        return Packing(
            plan=at.plan,
            units=units,
            blocks=tuple(self._builder.blocks),
            places={name: at.outside(name) for name in at.plan.populations},
            rings=at.rings,
            drives=at.drives(),
            arrivals=at.arrivals,
            read=at.read,
        )

    def _unit(self, levels: list[list[str]], cyclic: bool) -> Unit:
        members = [name for level in levels for name in level]
        delays: dict[int, dict[str, None]] = {}
        if cyclic:
            for name in members:
                for c in self._at.inside(name):
                    for steps in self._at.steps(c):
                        if steps:
                            delays.setdefault(steps, {})[c.src] = None
        backs, back_columns = [], {}
        for delay in sorted(delays):
            sources = [name for name in members if name in delays[delay]]
            column = 0
            for name in sources:
                back_columns[delay, name] = column
                column += self._at.sizes[name]
            pieces = [
                ("unit", self._at.unit_columns[name], self._at.sizes[name]) for name in sources
            ]
            backs.append((delay, Selection.of(pieces)))

        def locate_in_cycle(src: str, steps: int) -> tuple[Any, int]:
            if not steps:
                return self._at.in_level(src)[:2]
            return ("back", steps), back_columns[steps, src]

        starts, packed = (0, 0, 0), []
        for names in levels:
            level = self._level(names, starts, locate_in_cycle if cyclic else None)
            entered = level.entering.width
            starts = starts[0] + level.width, starts[1] + level.intake, starts[2] + entered
            packed.append(level)
        return Unit(
            levels=tuple(packed),
            cyclic=cyclic,
            width=starts[0],
            modules=self._modules_in_cycle(members, packed) if cyclic else (),
            backs=tuple(backs),
            in_rings=self._at.in_rings(members),
        )

    def _modules_in_cycle(
        self, members: list[str], levels: Iterable[Level]
    ) -> tuple[tuple[str, tuple[str, ...]], ...]:
        populations = [self._at.plan.populations[name] for name in members]
        found = {
            "transforms": [t.name for level in levels for t in level.inner_transfers],
            "aggregates": [p.name for p in populations if is_module(p.aggregate)],
            "computes": [p.name for p in populations if p.has_compute],
        }
        return tuple((kind, tuple(names)) for kind, names in found.items() if names)

    def _level(
        self, names: list[str], starts: tuple[int, int, int], in_cycle: Locate | None
    ) -> Level:
        slots = [slot for name in names for slot in self._at.slots_of[name]]
        blocks, from_blocks, _ = self._builder.family(slots, False, None)
        inner, from_inner, into_inner = self._builder.family(slots, True, in_cycle)
        index = self._at.places[names[0]][0]
        return Level(
            index=index,
            start=starts[0],
            width=sum(self._at.sizes[name] for name in names),
            intake_start=starts[1],
            intake=sum(self._at.sizes[slot] for slot in slots),
            shown=self._at.shown[index],
            entering=Selection.of(
                self._at.in_intake(slot) for slot in slots if self._at.is_entered(slot)
            ),
            entering_start=starts[2],
            responses=self._responses(names),
            blocks=blocks,
            inner_blocks=inner,
            from_blocks=from_blocks,
            from_inner_blocks=from_inner,
            into_inner_blocks=into_inner,
            transfers=self._transfers(names, None if in_cycle is None else False, None),
            inner_transfers=self._transfers(names, True, in_cycle) if in_cycle else (),
        )

    def _transfers(
        self, names: list[str], inner: bool | None, in_cycle: Locate | None
    ) -> tuple[Transfer, ...]:
        """Connections with modules, from within the unit, or from without, or from anywhere."""
        sharing: dict[Any, list[Connection]] = {}
        for connection in (c for name in names for c in self._at.plan.incoming[name]):
            own = self._at.home[connection.src] == self._at.home[connection.dst]
            if connection.has_transform and inner in (None, own):
                sharing.setdefault(self._module_of(connection), []).append(connection)

        def read_by(connections: list[Connection], locate: Locate) -> Selection:
            return Selection.of(p for c in connections for p in self._at.pieces(c, locate))

        return tuple(
            Transfer(
                name=connections[0].name,
                connections=tuple(connections),
                columns=tuple(self._at.arrivals[c.name][1] for c in connections),
                taps=tuple(len(self._at.taps[c.name]) for c in connections),
                sources=read_by(connections, self._at.locate),
                cycle_sources=in_cycle and read_by(connections, in_cycle),
            )
            for connections in sharing.values()
        )

    def _module_of(self, connection: Connection) -> Any:
        """The same for connections whose module is called once, for all of them."""
        transform = connection.transform
        sizes = self._at.sizes[connection.src], self._at.sizes[connection.dst]
        if isinstance(transform, Unnamed) and transform.instance is not None:
            return transform.instance, sizes
        return connection.share or (connection.name, connection.index), sizes

    def _responses(self, names: list[str]) -> tuple[Response, ...]:
        """Joins populations side by side that respond alike and have no module."""
        populations = [self._at.plan.populations[name] for name in names]
        responses: list[Response] = []
        for key, group in itertools.groupby(populations, self._response_key):
            activation, (aggregate, slots), module = key
            sizes = [population.size for population in group]
            width = sum(sizes)
            in_place = all(_is_elementwise(activation, size, width) for size in set(sizes))
            if module is None and aggregate is None and in_place:
                responses.append(Response(activation, width, 1, elementwise=True))
                continue
            for size, alike in itertools.groupby(sizes):
                responses.append(
                    Response(
                        activation,
                        size,
                        len(list(alike)),
                        aggregate=aggregate,
                        messages=slots - 1,
                        population=module,
                        has_compute=module is not None
                        and self._at.plan.populations[module].has_compute,
                    )
                )
        return tuple(responses)

    def _response_key(self, population: Population) -> tuple[Any, ...]:
        """What tells responses apart, besides the size."""
        module = population.name if has_module(population) else None
        return population.activation, self._at.aggregation(population.name), module


def _is_elementwise(activation: Activation | None, size: int, width: int) -> bool:
    return activation is None or is_elementwise(activation, size, width)
