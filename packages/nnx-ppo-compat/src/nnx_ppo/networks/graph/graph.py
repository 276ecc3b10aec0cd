"""Graphs of populations, under the longer of their two published paths."""

from nnx_graph import PopulationGraph

__all__ = ["PopulationGraph"]
