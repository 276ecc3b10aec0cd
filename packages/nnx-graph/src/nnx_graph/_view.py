"""Views of single connections into the packed weights of a graph."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array
from nnx_stateful import StatefulModule

from ._declaration._arrays import as_jax_array
from ._declaration._connectivity import LowRank
from ._declaration._delay import LearnableDelay
from ._declaration._hints import shown
from ._declaration._numbers import whole_number
from ._declaration._spec import Connection
from ._declaration._validation import check_name
from ._engine._circuit import Circuit
from ._engine._delays import DelaySpread, parameter_for
from ._engine._weights import Weights


class ParameterView:
    """A part of a parameter that is read and written in place, as ``view[...]``.

    Args:
      parameter: the variable that holds the part, and to which is written.
      part: index of what belongs to the view.
      acting: returns the part as it acts, where that is not what the parameter holds.
      stored: returns what the parameter holds for a part as it acts, where that is not the same.

    Example:
      >>> from flax import nnx
      >>> import jax.numpy as jnp
      >>> packed = nnx.Param(jnp.zeros((3, 2)))
      >>> view = ParameterView(packed, slice(1, 3))
      >>> view[0] = 7.0
      >>> packed[...].tolist()
      [[0.0, 0.0], [7.0, 7.0], [0.0, 0.0]]
    """

    def __init__(
        self,
        parameter: nnx.Variable,
        part: Any = ...,
        acting: Callable[[], Array] | None = None,
        stored: Callable[[Array], Array] | None = None,
    ):
        self._parameter = parameter
        self._part = part
        self._acting = acting or (lambda: self._parameter[...][self._part])
        self._stored = stored

    def seen_as(self, acting: Callable[[], Array]) -> "ParameterView":
        """The same view, read in another way."""
        return ParameterView(self._parameter, self._part, acting)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the part."""
        return self[...].shape

    @property
    def dtype(self) -> Any:
        """Dtype of the parameter."""
        return self._parameter[...].dtype

    def __getitem__(self, index: Any) -> Array:
        return self._acting()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._part is None:
            raise ValueError(
                "PopulationGraph: expected a kernel that can be written, got one of low rank, "
                "which is a product; write the view's factors"
            )
        whole = self._parameter[...]
        value = as_jax_array("PopulationGraph: weights", "an array of numbers", value)
        if jnp.issubdtype(value.dtype, jnp.complexfloating):
            raise TypeError(
                f"PopulationGraph: weights: expected real numbers, got {value.dtype}; pass the "
                "real part"
            )
        own = jax.eval_shape(lambda: self[index])
        if not _fits(value.shape, own.shape):
            raise ValueError(
                f"PopulationGraph: weights: expected shape {own.shape}, or one that broadcasts to "
                f"it, got {value.shape}; reshape the array"
            )
        if self._stored is not None:
            acting = self._acting()
            part = self._stored(acting.at[index].set(jnp.asarray(value, acting.dtype)))
            self._parameter[...] = whole.at[self._part].set(part)
            return
        part = whole[self._part].at[index].set(jnp.asarray(value, whole.dtype))
        self._parameter[...] = whole.at[self._part].set(part)

    def __jax_array__(self) -> Array:
        return self[...]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        return np.asarray(self[...], dtype=dtype)

    def __repr__(self) -> str:
        return f"ParameterView({self[...]!r})"


