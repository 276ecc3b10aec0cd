"""Helpers for tests of graphs: an interpreter in NumPy, random graphs, and a probe module.

Needs Hypothesis.
"""

from ._oracle import NUMPY_ACTIVATIONS, interpret
from ._probe import LeakyProbe, RowCount
from ._strategies import GraphDescription, build_graph, done_masks, graph_descriptions

__all__ = [
    "NUMPY_ACTIVATIONS",
    "GraphDescription",
    "LeakyProbe",
    "RowCount",
    "build_graph",
    "done_masks",
    "graph_descriptions",
    "interpret",
]
