"""A summary of a graph: records for programs, tables for readers."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from flax import nnx

from .._declaration._connectivity import LowRank, mask_of
from .._declaration._delay import Delay, LearnableDelay, label
from .._declaration._kinds import kind_name
from .._declaration._order import strong_components
from .._declaration._registry import name_of_activation
from .._declaration._spec import Activation, Connection, GraphSpec, Population
from .._engine._circuit import Circuit
from ._table import Cell, Table
from ._text import function_name, module_name, role_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class PopulationSummary:
    """What there is to know about a population.

    Attributes:
      name: as declared.
      size: number of units.
      role: ``input``, ``internal`` or ``output``.
      activation: its name; None for the identity.
      compute: name or class of its own module; None for none.
      sign: of all weights that leave it by linear maps; None for either.
      aggregate: how what arrives is joined, by name; None for the sum.
      level: within a step a level waits for the levels before it alone; None before finalize.
      cycle: a number that it shares with the populations which it reaches, over connections of
        any delay, and which reach it; None if its output never comes back.
      parameters: how many numbers of the compute module and of the aggregation are trained; None
        before finalize.
      buffer_bytes: of its past outputs in a ring buffer, per batch row; None before finalize.
    """

    name: str
    size: int
    role: str
    activation: str | None
    compute: str | None
    sign: str | None
    aggregate: str | None
    level: int | None
    cycle: int | None
    parameters: int | None
    buffer_bytes: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionSummary:
    """What there is to know about a connection.

    Attributes:
      name: ``src->dst``, and ``src->dst#index`` for further parallel ones.
      src: name of the source.
      dst: name of the destination.
      delay: in steps, as declared.
      transform: name or class of its own module; None for a linear map.
      connectivity: which units the linear map connects, as graphs in data name it; None for all.
      share: name under which it shares the weights of the linear map; None for own ones.
      frozen: whether the linear map keeps its initial weights.
      shape: sizes of source and destination.
      parameters: how many numbers of the linear map, with its bias, or of the module, and of the
        delay are trained; of a module None before finalize.
    """

    name: str
    src: str
    dst: str
    delay: Delay
    transform: str | None
    connectivity: str | None
    share: str | None
    frozen: bool
    shape: tuple[int, int]
    parameters: int | None


@dataclasses.dataclass(frozen=True, repr=False)
class GraphSummary:
    """A graph in tables, plain with ``print``, and as wide as the terminal with rich's ``print``.

    Attributes:
      populations: in the order of declaration.
      connections: in the order of declaration.
      parameters: how many numbers are trained; what is shared counts once. None before finalize.
      stored_parameters: how many numbers an optimiser sees, which include the padding of packed
        weights; None before finalize.
      buffer_bytes: of all ring buffers, per batch row, without what custom modules carry; None
        before finalize.
    """

    populations: tuple[PopulationSummary, ...]
    connections: tuple[ConnectionSummary, ...]
    parameters: int | None
    stored_parameters: int | None
    buffer_bytes: int | None

    def __str__(self) -> str:
        parts = [self._heading()]
        for table in self._tables():
            parts += ["", *table.lines()]
        return "\n".join([*parts, "", self._totals()])

    def __repr__(self) -> str:
        return str(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield self._heading()
        for table in self._tables():
            yield table.for_rich()
        yield self._totals()

    def _heading(self) -> str:
        roles = [population.role for population in self.populations]
        ends = (_count(roles.count(role), role) for role in ("input", "output"))
        populations = f"{_count(len(roles), 'population')} ({', '.join(ends)})"
        return f"PopulationGraph: {populations}, {_count(len(self.connections), 'connection')}"

    def _totals(self) -> str:
        if self.parameters is None:
            return "not finalized: levels, buffers and parameters of custom modules are not known"
        padded = self.stored_parameters != self.parameters
        stored = f", {self.stored_parameters:,} stored" if padded else ""
        return (
            f"{_count(self.parameters, 'parameter')}{stored}; "
            f"{self.buffer_bytes:,} bytes of buffers per batch row"
        )

    def _tables(self) -> list[Table]:
        tables = [Table(_POPULATION, tuple(map(_population_cells, self.populations)))]
        if self.connections:
            tables.append(Table(_CONNECTION, tuple(map(_connection_cells, self.connections))))
        return tables


_POPULATION = ("population", "size", "role", "aggregate", "activation", "compute", "sign")
_POPULATION += ("level", "cycle", "parameters", "bytes per row")
_CONNECTION = ("connection", "delay", "transform", "connectivity", "share", "frozen", "shape")
_CONNECTION += ("parameters",)


def _population_cells(row: PopulationSummary) -> tuple[Cell, ...]:
    cells = [row.name, row.size, row.role, row.aggregate, row.activation, row.compute, row.sign]
    return (*cells, row.level, row.cycle, row.parameters or None, row.buffer_bytes or None)


def _connection_cells(row: ConnectionSummary) -> tuple[Cell, ...]:
    frozen = "frozen" if row.frozen else None
    delay = row.delay if isinstance(row.delay, int) else label(row.delay)
    cells = [row.name, delay, row.transform or "linear", row.connectivity, row.share, frozen]
    return (*cells, "{} to {}".format(*row.shape), row.parameters)


def summarize(spec: GraphSpec, circuit: Circuit | None) -> GraphSummary:
    """Returns the summary of a declared graph.

    Args:
      spec: the declaration.
      circuit: the engine; None before finalize.
    """
    sizes = {population.name: population.size for population in spec.populations}
    cycles = _cycles(spec)
    populations = tuple(
        _population_summary(population, cycles.get(population.name), circuit)
        for population in spec.populations
    )
    connections = tuple(_connection_summary(c, sizes, circuit) for c in spec.connections)
    if circuit is None:
        return GraphSummary(populations, connections, None, None, None)
    linear = {
        (c.share, "" if c.share else c.name): _linear_parameters(c, (sizes[c.src], sizes[c.dst]))
        for c in spec.connections
        if not c.has_transform
    }
    parameters = sum(linear.values()) + _parameters(*circuit.groups.values(), circuit.delays)
    buffers = sum(population.buffer_bytes or 0 for population in populations)
    return GraphSummary(populations, connections, parameters, _parameters(circuit), buffers)


def _cycles(spec: GraphSpec) -> dict[str, int]:
    """Numbers the strongly connected components in which something comes back, from 0."""
    edges = [(c.src, c.dst) for c in spec.connections]
    looped = {a for a, b in edges if a == b}
    groups = [g for g in strong_components(spec.names, edges) if len(g) > 1 or g[0] in looped]
    return {name: number for number, group in enumerate(groups) for name in group}


def _population_summary(
    population: Population, cycle: int | None, circuit: Circuit | None
) -> PopulationSummary:
    name, activation = population.name, population.activation
    level = parameters = buffer_bytes = None
    if circuit is not None:
        array, _, _ = circuit.packing.places[name]
        assert array is not None
        level = array[1]  # of ("level", number), or of another array of the same level
        length = circuit.packing.plan.ring_lengths.get(name, 0)
        buffer_bytes = length * population.size * np.dtype(circuit.float_type).itemsize
        modules = circuit.aggregates, circuit.computes
        parameters = _parameters(*(m.children[name] for m in modules if m and name in m.children))
    return PopulationSummary(
        name=name,
        size=population.size,
        role=role_of(population),
        activation=None if activation is None else _activation_name(activation),
        compute=module_name(population.compute),
        sign=population.sign,
        aggregate=module_name(population.aggregate),
        level=level,
        cycle=cycle,
        parameters=parameters,
        buffer_bytes=buffer_bytes,
    )


def _connection_summary(
    connection: Connection, sizes: dict[str, int], circuit: Circuit | None
) -> ConnectionSummary:
    src, dst = sizes[connection.src], sizes[connection.dst]
    delay, parameters = connection.delay, None
    if not connection.has_transform:
        parameters = _linear_parameters(connection, (src, dst))
    elif circuit is not None:
        transform = circuit.transform_of(connection)
        assert transform is not None
        parameters = _parameters(transform)
    if parameters is not None and isinstance(delay, LearnableDelay):
        parameters += src if delay.per_unit else 1
    return ConnectionSummary(
        name=connection.name,
        src=connection.src,
        dst=connection.dst,
        delay=delay,
        transform=module_name(connection.transform),
        connectivity=kind_name(connection.connectivity),
        share=connection.share,
        frozen=connection.frozen,
        shape=(src, dst),
        parameters=parameters,
    )


def _linear_parameters(connection: Connection, shape: tuple[int, int]) -> int:
    connectivity = connection.connectivity
    if connection.frozen:
        return 0
    if isinstance(connectivity, LowRank):
        return sum(shape) * connectivity.rank + shape[1]
    kernel = (
        math.prod(shape)
        if connectivity is None
        else int(mask_of(connectivity, connection.name, *shape).sum())
    )
    return kernel + shape[1]


def _activation_name(activation: Activation) -> str:
    return name_of_activation(activation) or function_name(activation)


def _parameters(*modules: nnx.Module) -> int:
    """How many numbers the parameters of modules hold; what several have counts once."""
    found = {}
    for module in modules:
        for _, variable in nnx.iter_graph(module):
            if isinstance(variable, nnx.Param):
                found[id(variable)] = variable.get_value()
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(found))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
