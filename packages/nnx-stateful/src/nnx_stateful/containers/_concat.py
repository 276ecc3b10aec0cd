"""Concat: per-entry children, joined along the feature axis."""

import jax.numpy as jnp

from .._output import PyTree
from .._routing import Call
from ._named import NamedContainer, entry


class Concat(NamedContainer):
    """Runs each child on the input's entry of the same name and concatenates the outputs.

    The outputs, arrays (B, ...), are joined along their last axis in the order of construction.

    Raises:
      KeyError: on call, if the input lacks the entry of a child.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> from nnx_stateful import Dense
      >>> rngs = nnx.Rngs(0)
      >>> encoder = Concat(eye=Dense(6, 4, rngs), skin=Dense(2, 3, rngs))
      >>> x = {"eye": jnp.ones((5, 6)), "skin": jnp.ones((5, 2))}
      >>> encoder(encoder.initialize_state(5), x).output.shape
      (5, 7)
    """

    def route(self, call: Call, x: PyTree) -> PyTree:
        outputs = [call(name, entry(self, x, name)) for name in self.child_names]
        return jnp.concatenate(outputs, axis=-1)
