"""Hypothesis strategies for graphs: descriptions are drawn, modules are built from them."""

import jax.numpy as jnp
from flax import nnx
from hypothesis import strategies as st

from .._declaration._spec import Connection, Population, Unnamed
from ._description import GraphDescription

SIZES = (1, 3)
DELAYS = (0, 1, 2, 4)
ACTIVATIONS = (None, jnp.tanh, nnx.swish)
PROBE = Unnamed("LeakyProbe")


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
        compute=PROBE
        if role == "internal" and draw(st.sampled_from((False, False, True)))
        else None,
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
    transform = PROBE if custom else None
    return Connection(src=ends[0], dst=ends[1], delay=delay, index=parallel, transform=transform)
