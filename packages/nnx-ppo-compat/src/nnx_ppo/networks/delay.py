"""The delay layer."""

from nnx_stateful import Delay

__all__ = ["Delay"]
