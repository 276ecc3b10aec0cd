"""Graphs as data: what a test draws or writes down, and how a graph is built from it."""

import dataclasses
from typing import Any

import numpy as np
from flax import nnx

from .._declaration._spec import Connection, Population, Unnamed
from .._graph import PopulationGraph
from ._probe import LeakyProbe


@dataclasses.dataclass(frozen=True)
class GraphDescription:
    """What a random graph is built from.

    Attributes:
      populations: in the order of declaration; one with a compute gets a LeakyProbe.
      connections: in the order of declaration; one with a transform gets a LeakyProbe, the same
        for equal sizes if it is an instance with a number.
    """

    populations: tuple[Population, ...]
    connections: tuple[Connection, ...]

    @property
    def probes(self) -> dict[str, tuple[int, int]]:
        """Input and output sizes of the custom modules, by connection or population name."""
        sizes = {p.name: p.size for p in self.populations}
        transforms = {
            c.name: (sizes[c.src], sizes[c.dst]) for c in self.connections if c.has_transform
        }
        computes = {p.name: (p.size, p.size) for p in self.populations if p.has_compute}
        return transforms | computes

    def inputs(self, rng: np.random.Generator, *lead: int) -> dict[str, np.ndarray]:
        """Draws float64 observation entries with the given leading axes."""
        return {
            p.input_from: rng.normal(size=(*lead, p.size))
            for p in self.populations
            if p.input_from is not None
        }


def build_graph(
    description: GraphDescription, seed: int = 0
) -> tuple[PopulationGraph, dict[str, LeakyProbe]]:
    """Builds the graph of a description, with random biases too, and its custom modules.

    Args:
      description: drawn by :func:`graph_descriptions`, or written by hand.
      seed: of the weights.

    Returns:
      The finalized graph, and the probes by connection or population name.

    Example:
      >>> both = (
      ...     Population(name="a", size=1, input_from="x"),
      ...     Population(name="b", size=1, output_to="b"),
      ... )
      >>> graph, probes = build_graph(GraphDescription(both, (Connection(src="a", dst="b"),)))
      >>> graph.spec.names, probes
      (('a', 'b'), {})
    """
    graph = PopulationGraph(nnx.Rngs(seed))
    probes = {name: LeakyProbe(*sizes) for name, sizes in description.probes.items()}
    shared: dict[tuple[int, int], LeakyProbe] = {}
    for c in description.connections:
        if isinstance(c.transform, Unnamed) and c.transform.instance is not None:
            probes[c.name] = shared.setdefault(description.probes[c.name], probes[c.name])
    for p in description.populations:
        own: dict[str, Any] = {"activation": p.activation, "aggregate": p.aggregate}
        if p.input_from is not None:
            graph.add_input(p.name, p.size, input_from=p.input_from, **own)
        elif p.output_to is not None:
            graph.add_output(p.name, p.size, output_to=p.output_to, **own)
        else:
            graph.add_population(p.name, p.size, compute=probes.get(p.name), **own)
    for c in description.connections:
        graph.connect(c.src, c.dst, delay=c.delay, transform=probes.get(c.name))
    graph.finalize()
    rng = np.random.default_rng(seed)
    for c in description.connections:
        if not c.has_transform:
            bias = graph.connection(c.src, c.dst, c.index).bias
            bias[...] = rng.normal(size=bias.shape)
    return graph, probes
