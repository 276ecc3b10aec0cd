"""Containers that run children one after the other or side by side."""

from nnx_stateful import Concat, Parallel, Sequential, Splitter

__all__ = ["Concat", "Parallel", "Sequential", "Splitter"]
