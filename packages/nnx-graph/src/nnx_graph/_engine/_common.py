"""Weights that do not lie in the block that multiplies by them."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Key

from .._declaration._connectivity import LowRank, mask_of
from .._declaration._delay import is_weighted
from .._declaration._spec import Connection, GraphSpec


class FrozenWeight(nnx.Variable):
    """Weights that no optimiser sees."""


class CommonWeights(nnx.Module):
    """Weights that do not lie in the block that multiplies by them.

    These are kernels that several connections share, those of connections that read their source
    with several delays, and factors of low rank.

    Args:
      spec: the declaration.
      key: of the graph; each connection folds in its number.

    Attributes:
      kernels: (size of src, size of dst) for each name that connections share, then for each other
        connection of several taps.
      biases: (size of dst,) for each name that connections share.
      left: (size of src, rank) for each connection of low rank.
      right: (rank, size of dst) for each.
    """

    def __init__(self, spec: GraphSpec, key: Key[Array, ""]):
        sizes = {p.name: p.size for p in spec.populations}
        linear = [c for c in spec.connections if not c.has_transform]
        several = [c for c in linear if is_weighted(c.delay)]
        self._shares = tuple(dict.fromkeys(c.share for c in linear if c.share))
        self._several = tuple(c.name for c in several if not (c.share or _is_low_rank(c)))
        self._factored = tuple(c.name for c in linear if _is_low_rank(c))
        first = {c.share: c for c in reversed(linear) if c.share}
        by_name = {c.name: c for c in spec.connections}
        number = {name: place for place, name in enumerate(by_name)}

        def key_of(connection: Connection) -> Key[Array, ""]:
            return jax.random.fold_in(key, number[connection.name])

        def keys_of(connection: Connection) -> Key[Array, "2"]:
            return jax.random.split(key_of(connection))

        def kernel_of(connection: Connection) -> nnx.Variable:
            kind = FrozenWeight if connection.frozen else nnx.Param
            ends = sizes[connection.src], sizes[connection.dst]
            return kind(_initial(key_of(connection), connection, *ends))

        shared = [first[share] for share in self._shares]
        factored = [by_name[name] for name in self._factored]
        own = [by_name[name] for name in self._several]
        self.kernels = nnx.List([kernel_of(c) for c in (*shared, *own)])
        self.biases = nnx.List([nnx.Param(jnp.zeros(sizes[c.dst], jnp.float32)) for c in shared])
        ranks = [c.connectivity.rank for c in factored if isinstance(c.connectivity, LowRank)]
        ends = list(zip(factored, ranks, strict=True))
        self.left = nnx.List(
            [nnx.Param(_lecun(keys_of(c)[0], (sizes[c.src], rank))) for c, rank in ends]
        )
        self.right = nnx.List(
            [nnx.Param(_lecun(keys_of(c)[1], (rank, sizes[c.dst]))) for c, rank in ends]
        )

    def kernel(self, connection: Connection) -> nnx.Variable | None:
        """The kernel of a connection, if it is here and no product."""
        place = self._kernel_place(connection)
        return None if place is None else self.kernels[place]

    def bias(self, connection: Connection) -> nnx.Param:
        """The bias that a connection shares."""
        return self.biases[self._shares.index(connection.share)]

    def factors(self, connection: Connection) -> tuple[nnx.Param, nnx.Param]:
        """The factors of a connection of low rank."""
        place = self._factored.index(connection.name)
        return self.left[place], self.right[place]

    def values(self) -> tuple[Float[Array, " kernels"], Float[Array, " biases"]]:
        """All kernels one after the other, those of low rank last, and all biases."""
        products = [
            left[...] @ right[...] for left, right in zip(self.left, self.right, strict=True)
        ]
        kernels = [kernel[...] for kernel in self.kernels] + products
        biases = [bias[...] for bias in self.biases]
        return _flat(kernels), _flat(biases)

    def places(self, connection: Connection) -> tuple[int | None, int | None]:
        """Where the kernel and bias of a connection begin in :meth:`values`; None if elsewhere."""
        bias = None
        if connection.share:
            before = self._shares.index(connection.share)
            bias = sum(bias[...].size for bias in self.biases[:before])
        if _is_low_rank(connection):
            before = self._factored.index(connection.name)
            earlier = zip(self.left[:before], self.right[:before], strict=True)
            start = sum(kernel[...].size for kernel in self.kernels)
            return start + sum(a.shape[0] * b.shape[1] for a, b in earlier), bias
        place = self._kernel_place(connection)
        if place is None:
            return None, bias
        return sum(kernel[...].size for kernel in self.kernels[:place]), bias

    def _kernel_place(self, connection: Connection) -> int | None:
        if connection.share:
            return self._shares.index(connection.share)
        if connection.name in self._several:
            return len(self._shares) + self._several.index(connection.name)
        return None


def _is_low_rank(connection: Connection) -> bool:
    return isinstance(connection.connectivity, LowRank)


def _lecun(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "height width"]:
    return nnx.initializers.lecun_normal()(key, shape, jnp.float32)


def deviation(connection: Connection, height: int, width: int) -> Float[np.ndarray, " width"]:
    """Standard deviation of the initial weights into each unit: LeCun's, for its real inputs."""
    if connection.connectivity is None:
        return np.full(width, height**-0.5)
    mask = mask_of(connection.connectivity, connection.name, height, width)
    return np.maximum(mask.sum(axis=0), 1) ** -0.5


def _initial(
    key: Key[Array, ""], connection: Connection, height: int, width: int
) -> Float[Array, "height width"]:
    gain = height**0.5 * deviation(connection, height, width)
    return _lecun(key, (height, width)) * gain.astype(np.float32)


def _flat(arrays: list[Array]) -> Float[Array, " all"]:
    return jnp.concatenate([array.reshape(-1) for array in arrays]) if arrays else jnp.zeros(0)
