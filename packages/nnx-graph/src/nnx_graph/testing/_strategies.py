"""Hypothesis strategies for graphs: descriptions are drawn, modules are built from them."""

import dataclasses

import jax.numpy as jnp
from flax import nnx
from hypothesis import strategies as st

from .._declaration._delay import Delay, LearnableDelay, shortest
from .._declaration._spec import Connection, Named, Population, Unnamed
from ._description import GraphDescription

SIZES = (1, 3)
DELAYS: tuple[Delay, ...] = (
    *(0, 1, 2, 4),
    *(0.5, 1.25, 1.75, 3.0),
    LearnableDelay(0, 2),
    LearnableDelay(1, 4, initial=2.3, spread=2.0),
    LearnableDelay(1, 4, initial=3.2),
    LearnableDelay(1, 2, per_unit=True),
)
"""Of all units; those of each unit are drawn besides. Some differ in their weights alone."""

AGGREGATES = (None, None, "mean", "max", "gated", Named("attention"))
"""How messages are joined; the more often something is here, the more often it is drawn."""
ACTIVATIONS = (None, jnp.tanh, nnx.swish)
PROBE = Unnamed("LeakyProbe")
SHARED_PROBE = Unnamed("LeakyProbe", 0)


@st.composite
def graph_descriptions(draw: st.DrawFn, max_populations: int = 5) -> GraphDescription:
    """Draws valid graphs: parallel connections, delays of all kinds, cycles, no inputs, ...

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
        delay = draw(_delays(populations[src].size))
        if rank[src] >= rank[dst] and not shortest(delay):
            delay = 1
        transform = draw(st.sampled_from((None, None, None, PROBE, SHARED_PROBE)))
        connections.append(_connection(connections, populations, src, dst, delay, transform))
    driven = any(p.input_from for p in populations) or any(c.delay for c in connections)
    if not driven:
        connections.append(_connection(connections, populations, 0, 0, 1, None))
    reached = {c.dst for c in connections}
    populations = tuple(
        dataclasses.replace(p, aggregate=draw(_aggregates())) if p.name in reached else p
        for p in populations
    )
    return GraphDescription(populations, tuple(connections))


def _delays(size: int) -> st.SearchStrategy[Delay]:
    """Delays of all units, and sometimes one for each unit."""
    of_each = st.tuples(*[st.sampled_from((0, 1, 2.5, 3))] * size)
    return st.one_of(st.sampled_from(DELAYS), st.sampled_from(DELAYS), of_each)


def _aggregates() -> st.SearchStrategy[Named | None]:
    named = st.sampled_from(AGGREGATES)
    return named.map(lambda name: Named(name) if isinstance(name, str) else name)


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
    delay: Delay,
    transform: Unnamed | None,
) -> Connection:
    ends = populations[src].name, populations[dst].name
    parallel = sum((c.src, c.dst) == ends for c in existing)
    return Connection(src=ends[0], dst=ends[1], delay=delay, index=parallel, transform=transform)
