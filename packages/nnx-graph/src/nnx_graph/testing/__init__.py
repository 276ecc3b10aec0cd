"""Helpers for tests of graphs: an interpreter in NumPy, random graphs, and a probe module.

Only the random graphs need hypothesis (``pip install nnx-graph[testing]``).
"""

from typing import TYPE_CHECKING, Any

from ._description import GraphDescription, build_graph
from ._oracle import NUMPY_ACTIVATIONS, interpret
from ._probe import LeakyProbe, RowCount

if TYPE_CHECKING:
    from ._strategies import graph_descriptions

__all__ = [
    "NUMPY_ACTIVATIONS",
    "GraphDescription",
    "LeakyProbe",
    "RowCount",
    "build_graph",
    "graph_descriptions",
    "interpret",
]


def __getattr__(name: str) -> Any:
    if name == "graph_descriptions":
        from . import _strategies

        return _strategies.graph_descriptions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
