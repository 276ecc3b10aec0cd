"""The command line: ``nnx-ppo train``, ``eval``, ``resume`` and ``envs``."""

from ._main import main

__all__ = ["main"]
