"""Weights that do not lie in the block that multiplies by them."""

import math
from typing import Any

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
      kernels: (size of src, size of dst) for each name that connections share.
      spanning: (n, size of src, size of dst) for the other connections of several taps, those of
        equal sizes together, frozen ones apart.
      biases: (size of dst,) for each name that connections share.
      left: (size of src, rank) for each connection of low rank.
      right: (rank, size of dst) for each.
    """

    def __init__(self, spec: GraphSpec, key: Key[Array, ""]):
        sizes = {p.name: p.size for p in spec.populations}
        linear = [c for c in spec.connections if not c.has_transform]
        spanning: dict[tuple[int, int, bool], list[Connection]] = {}
        for c in linear:
            if is_weighted(c.delay) and not (c.share or _is_low_rank(c)):
                spanning.setdefault((sizes[c.src], sizes[c.dst], c.frozen), []).append(c)
        self._spanning = tuple(
            (c.name, (number, place))
            for number, group in enumerate(spanning.values())
            for place, c in enumerate(group)
        )
        self._shares = tuple(dict.fromkeys(c.share for c in linear if c.share))
        self._factored = tuple(c.name for c in linear if _is_low_rank(c))
        first = {c.share: c for c in reversed(linear) if c.share}
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
        self.spanning = nnx.List(
            [
                (FrozenWeight if frozen else nnx.Param)(
                    _initial_kernels(key, [number[c.name] for c in group], group, height, width)
                )
                for (height, width, frozen), group in spanning.items()
            ]
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

    def kernel(self, connection: Connection) -> tuple[nnx.Variable, Any] | None:
        """The kernel of a connection and its index there, if it is here and no product."""
        if connection.share:
            return self.kernels[self._shares.index(connection.share)], ...
        found = dict(self._spanning).get(connection.name)
        return None if found is None else (self.spanning[found[0]], found[1])

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
        kernels = [kernel[...] for kernel in (*self.kernels, *self.spanning)] + products
        biases = [bias[...] for bias in self.biases]
        return _flat(kernels), _flat(biases)

    def places(self, connection: Connection) -> tuple[int | None, int | None]:
        """Where the kernel and bias of a connection begin in :meth:`values`; None if elsewhere."""
        kernels = [kernel[...].size for kernel in self.kernels]
        spanning = [kernel[...].shape for kernel in self.spanning]
        if connection.share:
            before = self._shares.index(connection.share)
            biases = [bias[...].size for bias in self.biases[:before]]
            return sum(kernels[:before]), sum(biases)
        if connection.name in dict(self._spanning):
            group, place = dict(self._spanning)[connection.name]
            start = sum(kernels) + sum(map(math.prod, spanning[:group]))
            return start + place * math.prod(spanning[group][1:]), None
        if _is_low_rank(connection):
            before = self._factored.index(connection.name)
            earlier = zip(self.left[:before], self.right[:before], strict=True)
            start = sum(kernels) + sum(map(math.prod, spanning))
            return start + sum(a.shape[0] * b.shape[1] for a, b in earlier), None
        return None, None


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


def _initial_kernels(
    key: Key[Array, ""], numbers: list[int], group: list[Connection], height: int, width: int
) -> Float[Array, "n height width"]:
    """Initial kernels of connections of equal sizes, each from the key of its number."""
    keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.asarray(numbers))
    gains = np.stack([height**0.5 * deviation(c, height, width) for c in group])
    kernels = jax.vmap(lambda own: _lecun(own, (height, width)))(keys)
    return kernels * gains[:, None].astype(np.float32)


def _flat(arrays: list[Array]) -> Float[Array, " all"]:
    return jnp.concatenate([array.reshape(-1) for array in arrays]) if arrays else jnp.zeros(0)
