"""The weights of a block: what all of its connections need, in two arrays."""

import itertools
from collections.abc import Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from ._packing import Block


class Weights(nnx.Module):
    """Kernels and biases of the connections of a block.

    Args:
      block: what is computed.
      kernel: initial kernels, see :func:`draw_kernels`.

    Attributes:
      kernel: (n, rows, columns) for the n products of the block.
      bias: (n, R, columns): one row for each of the R connections that a column sums.
    """

    def __init__(self, block: Block, kernel: Float[Array, "n rows columns"]):
        self.block = block
        count = len(block.reads)
        self.kernel = nnx.Param(kernel)
        reads = max(map(len, block.reads))
        self.bias = nnx.Param(jnp.zeros((count, reads, block.columns), jnp.float32))

    @property
    def places(self) -> dict[str, tuple[int, int, int, int]]:
        """Product, first row, place among the reads and first column of each connection."""
        return dict(self.block.connections)

    def region(self, name: str, width: int) -> tuple[tuple, tuple]:
        """Returns where a connection's kernel and bias are, as indices of the two arrays.

        Args:
          name: of the connection.
          width: size of its destination.
        """
        product, row, place, column = self.places[name]
        _, height = self.block.reads[product][place]
        columns = slice(column, column + width)
        return (product, slice(row, row + height), columns), (product, place, columns)

    def total_bias(self) -> Float[Array, " columns"]:
        """The sum of the biases of each column, (n * columns,)."""
        bias = self.bias[...]
        counts = np.array([len(reads) for reads in self.block.reads])
        real = np.arange(bias.shape[1]) < counts[:, None]
        summed = jnp.sum(jnp.where(real[..., None], bias, 0), axis=1)
        return summed.reshape(-1)


def product(
    kernel: Float[Array, "n rows columns"], x: Float[Array, "*lead read"]
) -> Float[Array, "*lead sums"]:
    """Multiplies what each product reads, (*lead, n * rows), to (*lead, n * columns)."""
    count, rows, columns = kernel.shape
    if count == 1:
        y = x.reshape((-1, rows)) @ kernel[0]  # one product over time and batch together
    else:
        y = jnp.einsum("bni,nio->bno", x.reshape((-1, count, rows)), kernel)
    return y.reshape((*x.shape[:-1], count * columns))


def draw_kernels(
    blocks: Sequence[Block], keys: Mapping[str, Key[Array, ""]]
) -> list[Float[Array, "n rows columns"]]:
    """Draws the initial kernels of all blocks, in one program.

    Each connection is initialised as a linear layer of its own: LeCun normal. Biases are zero.

    Args:
      blocks: what is computed.
      keys: one for each connection, by name.
    """
    names, places = _places(blocks)

    def draw(keys: Mapping[str, Array], places: list[np.ndarray]) -> list[Array]:
        drawn = []
        for shape, members in names.items():  # all of one shape, whichever blocks they are in
            stacked = jnp.stack([keys[name] for name in members])
            init = partial(nnx.initializers.lecun_normal(), shape=shape, dtype=jnp.float32)
            drawn.append(jax.vmap(init)(stacked).reshape(-1))
        weights = jnp.concatenate([*drawn, jnp.zeros(1, jnp.float32)])  # the last one is padding
        return [weights[own] for own in places]

    return jax.jit(draw)(dict(keys), places)


def _places(
    blocks: Sequence[Block],
) -> tuple[dict[tuple[int, int], list[str]], list[Int[np.ndarray, "n rows columns"]]]:
    """Orders connections by shape; then which weight of all is where in the kernels, -1 if none."""
    places = [np.full((len(b.reads), b.rows, b.columns), -1) for b in blocks]
    by_shape: dict[tuple[int, int], list[tuple[str, np.ndarray]]] = {}
    for block, place_of in zip(blocks, places, strict=True):
        sizes = _destination_sizes(block)
        for name, (index, row, place, column) in block.connections:
            height, width = block.reads[index][place][1], sizes[index][column]
            own = place_of[index, row : row + height, column : column + width]
            by_shape.setdefault((height, width), []).append((name, own))
    count = 0
    for members in by_shape.values():
        for _, own in members:
            own[...] = count + np.arange(own.size).reshape(own.shape)
            count += own.size
    return {shape: [name for name, _ in m] for shape, m in by_shape.items()}, places


def _destination_sizes(block: Block) -> list[dict[int, int]]:
    """The width of the destination that begins at a column, for each product."""
    starts: list[set[int]] = [set() for _ in block.reads]
    for _, (index, _, _, column) in block.connections:
        starts[index].add(column)
    sizes = []
    for begins in starts:
        edges = [*sorted(begins), block.columns]
        sizes.append({a: b - a for a, b in itertools.pairwise(edges)})
    return sizes
