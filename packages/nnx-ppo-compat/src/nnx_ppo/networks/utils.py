"""Containers that pick, rename, join, flatten and scale."""

from nnx_stateful import Filter, Flattener, Map, Merge, Scale

__all__ = ["Filter", "Flattener", "Map", "Merge", "Scale"]
