"""Layers without memory."""

from nnx_stateful import Dense

__all__ = ["Dense"]
