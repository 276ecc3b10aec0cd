"""Graphs of populations."""

from nnx_graph import PopulationGraph

__all__ = ["PopulationGraph"]
