"""Views of single connections into the packed weights of a graph."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array
from nnx_stateful import StatefulModule

from ._circuit import Circuit
from ._spec import Connection


class ParameterView:
    """A part of a parameter that is read and written in place, as ``view[...]``.

    Args:
      parameter: the parameter that holds the part.
      part: index of what belongs to the view.

    Example:
      >>> from flax import nnx
      >>> import jax.numpy as jnp
      >>> packed = nnx.Param(jnp.zeros((3, 2)))
      >>> view = ParameterView(packed, slice(1, 3))
      >>> view[0] = 7.0
      >>> packed[...].tolist()
      [[0.0, 0.0], [7.0, 7.0], [0.0, 0.0]]
    """

    def __init__(self, parameter: nnx.Param, part: Any):
        self._parameter = parameter
        self._part = part

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the part."""
        return self[...].shape

    @property
    def dtype(self) -> Any:
        """Dtype of the parameter."""
        return self._parameter[...].dtype

    def __getitem__(self, index: Any) -> Array:
        return self._parameter[...][self._part][index]

    def __setitem__(self, index: Any, value: Any) -> None:
        whole = self._parameter[...]
        part = whole[self._part].at[index].set(jnp.asarray(value, whole.dtype))
        self._parameter[...] = whole.at[self._part].set(part)

    def __jax_array__(self) -> Array:
        return self[...]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        return np.asarray(self[...], dtype=dtype)

    def __repr__(self) -> str:
        return f"ParameterView({self[...]!r})"


class ConnectionView:
    """One connection of a finalized graph: its declaration and its own weights.

    Weights are read and written as ``view.kernel[...]``; whatever else the graph packs beside
    them stays as it is.

    Args:
      circuit: the engine of the graph.
      connection: the declaration.
    """

    def __init__(self, circuit: Circuit, connection: Connection):
        self._circuit = circuit
        self.connection = connection

    @property
    def kernel(self) -> ParameterView:
        """(size of src, size of dst), of a default connection.

        Raises:
          ValueError: if the connection has a custom transform.
        """
        weights, (region, _) = self._locate("kernel")
        return ParameterView(weights.kernel, region)

    @property
    def bias(self) -> ParameterView:
        """(size of dst,), of a default connection.

        Raises:
          ValueError: if the connection has a custom transform.
        """
        weights, (_, region) = self._locate("bias")
        return ParameterView(weights.bias, region)

    @property
    def transform(self) -> StatefulModule | None:
        """The custom transform; None for a default connection."""
        if self._circuit.transforms is None:
            return None
        return self._circuit.transforms.children.get(self.connection.name)

    def _locate(self, what: str) -> Any:
        name = self.connection.name
        if self.connection.has_transform:
            raise ValueError(
                f"PopulationGraph: {what} of {name!r}: expected a default connection, got one "
                f"with the transform {type(self.transform).__name__}; use the view's transform"
            )
        return self._circuit.weights_of(self.connection)

    def __repr__(self) -> str:
        return f"ConnectionView({self.connection!r})"


def find_connection(circuit: Circuit, src: str, dst: str, index: int) -> ConnectionView:
    """Returns the view of a connection.

    Raises:
      ValueError: if there is none; the message lists those that share an end.
    """
    connections = circuit.packing.plan.spec.connections
    for connection in connections:
        if (connection.src, connection.dst, connection.index) == (src, dst, index):
            return ConnectionView(circuit, connection)
    near = [c.name for c in connections if c.src == src or c.dst == dst]
    raise ValueError(
        f"PopulationGraph.connection: expected a connection of the graph, got {src!r} to {dst!r} "
        f"with index {index}; {f'there are {near}' if near else 'neither name begins or ends one'}"
    )
