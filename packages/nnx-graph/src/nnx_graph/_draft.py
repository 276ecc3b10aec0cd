"""A graph under construction: what has been declared so far."""

import dataclasses

import jax
from flax import nnx
from nnx_stateful import StatefulModule

from ._circuit import Circuit
from ._packer import pack
from ._plan import lower
from ._spec import Connection, GraphSpec, Population
from ._validation import (
    check_activation,
    check_activation_shape,
    check_compute,
    check_graph,
    check_known,
    check_module,
    check_name,
    check_population_name,
    check_transform,
    whole_number,
)


class Draft:
    """Collects declarations and builds the engine from them. Takes one key per connection.

    Args:
      rngs: the random streams of the network; used while declaring, and not kept by the engine.
    """

    def __init__(self, rngs: nnx.Rngs):
        self._rngs = rngs
        self._populations: dict[str, Population] = {}
        self._connections: list[Connection] = []
        self._computes: dict[str, StatefulModule] = {}
        self._transforms: dict[str, StatefulModule] = {}
        self._keys: dict[str, jax.Array] = {}

    def add_population(self, population: Population, compute: StatefulModule | None) -> None:
        """Adds a population, checked."""
        name = population.name
        check_population_name(name, self._populations)
        size = whole_number(f"size of {name!r}", population.size, 1, "give its number of units")
        check_activation(name, population.activation)
        if population.input_from is not None:
            check_name(f"input_from of {name!r}", population.input_from)
        if population.output_to is not None:
            self._check_output_entry(population)
        if compute is not None:
            check_module(f"compute of {name!r}", compute)
            self._computes[name] = compute
        self._populations[name] = dataclasses.replace(
            population, size=size, has_compute=compute is not None
        )

    def check_ends(self, src: str, dst: str) -> None:
        """Raises unless both ends of a connection exist."""
        check_known("source", src, self._populations)
        check_known("destination", dst, self._populations)

    def add_connection(
        self, src: str, dst: str, delay: int, transform: StatefulModule | None
    ) -> None:
        """Adds a connection between populations that exist."""
        parallel = sum((c.src, c.dst) == (src, dst) for c in self._connections)
        connection = Connection(
            src=src, dst=dst, delay=delay, index=parallel, has_transform=transform is not None
        )
        if transform is None:
            self._keys[connection.name] = self._rngs.params()
        else:
            self._transforms[connection.name] = transform
        self._connections.append(connection)

    @property
    def spec(self) -> GraphSpec:
        """The declaration so far."""
        return GraphSpec(tuple(self._populations.values()), tuple(self._connections))

    def build(self) -> Circuit:
        """Checks the graph as a whole and returns its engine."""
        spec = self.spec
        check_graph(spec)
        for population in spec.populations:
            check_activation_shape(population)
            if population.has_compute:
                check_compute(population, self._computes[population.name])
        for connection in spec.connections:
            if connection.has_transform:
                check_transform(connection, self._transforms[connection.name], spec)
        return Circuit(pack(lower(spec)), self._keys, self._transforms, self._computes)

    def _check_output_entry(self, population: Population) -> None:
        entry = population.output_to
        check_name(f"output_to of {population.name!r}", entry)
        for other in self._populations.values():
            if other.output_to == entry:
                raise ValueError(
                    f"PopulationGraph.add_output: output_to of {population.name!r}: expected an "
                    f"entry of its own, got {entry!r}, which holds the output of {other.name!r}; "
                    "choose another output_to"
                )
