"""Graphs of neural populations with delayed connections, as stateful modules for Flax NNX."""

from ._drawing import draw_graph
from ._graph import PopulationGraph
from ._spec import Activation, Connection, GraphSpec, Population
from ._view import ConnectionView, ParameterView

__all__ = [
    "Activation",
    "Connection",
    "ConnectionView",
    "GraphSpec",
    "ParameterView",
    "Population",
    "PopulationGraph",
    "draw_graph",
]
