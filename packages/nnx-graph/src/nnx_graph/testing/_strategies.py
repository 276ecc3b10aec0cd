"""Hypothesis strategies for graphs: descriptions are drawn, modules are built from them."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from flax import nnx
from hypothesis import strategies as st

from .._graph import PopulationGraph
from .._spec import Connection, Population
from ._probe import LeakyProbe

SIZES = (1, 3)
DELAYS = (0, 1, 2, 4)
ACTIVATIONS = (None, jnp.tanh, nnx.swish)


@dataclasses.dataclass(frozen=True)
class GraphDescription:
    """What a random graph is built from.

    Attributes:
      populations: in the order of declaration; a ``has_compute`` one gets a LeakyProbe.
      connections: in the order of declaration; a ``has_transform`` one gets a LeakyProbe.
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
      >>> both = (Population(name="a", size=1, input_from="x"), Population(name="b", size=1,
      ...     output_to="b"))
      >>> graph, probes = build_graph(GraphDescription(both, (Connection(src="a", dst="b"),)))
      >>> graph.spec.names, probes
      (('a', 'b'), {})
    """
    graph = PopulationGraph(nnx.Rngs(seed))
    probes = {name: LeakyProbe(*sizes) for name, sizes in description.probes.items()}
    for p in description.populations:
        if p.input_from is not None:
            graph.add_input(p.name, p.size, input_from=p.input_from, activation=p.activation)
        elif p.output_to is not None:
            graph.add_output(p.name, p.size, output_to=p.output_to, activation=p.activation)
        else:
            graph.add_population(
                p.name, p.size, activation=p.activation, compute=probes.get(p.name)
            )
    for c in description.connections:
        graph.connect(c.src, c.dst, delay=c.delay, transform=probes.get(c.name))
    graph.finalize()
    rng = np.random.default_rng(seed)
    for c in description.connections:
        if not c.has_transform:
            bias = graph.connection(c.src, c.dst, c.index).bias
            bias[...] = rng.normal(size=bias.shape)
    return graph, probes


@st.composite
def graph_descriptions(draw: st.DrawFn, max_populations: int = 5) -> GraphDescription:
    """Draws valid graphs: parallel connections, cycles over delays, self-loops, no inputs, ...

    Args:
      draw: given by Hypothesis.
      max_populations: at least 1.

    Example:
      >>> graph_descriptions().example()  # doctest: +SKIP
      GraphDescription(populations=(Population(name='p0', size=3, ...), ...), connections=...)
    """
    count = draw(st.integers(1, max_populations))
    rank = draw(st.permutations(range(count)))  # the order that delay-0 connections respect
    populations = tuple(_population(draw, number) for number in range(count))
    if not any(p.output_to for p in populations):
        populations = (*populations, Population(name="out", size=1, output_to="out"))
        rank = [*rank, count]
    connections = []
    for _ in range(draw(st.integers(0, 2 * count))):
        src = draw(st.integers(0, len(populations) - 1))
        dst = draw(st.integers(0, len(populations) - 1))
        delay = draw(st.sampled_from(DELAYS))
        if rank[src] >= rank[dst]:
            delay = max(delay, 1)
        custom = draw(st.sampled_from((False, False, False, True)))
        connections.append(_connection(connections, populations, src, dst, delay, custom))
    driven = any(p.input_from for p in populations) or any(c.delay for c in connections)
    if not driven:
        connections.append(_connection(connections, populations, 0, 0, 1, False))
    return GraphDescription(populations, tuple(connections))


def _population(draw: st.DrawFn, number: int) -> Population:
    role = draw(st.sampled_from(("input", "internal", "output")))
    size = draw(st.sampled_from(SIZES))
    return Population(
        name=f"p{number}",
        size=size,
        activation=draw(st.sampled_from(ACTIVATIONS)),
        input_from=f"x{size}" if role == "input" else None,
        output_to=f"y{number}" if role == "output" else None,
        has_compute=role == "internal" and draw(st.sampled_from((False, False, True))),
    )


def _connection(
    existing: list[Connection],
    populations: tuple[Population, ...],
    src: int,
    dst: int,
    delay: int,
    custom: bool,
) -> Connection:
    ends = populations[src].name, populations[dst].name
    parallel = sum((c.src, c.dst) == ends for c in existing)
    return Connection(
        src=ends[0], dst=ends[1], delay=delay, index=parallel, has_transform=custom
    )


def done_masks(steps: int, rows: int) -> st.SearchStrategy[np.ndarray]:
    """Draws (T, B) masks of episode ends: none, all, single ones and random ones."""

    def mask(rate: float, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).random((steps, rows)) < rate

    return st.builds(mask, st.sampled_from((0.0, 0.15, 0.4, 1.0)), st.integers(0, 2**16))
