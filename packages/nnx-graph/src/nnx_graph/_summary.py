"""A summary of a graph: records for programs, tables for readers."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from flax import nnx

from ._circuit import Circuit
from ._order import strong_components
from ._registry import name_of_activation
from ._spec import Activation, Connection, GraphSpec, Population
from ._table import Table
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
      level: within a step a level waits for the levels before it alone; None before finalize.
      cycle: a number that it shares with the populations which it reaches, over connections of
        any delay, and which reach it; None if its output never comes back.
      parameters: of the compute module; None before finalize.
      buffer_bytes: of its past outputs in a ring buffer, per batch row; None before finalize.
    """

    name: str
    size: int
    role: str
    activation: str | None
    compute: str | None
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
      delay: in steps.
      transform: name or class of its own module; None for a linear map.
      shape: sizes of source and destination.
      parameters: of the linear map, with its bias, or of the module; of a module None before
        finalize.
    """

    name: str
    src: str
    dst: str
    delay: int
    transform: str | None
    shape: tuple[int, int]
    parameters: int | None


@dataclasses.dataclass(frozen=True, repr=False)
class GraphSummary:
    """A graph in tables, plain with ``print``, and as wide as the terminal with rich's ``print``.

    Attributes:
      populations: in the order of declaration.
      connections: in the order of declaration.
      parameters: of everything; a module that is used twice counts once. None before finalize.
      stored_parameters: the same with the padding of packed weights; None before finalize.
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
        inputs, outputs = (
            _count(roles.count("input"), "input"),
            _count(roles.count("output"), "output"),
        )
        return (
            f"PopulationGraph: {_count(len(roles), 'population')} ({inputs}, {outputs}), "
            f"{_count(len(self.connections), 'connection')}"
        )

    def _totals(self) -> str:
        if self.parameters is None:
            return "not finalized: levels, buffers and parameters of custom modules are not known"
        stored = f", {self.stored_parameters:,} stored" * (
            self.stored_parameters != self.parameters
        )
        return (
            f"{_count(self.parameters, 'parameter')}{stored}; "
            f"{self.buffer_bytes:,} bytes of buffers per batch row"
        )

    def _tables(self) -> list[Table]:
        populations = tuple(
            (*dataclasses.astuple(p)[:-2], p.parameters or None, p.buffer_bytes or None)
            for p in self.populations
        )
        connections = tuple(
            (c.name, c.delay, c.transform or "linear", "{} to {}".format(*c.shape), c.parameters)
            for c in self.connections
        )
        titles = ("population", "size", "role", "activation", "compute", "level", "cycle")
        tables = [Table((*titles, "parameters", "bytes per row"), populations)]
        if connections:
            titles = ("connection", "delay", "transform", "shape", "parameters")
            tables.append(Table(titles, connections))
        return tables


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
    stored = _parameters(circuit)
    packed = sum(_parameters(weights) for weights in circuit.weights)
    linear = sum(c.parameters or 0 for c in connections if c.transform is None)
    buffers = sum(population.buffer_bytes or 0 for population in populations)
    return GraphSummary(populations, connections, stored - packed + linear, stored, buffers)


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
        _, level = circuit.packing.places[name][0]  # the key of an array, as of ("level", 2)
        length = circuit.packing.plan.ring_lengths.get(name, 0)
        buffer_bytes = length * population.size * np.dtype(circuit.float_type).itemsize
        computes = circuit.groups.get("computes")
        parameters = _parameters(computes.children[name]) if computes and population.compute else 0
    return PopulationSummary(
        name=name,
        size=population.size,
        role=role_of(population),
        activation=None if activation is None else _activation_name(activation),
        compute=module_name(population.compute),
        level=level,
        cycle=cycle,
        parameters=parameters,
        buffer_bytes=buffer_bytes,
    )


def _connection_summary(
    connection: Connection, sizes: dict[str, int], circuit: Circuit | None
) -> ConnectionSummary:
    src, dst = sizes[connection.src], sizes[connection.dst]
    if not connection.has_transform:
        parameters = src * dst + dst
    elif circuit is None:
        parameters = None
    else:
        parameters = _parameters(circuit.groups["transforms"].children[connection.name])
    return ConnectionSummary(
        name=connection.name,
        src=connection.src,
        dst=connection.dst,
        delay=connection.delay,
        transform=module_name(connection.transform),
        shape=(src, dst),
        parameters=parameters,
    )


def _activation_name(activation: Activation) -> str:
    return name_of_activation(activation) or function_name(activation)


def _parameters(module: nnx.Module) -> int:
    leaves = jax.tree.leaves(nnx.state(module, nnx.Param))
    return sum(math.prod(leaf.shape) for leaf in leaves)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
