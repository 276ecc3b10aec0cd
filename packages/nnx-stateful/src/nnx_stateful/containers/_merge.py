"""Merge: the same input to every child, their dicts joined into one."""

from .._output import PyTree
from .._routing import Call
from ._named import NamedContainer


class Merge(NamedContainer):
    """Runs every child on the same input and joins the dicts they return into one flat dict.

    Raises:
      TypeError: on call, if a child returns something other than a dict.
      ValueError: on call, if two children return the same key.

    Example:
      >>> import jax.numpy as jnp
      >>> from nnx_stateful import Splitter
      >>> heads = Merge(a=Splitter(left=1), b=Splitter(right=2))
      >>> sorted(heads(heads.initialize_state(2), jnp.ones((2, 3))).output)
      ['left', 'right']
    """

    def route(self, call: Call, x: PyTree) -> PyTree:
        merged: dict[str, PyTree] = {}
        origin: dict[str, str] = {}
        for name in self.child_names:
            output = call(name, x)
            if not isinstance(output, dict):
                raise TypeError(
                    f"Merge: child {name!r}: expected a dict output, got {type(output).__name__}; "
                    "end it with a Splitter or Filter, or use Parallel"
                )
            for key, value in output.items():
                if key in merged:
                    raise ValueError(
                        f"Merge: children {origin[key]!r} and {name!r} both return the entry "
                        f"{key!r}; expected distinct keys, rename one with a Filter"
                    )
                merged[key], origin[key] = value, name
        return merged
