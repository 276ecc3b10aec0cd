"""A graph under construction: what has been declared so far."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from flax import nnx
from nnx_stateful import StatefulModule

from ._declaration._aggregation import is_module
from ._declaration._check_spec import check_is_spec, check_spec
from ._declaration._delay import check_delay_of, checked_delay
from ._declaration._hints import which_name
from ._declaration._plain import Items
from ._declaration._registry import Place, make_aggregation, make_module
from ._declaration._spec import Connection, GraphSpec, Named, Population, Unnamed
from ._declaration._validation import (
    check_activation_shape,
    check_aggregation,
    check_compute,
    check_entry,
    check_graph,
    check_known,
    check_messages,
    check_module,
    check_name,
    check_population_name,
    check_reciprocal,
    check_transform,
    checked_activation,
    checked_size,
)
from ._declaration._weight_checks import check_binding, check_options, check_sign
from ._engine._circuit import Circuit
from ._engine._packer import pack
from ._engine._plan import lower

ModuleLike = StatefulModule | Named | str
"""A module, or the name of a registered one, with options or without."""


class Draft:
    """Collects declarations and builds the engine from them.

    Takes one key for all default connections, at the end. Modules that are declared by name are
    made after it, first the computes, then the transforms, then the aggregations, each in the order
    of declaration; so
    the same declaration has the same weights, whatever the order of its populations and
    connections among each other.

    Args:
      rngs: the random streams of the network; used while declaring, and not kept by the engine.
      compute_dtype: type of the operands of products; None for their own.
    """

    def __init__(self, rngs: nnx.Rngs, compute_dtype: np.dtype | None = None):
        self._rngs = rngs
        self._compute_dtype = compute_dtype
        self._populations: dict[str, Population] = {}
        self._connections: list[Connection] = []
        self._parallel: dict[tuple[str, str], int] = {}
        self._entries: dict[str, str] = {}  # population by entry of the output
        self._shares: dict[str, Connection] = {}  # the first of each name that weights have
        self._modules: dict[str, StatefulModule] = {}  # by population or connection
        self._attributes: Items = ()

    def add_population(self, population: Population, compute: ModuleLike | None) -> None:
        """Adds a population, checked."""
        name, owner = population.name, "PopulationGraph"
        check_population_name(owner, name, self._populations)
        size = checked_size(f"{owner}: size of {name!r}", population.size)
        activation = checked_activation(name, population.activation)
        if population.input_from is not None:
            check_name(owner, f"input_from of {name!r}", population.input_from)
        if population.output_to is not None:
            what = f"output_to of {name!r}"
            check_entry(f"{owner}.add_output", what, population.output_to, self._entries)
        if compute is not None:
            check_module(f"compute of {name!r}", compute)
        check_sign(f"{owner}: sign of {name!r}", population.sign)
        if population.output_to is not None:
            self._entries[population.output_to] = name
        self._populations[name] = dataclasses.replace(
            population,
            size=size,
            activation=activation,
            compute=self._keep(name, compute),
        )

    def add_connection(
        self, connection: Connection, transform: ModuleLike | None, reciprocal: bool = False
    ) -> None:
        """Adds a connection, checked, and the reverse of it where it is reciprocal."""
        src, dst, where = connection.src, connection.dst, "PopulationGraph.connect"
        check_known(where, "source", src, self._populations)
        check_known(where, "destination", dst, self._populations)
        delay = checked_delay(f"PopulationGraph: delay of {src!r} to {dst!r}", connection.delay)
        if transform is not None:
            check_module(f"transform of {src!r} to {dst!r}", transform)
        where = f"{where}({src!r}, {dst!r})"
        connection = dataclasses.replace(connection, delay=delay, transform=_reference(transform))
        check_options(where, connection)
        if reciprocal:
            check_reciprocal(connection, transform)
        both = [connection, dataclasses.replace(connection, src=dst, dst=src)][: 1 + reciprocal]
        first = self._shares.get(connection.share or "", connection)
        for one in both:
            where_delay = f"PopulationGraph: delay of {one.src!r} to {one.dst!r}"
            check_delay_of(where_delay, one.delay, self._populations[one.src].size)
            check_binding(where, one, self._populations, first)
        for one in both:
            self._add(one, transform)

    def add_spec(self, spec: GraphSpec, modules: Mapping[str, StatefulModule]) -> None:
        """Adds all that is declared elsewhere; ``modules`` are those that it holds unnamed."""
        owner = "PopulationGraph.from_spec"
        check_is_spec(owner, spec)
        check_spec(
            spec,
            [f"{owner}: populations[{place}]" for place in range(len(spec.populations))],
            [f"{owner}: connections[{place}]" for place in range(len(spec.connections))],
        )
        declared = {p.name: ("compute", p.compute) for p in spec.populations}
        declared |= {c.name: ("transform", c.transform) for c in spec.connections}
        given = _place_modules(owner, declared, modules)
        for population in spec.populations:
            self.add_population(population, given[population.name])
        for connection in spec.connections:
            self.add_connection(connection, given[connection.name])
        self._attributes = spec.attributes

    @property
    def spec(self) -> GraphSpec:
        """The declaration so far."""
        populations = tuple(self._populations.values())
        return GraphSpec(populations, self._numbered_connections(), self._attributes)

    def _numbered_connections(self) -> tuple[Connection, ...]:
        """The connections; those that have an instance in common say which."""
        used: dict[int, list[str]] = {}  # connections by identity of their module
        for connection in self._connections:
            if connection.name in self._modules:
                used.setdefault(id(self._modules[connection.name]), []).append(connection.name)
        shared = [names for names in used.values() if len(names) > 1]
        number = {name: place for place, names in enumerate(shared) for name in names}

        def numbered(connection: Connection) -> Connection:
            transform = connection.transform
            if connection.name not in number or not isinstance(transform, Unnamed):
                return connection
            transform = dataclasses.replace(transform, instance=number[connection.name])
            return dataclasses.replace(connection, transform=transform)

        return tuple(map(numbered, self._connections))

    def build(self) -> Circuit:
        """Checks the graph as a whole and returns its engine."""
        spec = self.spec
        check_graph(spec)
        for population in spec.populations:
            check_activation_shape(population)
        key = self._rngs.params()
        computes, transforms, aggregates = {}, {}, {}
        shared: dict[str, StatefulModule] = {}
        for p in spec.populations:
            if p.compute is not None:
                module = self._module(p.compute, "compute", p.name, p.size, p.size)
                check_compute(p, module)
                computes[p.name] = module
        for c in spec.connections:
            if c.transform is not None:
                sizes = (self._populations[c.src].size, self._populations[c.dst].size)
                module = shared.get(c.share or "")
                if module is None:
                    module = self._module(c.transform, "transform", c.name, *sizes)
                    check_transform(c, module, spec)
                if c.share is not None:
                    shared[c.share] = module
                transforms[c.name] = module
        plan = lower(spec)
        for p in spec.populations:
            count = len(plan.incoming[p.name])
            if p.aggregate is not None:
                check_messages(p, count)
            if p.aggregate is not None and is_module(p.aggregate):
                aggregates[p.name] = self._aggregation(p, p.aggregate, count)
        return Circuit(pack(plan), key, transforms, aggregates, computes, self._compute_dtype)

    def _add(self, connection: Connection, transform: ModuleLike | None) -> None:
        ends = connection.src, connection.dst
        index = self._parallel.get(ends, 0)
        connection = dataclasses.replace(connection, index=index, transform=None)
        if transform is not None:
            reference = self._keep(connection.name, transform)
            connection = dataclasses.replace(connection, transform=reference)
        self._parallel[ends] = index + 1
        self._connections.append(connection)
        if connection.share is not None:
            self._shares.setdefault(connection.share, connection)

    def _keep(self, name: str, module: ModuleLike | None) -> Named | Unnamed | None:
        """Returns what the declaration says of a module; keeps it if it is an instance."""
        if isinstance(module, StatefulModule):
            self._modules[name] = module
        return _reference(module)

    def _aggregation(self, population: Population, named: Named, count: int) -> StatefulModule:
        """Makes the module that joins so many messages."""
        try:
            module = make_aggregation(named, count, population.size, self._rngs)
        except Exception as error:
            error.add_note(
                f"PopulationGraph.finalize: in the aggregation of {population.name!r}, {named!r}"
            )
            raise
        check_aggregation(population, module, count)
        return module

    def _module(
        self, reference: Named | Unnamed, place: Place, name: str, inputs: int, outputs: int
    ) -> StatefulModule:
        """Returns the module of a population or connection; makes it if it has a name."""
        if isinstance(reference, Unnamed):
            return self._modules[name]
        what = f"{place} of {name!r}"
        try:
            module = make_module(reference, place, inputs, outputs, self._rngs)
        except Exception as error:
            error.add_note(
                f"PopulationGraph.finalize: in the {what}, {reference!r}, made for {inputs} and "
                f"{outputs} features"
            )
            raise
        if not isinstance(module, StatefulModule):
            raise TypeError(
                f"PopulationGraph.finalize: {what}: expected {reference!r} to make a "
                f"StatefulModule, got {type(module).__name__}; register a function that returns one"
            )
        return module


def _reference(module: ModuleLike | None) -> Named | Unnamed | None:
    """What the declaration says of a module."""
    if isinstance(module, StatefulModule):
        return Unnamed(type(module).__name__)
    return Named(module) if isinstance(module, str) else module


def _place_modules(
    owner: str,
    declared: Mapping[str, tuple[str, Named | Unnamed | None]],
    modules: Mapping[str, StatefulModule],
) -> dict[str, Any]:
    """Finds the module, name or None of each population and connection."""
    unnamed = {name for name, (_, module) in declared.items() if isinstance(module, Unnamed)}
    for name in modules:
        if name not in unnamed:
            raise ValueError(
                f"{owner}: modules: expected the name of a population or connection whose module "
                f"has no name, got {name!r}; {which_name(str(name), sorted(unnamed))}"
            )
    for name in declared:
        if name in unnamed and name not in modules:
            what, module = declared[name]
            assert isinstance(module, Unnamed)
            raise ValueError(
                f"{owner}: {what} of {name!r}: expected an instance of {module.class_name}, got "
                f"none; pass modules={{{name!r}: ...}}, or register it and declare it by name"
            )
    first: dict[int, str] = {}
    for name, (what, module) in declared.items():
        if not isinstance(module, Unnamed) or module.instance is None:
            continue
        alike = first.setdefault(module.instance, name)
        if modules[name] is not modules[alike]:
            raise ValueError(
                f"{owner}: {what} of {name!r}: expected the instance of {alike!r}, with which it "
                f"is shared, got another; pass one {module.class_name} for both"
            )
    return {name: modules.get(name, module) for name, (_, module) in declared.items()}
