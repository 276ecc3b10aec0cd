"""Parallel: the same input to every child."""

from .._output import PyTree
from .._routing import Call
from ._named import NamedContainer


class Parallel(NamedContainer):
    """Runs every child on the same input; outputs a dict by child name.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> from nnx_stateful import Dense
      >>> heads = Parallel(action=Dense(3, 4, nnx.Rngs(0)), value=Dense(3, 1, nnx.Rngs(1)))
      >>> out = heads(heads.initialize_state(2), jnp.ones((2, 3))).output
      >>> {name: head.shape for name, head in out.items()}
      {'action': (2, 4), 'value': (2, 1)}
    """

    def route(self, call: Call, x: PyTree) -> PyTree:
        return {name: call(name, x) for name in self.child_names}
