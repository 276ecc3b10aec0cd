"""Map: every child sees the entry of its own name."""

from .._output import PyTree
from .._routing import Call
from ._named import NamedContainer, entry


class Map(NamedContainer):
    """Runs each child on the input's entry of the same name; outputs a dict by name.

    Entries that no child consumes are dropped.

    Raises:
      KeyError: on call, if the input lacks the entry of a child.

    Example:
      >>> import jax.numpy as jnp
      >>> from nnx_stateful import Scale
      >>> double = Map(arm=Scale(2.0))
      >>> double(
      ...     double.initialize_state(2), {"arm": jnp.ones((2, 1)), "leg": jnp.ones((2, 1))}
      ... ).output
      {'arm': Array([[2.],
             [2.]], dtype=float32)}
    """

    def route(self, call: Call, x: PyTree) -> PyTree:
        return {name: call(name, entry(self, x, name)) for name in self.child_names}
