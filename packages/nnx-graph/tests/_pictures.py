"""Graphs to look at, and where pictures of them are drawn."""

import pytest
from flax import nnx
from nnx_graph import Connection, GraphSpec, Population, PopulationGraph

NASTY = (
    "end",
    'say "hi"',
    "two\nlines",
    "\té\x00",
    "a[b](c){d}<e>",
    "a\\",
    "`md`",
    "1. one",
    "- dash",
    "_em_ **b**",
    "subgraph",
    "$x$ & &lt; %%",
    "\\N",
    "a;b|c",
    "p0",
    " ",
)
"""Names that are markup, or reserved, somewhere."""


def spec_of(names, *connections):
    """Populations of one unit; connections as (source, destination, delay)."""
    return GraphSpec(
        tuple(Population(name=name, size=1) for name in names),
        tuple(Connection(src=a, dst=b, delay=delay) for a, b, delay in connections),
    )


def star(bodies):
    """Bodies around a root, in both directions, with a read-out."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_population("root", 4)
    for number in range(bodies):
        graph.add_input(f"body{number}", 2, input_from=f"b{number}")
        graph.connect(f"body{number}", "root", delay=1 + number % 3, reciprocal=True)
    graph.add_output("value", 1)
    graph.connect("root", "value")
    graph.connect("root", "root", delay=2)
    return graph


def new_figure(width=9, height=6):
    """A matplotlib figure that is drawn in memory; skips the test without matplotlib."""
    agg = pytest.importorskip("matplotlib.backends.backend_agg")
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(width, height))
    return figure, agg.FigureCanvasAgg(figure)