def _fits(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Whether an array of a shape broadcasts to another shape."""
    try:
        return np.broadcast_shapes(shape, into) == into
    except ValueError:
        return False


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

        It is read as it acts: masked, and with the sign of its source. Writing changes what is
        behind that: the magnitude counts where there is a sign, and what is masked stays zero.
        Connections that share a kernel share what is written.

        Raises:
          ValueError: if the connection has a custom transform.
        """
        weights, (region, _) = self._locate("kernel")
        common = self._circuit.common.kernel(self.connection)
        if isinstance(self.connection.connectivity, LowRank):
            behind = ParameterView(weights.kernel, None)
        elif common is not None:
            behind = ParameterView(*common)
        elif self.connection.frozen:
            behind = ParameterView(weights.frozen_kernel, region)
        else:
            behind = ParameterView(weights.kernel, region)
        size = self._circuit.packing.plan.populations[self.connection.src].size
        return behind.seen_as(lambda: self._acting(weights)[0][region][:size])

    @property
    def bias(self) -> ParameterView:
        """(size of dst,), of a default connection.

        Raises:
          ValueError: if the connection has a custom transform.
        """
        weights, (_, region) = self._locate("bias")
        if self.connection.share:
            return ParameterView(self._circuit.common.bias(self.connection))
        return ParameterView(
            weights.frozen_bias if self.connection.frozen else weights.bias, region
        )

    @property
    def factors(self) -> tuple[ParameterView, ParameterView]:
        """(size of src, rank) and (rank, size of dst), of a connection of low rank.

        Raises:
          ValueError: if the connection is not one.
        """
        if not isinstance(self.connection.connectivity, LowRank):
            raise ValueError(
                f"PopulationGraph: factors of {shown(self.connection.name)}: expected a "
                "connection of "
                f"low rank, got connectivity={shown(self.connection.connectivity)}; use the view's "
                "kernel"
            )
        left, right = self._circuit.common.factors(self.connection)
        return ParameterView(left), ParameterView(right)

    @property
    def delay(self) -> ParameterView:
        """The delay in steps, of a connection with a learnable one: (), or (size of src,).

        Writing a value at a bound, or beyond, stays a hundredth of a step inside.

        Raises:
          ValueError: if the delay does not learn.
        """
        delay, (parameter, _, place) = self._learnable("delay")
        return ParameterView(
            parameter,
            place,
            acting=lambda: self._circuit.delays.steps(self.connection),
            stored=lambda steps: parameter_for(delay, steps),
        )

    @property
    def delay_spread(self) -> ParameterView:
        """The spread of a learnable delay in steps, (), at least 1; see :class:`LearnableDelay`.

        It is no parameter; write it to narrow it while training.

        Raises:
          ValueError: if the delay does not learn.
        """
        _, (_, spreads, place) = self._learnable("delay_spread")
        return ParameterView(spreads, place)

    def _learnable(self, what: str) -> tuple[LearnableDelay, tuple[nnx.Param, DelaySpread, int]]:
        delay = self.connection.delay
        if not isinstance(delay, LearnableDelay):
            raise ValueError(
                f"PopulationGraph: {what} of {shown(self.connection.name)}: expected a learnable "
                "delay, "
                f"got {delay}, which is fixed; it is in the view's connection, or connect with "
                "delay=LearnableDelay(...)"
            )
        return delay, self._circuit.delays.of(self.connection)

    @property
    def transform(self) -> StatefulModule | None:
        """The custom transform; None for a default connection."""
        return self._circuit.transform_of(self.connection)

    def _acting(self, weights: Weights) -> tuple[Array, Array]:
        return weights.values(self._circuit.common.values(), None)

    def _locate(self, what: str) -> Any:
        name = self.connection.name
        if self.connection.has_transform:
            raise ValueError(
                f"PopulationGraph: {what} of {shown(name)}: expected a default connection, got one "
                f"with the transform {type(self.transform).__name__}; use the view's transform"
            )
        return self._circuit.weights_of(self.connection)

    def __repr__(self) -> str:
        return f"ConnectionView({self.connection!r})"


def find_connection(circuit: Circuit, src: str, dst: str, index: int) -> ConnectionView:
    """Returns the view of a connection.

    Raises:
      ValueError: if there is none; the message lists those that share an end.
      TypeError: if a name is no str, or the index no int.
    """
    where = "PopulationGraph.connection"
    check_name(where, "the name of the source", src)
    check_name(where, "the name of the destination", dst)
    index = whole_number(f"{where}: index", index, 0, "it counts parallel connections")
    connections = circuit.packing.plan.spec.connections
    for connection in connections:
        if (connection.src, connection.dst, connection.index) == (src, dst, index):
            return ConnectionView(circuit, connection)
    near = [c.name for c in connections if c.src == src or c.dst == dst]
    raise ValueError(
        f"{where}: expected a connection of the graph, got {shown(src)} to {shown(dst)} with index "
        f"{shown(index)}; {f'there are {near}' if near else 'neither name begins or ends one'}"
    )
