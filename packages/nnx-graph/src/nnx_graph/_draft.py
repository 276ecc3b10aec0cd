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
from ._declaration._hints import shown, which_name
from ._declaration._limits import Limits, check_delay_limits, check_limits
from ._declaration._module_maker import ModuleMaker
from ._declaration._plain import Items
from ._declaration._registry import Place
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
from ._declaration._weight_checks import check_binding, check_options, check_sign, warn_of_signs
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
      limits: of what may be declared.
    """

    def __init__(self, rngs: nnx.Rngs, compute_dtype: np.dtype | None, limits: Limits):
        self._rngs = rngs
        self._compute_dtype = compute_dtype
        self._limits = limits
        self._units = 0
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
        where = f"{owner}: size of {shown(name)}"
        size = checked_size(where, population.size)
        self._limits.check(owner, "max_populations", len(self._populations) + 1)
        self._limits.check(where, "max_units", self._units + size)
        activation = checked_activation(name, population.activation)
        if population.input_from is not None:
            check_name(owner, f"input_from of {shown(name)}", population.input_from)
        if population.output_to is not None:
            what = f"output_to of {shown(name)}"
            check_entry(f"{owner}.add_output", what, population.output_to, self._entries)
        if compute is not None:
            check_module(f"compute of {shown(name)}", compute)
        check_sign(f"{owner}: sign of {shown(name)}", population.sign)
        if population.output_to is not None:
            self._entries[population.output_to] = name
        self._units += size
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
        where_delay = f"PopulationGraph: delay of {shown(src)} to {shown(dst)}"
        delay = checked_delay(where_delay, connection.delay)
        check_delay_limits(where_delay, delay, self._limits)
        count = len(self._connections) + (2 if reciprocal is True else 1)
        self._limits.check(where, "max_connections", count)
        if transform is not None:
            check_module(f"transform of {shown(src)} to {shown(dst)}", transform)
        where = f"{where}({shown(src)}, {shown(dst)})"
        connection = dataclasses.replace(connection, delay=delay, transform=_reference(transform))
        check_options(where, connection)
        if not isinstance(reciprocal, bool):
            raise TypeError(
                f"{where}: reciprocal: expected True or False, got {shown(reciprocal)} of type "
                f"{type(reciprocal).__name__}; pass a bool"
            )
        if reciprocal:
            check_reciprocal(connection, transform)
        both = [connection, dataclasses.replace(connection, src=dst, dst=src)][: 1 + reciprocal]
        first = self._shares.get(connection.share or "", connection)
        for one in both:
            where_delay = f"PopulationGraph: delay of {shown(one.src)} to {shown(one.dst)}"
            check_delay_of(where_delay, one.delay, self._populations[one.src].size)
            check_binding(where, one, self._populations, first)
        for one in both:
            self._add(one, transform)

    def add_spec(self, spec: GraphSpec, modules: Mapping[str, StatefulModule]) -> None:
        """Adds all that is declared elsewhere; ``modules`` are those that it holds unnamed."""
        owner = "PopulationGraph.from_spec"
        check_is_spec(owner, spec)
        if not isinstance(modules, Mapping):
            raise TypeError(
                f"{owner}: modules: expected a dict of modules by population or connection, got "
                f"{shown(modules)} of type {type(modules).__name__}; write {{name: module}}"
            )
        check_spec(
            spec,
            [f"{owner}: populations[{place}]" for place in range(len(spec.populations))],
            [f"{owner}: connections[{place}]" for place in range(len(spec.connections))],
        )
        check_limits(owner, spec, self._limits)
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
        weights = check_limits("PopulationGraph.finalize", spec, self._limits)
        warn_of_signs(spec)
        for population in spec.populations:
            check_activation_shape(population)
        made = ModuleMaker(self._rngs, self._limits, weights)
        key = self._rngs.params()
        computes, transforms, aggregates = {}, {}, {}
        shared: dict[str, StatefulModule] = {}
        for p in spec.populations:
            if p.compute is not None:
                module = self._module(made, p.compute, "compute", p.name, (p.size, p.size))
                check_compute(p, module)
                computes[p.name] = module
        for c in spec.connections:
            if c.transform is not None:
                sizes = (self._populations[c.src].size, self._populations[c.dst].size)
                module = shared.get(c.share or "")
                if module is None:
                    module = self._module(made, c.transform, "transform", c.name, sizes)
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
                what = f"aggregation of {shown(p.name)}"
                module = made.aggregation(what, p.aggregate, count, p.size)
                check_aggregation(p, module, count)
                aggregates[p.name] = module
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

    def _module(
        self,
        made: ModuleMaker,
        reference: Named | Unnamed,
        place: Place,
        name: str,
        sizes: tuple[int, int],
    ) -> StatefulModule:
        """Returns the module of a population or connection; makes it if it has a name."""
        if isinstance(reference, Unnamed):
            return self._modules[name]
        return made.module(f"{place} of {shown(name)}", reference, place, sizes)


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
                f"has no name, got {shown(name)}; {which_name(name, sorted(unnamed))}"
            )
    for name in declared:
        if name in unnamed and name not in modules:
            what, module = declared[name]
            assert isinstance(module, Unnamed)
            raise ValueError(
                f"{owner}: {what} of {shown(name)}: expected an instance of {module.class_name}, "
                "got "
                f"none; pass modules={{{shown(name)}: ...}}, or register it and declare it by name"
            )
    first: dict[int, str] = {}
    for name, (what, module) in declared.items():
        if not isinstance(module, Unnamed) or module.instance is None:
            continue
        alike = first.setdefault(module.instance, name)
        if modules[name] is not modules[alike]:
            raise ValueError(
                f"{owner}: {what} of {shown(name)}: expected the instance of {shown(alike)}, with "
                f"which it is shared, got another; pass one {module.class_name} for both"
            )
    return {name: modules.get(name, module) for name, (_, module) in declared.items()}
