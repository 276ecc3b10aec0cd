"""What binds the weights of connections: masks, signs, frozen values, and common weights."""

import dataclasses
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from .._declaration._connectivity import LowRank, mask_of
from .._declaration._spec import Connection, GraphSpec, Sign
from ._packing import Block

SIGNS: dict[Sign, int] = {"excitatory": 1, "inhibitory": -1}


class Structure(nnx.Variable):
    """A part of what a graph is that no training changes."""


class FrozenWeight(nnx.Variable):
    """Weights that no optimiser sees."""


class CommonWeights(nnx.Module):
    """Weights that do not lie where they are used: shared ones, and factors of low rank.

    Args:
      spec: the declaration.
      key: of the graph; each connection folds in its number.

    Attributes:
      kernels: (size of src, size of dst) for each name that connections share.
      biases: (size of dst,) for each.
      left: (size of src, rank) for each connection of low rank.
      right: (rank, size of dst) for each.
    """

    def __init__(self, spec: GraphSpec, key: Key[Array, ""]):
        sizes = {p.name: p.size for p in spec.populations}
        self._shares = tuple(dict.fromkeys(c.share for c in spec.connections if c.share))
        self._factored = tuple(c.name for c in spec.connections if _is_low_rank(c))
        first = {c.share: c for c in reversed(spec.connections) if c.share}
        by_name = {c.name: c for c in spec.connections}
        number = {name: place for place, name in enumerate(by_name)}

        def key_of(connection: Connection) -> Key[Array, ""]:
            return jax.random.fold_in(key, number[connection.name])

        def keys_of(connection: Connection) -> Key[Array, "2"]:
            return jax.random.split(key_of(connection))

        shared = [first[share] for share in self._shares]
        factored = [by_name[name] for name in self._factored]
        self.kernels = nnx.List(
            [nnx.Param(_initial(key_of(c), c, sizes[c.src], sizes[c.dst])) for c in shared]
        )
        self.biases = nnx.List([nnx.Param(jnp.zeros(sizes[c.dst], jnp.float32)) for c in shared])
        ranks = [c.connectivity.rank for c in factored if isinstance(c.connectivity, LowRank)]
        ends = list(zip(factored, ranks, strict=True))
        self.left = nnx.List(
            [nnx.Param(_lecun(keys_of(c)[0], (sizes[c.src], rank))) for c, rank in ends]
        )
        self.right = nnx.List(
            [nnx.Param(_lecun(keys_of(c)[1], (rank, sizes[c.dst]))) for c, rank in ends]
        )

    def kernel(self, connection: Connection) -> nnx.Param:
        """The kernel that a connection shares."""
        return self.kernels[self._shares.index(connection.share)]

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
        if connection.share:
            before = self._shares.index(connection.share)
            return (
                sum(kernel[...].size for kernel in self.kernels[:before]),
                sum(bias[...].size for bias in self.biases[:before]),
            )
        if _is_low_rank(connection):
            before = self._factored.index(connection.name)
            earlier = zip(self.left[:before], self.right[:before], strict=True)
            start = sum(kernel[...].size for kernel in self.kernels)
            return start + sum(a.shape[0] * b.shape[1] for a, b in earlier), None
        return None, None


@dataclasses.dataclass(frozen=True)
class Constraints:
    """What binds the weights of a block; arrays as its kernel and bias, None where nothing does.

    Attributes:
      mask: (n, rows, columns), true where there is a weight.
      signs: (n, rows, 1): 1 or -1 where the source has a sign, otherwise 0.
      frozen_kernel: true where the weight is frozen.
      frozen_bias: (n, R, columns).
      borrowed_kernel: index among the common weights, -1 where the weight is the block's own.
      borrowed_bias: the same for the bias.
      deviation: standard deviation of the initial weights: LeCun's, for the inputs that there are.
    """

    mask: Bool[np.ndarray, "n rows columns"] | None
    signs: Int[np.ndarray, "n rows 1"] | None
    frozen_kernel: Bool[np.ndarray, "n rows columns"] | None
    frozen_bias: Bool[np.ndarray, "n R columns"] | None
    borrowed_kernel: Int[np.ndarray, "n rows columns"] | None
    borrowed_bias: Int[np.ndarray, "n R columns"] | None
    deviation: Float[np.ndarray, "n rows columns"]

    @classmethod
    def of(
        cls,
        block: Block,
        spec: GraphSpec,
        common: CommonWeights,
        regions: Iterable[tuple[Connection, tuple, tuple]],
        bias_shape: tuple[int, int, int],
    ) -> "Constraints":
        """Collects what binds a block.

        Args:
          block: whose weights.
          spec: the declaration.
          common: the common weights.
          regions: each connection of the block, and where its kernel and bias are.
          bias_shape: of the block's bias.
        """
        sizes = {p.name: p.size for p in spec.populations}
        sign = {p.name: SIGNS[p.sign] for p in spec.populations if p.sign}
        shape = len(block.reads), block.rows, block.columns
        mask, signs = np.ones(shape, bool), np.zeros((*shape[:2], 1), np.int32)
        frozen = np.zeros(shape, bool), np.zeros(bias_shape, bool)
        borrowed = np.full(shape, -1), np.full(bias_shape, -1)
        deviation = np.zeros(shape)
        for connection, kernel, bias in regions:
            size = sizes[connection.src], sizes[connection.dst]
            if connection.connectivity is not None:
                mask[kernel] = mask_of(connection.connectivity, connection.name, *size)
            deviation[kernel] = _deviation(connection, *size)
            signs[kernel[:2]] = sign.get(connection.src, 0)
            frozen[0][kernel] = frozen[1][bias] = connection.frozen
            of_kernel, of_bias = common.places(connection)
            if of_kernel is not None:
                borrowed[0][kernel] = of_kernel + np.arange(np.prod(size)).reshape(size)
            if of_bias is not None:
                borrowed[1][bias] = of_bias + np.arange(size[1])
        return cls(
            mask=None if mask.all() else mask,
            signs=signs if signs.any() else None,
            frozen_kernel=frozen[0] if frozen[0].any() else None,
            frozen_bias=frozen[1] if frozen[1].any() else None,
            borrowed_kernel=borrowed[0] if (borrowed[0] >= 0).any() else None,
            borrowed_bias=borrowed[1] if (borrowed[1] >= 0).any() else None,
            deviation=deviation,
        )


def _is_low_rank(connection: Connection) -> bool:
    return isinstance(connection.connectivity, LowRank)


def _lecun(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "height width"]:
    return nnx.initializers.lecun_normal()(key, shape, jnp.float32)


def _deviation(connection: Connection, height: int, width: int) -> Float[np.ndarray, " width"]:
    """Standard deviation of the initial weights into each unit: LeCun's, for its real inputs."""
    if connection.connectivity is None:
        return np.full(width, height**-0.5)
    mask = mask_of(connection.connectivity, connection.name, height, width)
    return np.maximum(mask.sum(axis=0), 1) ** -0.5


def _initial(
    key: Key[Array, ""], connection: Connection, height: int, width: int
) -> Float[Array, "height width"]:
    gain = height**0.5 * _deviation(connection, height, width)
    return _lecun(key, (height, width)) * gain.astype(np.float32)


def _flat(arrays: list[Array]) -> Float[Array, " all"]:
    return jnp.concatenate([array.reshape(-1) for array in arrays]) if arrays else jnp.zeros(0)
