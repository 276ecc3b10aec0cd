"""The weights of a block: kernels and biases of all of its connections, side by side."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Key
from nnx_stateful import multiply_rows, narrow

from ._common import FrozenWeight
from ._constraints import Constraints, Structure
from ._packing import Block

TRUNCATED_DEVIATION = 0.87962566103423978
"""Standard deviation of a standard normal number between -2 and 2."""


class Weights(nnx.Module):
    """Kernels and biases of the connections of a block.

    Args:
      block: what is computed.
      kernel: initial kernels, see :func:`draw_kernels`.
      constraints: what binds them.

    Attributes:
      kernel: (n, rows, columns) for the n products of the block.
      bias: (n, R, columns): one row for each of the R connections that a column sums.
      frozen_kernel: values that stand for those of ``kernel`` where they are frozen, or None.
      frozen_bias: the same for the bias.
    """

    def __init__(
        self, block: Block, kernel: Float[Array, "n rows columns"], constraints: Constraints
    ):
        self.block = block
        bias = jax.device_put(np.zeros(bias_shape(block), np.float32))  # compiles nothing
        self.kernel, self.bias = nnx.Param(kernel), nnx.Param(bias)
        frozen, frozen_bias = constraints.frozen_kernel, constraints.frozen_bias
        self.frozen_kernel = None if frozen is None else FrozenWeight(kernel)
        self.frozen_bias = None if frozen_bias is None else FrozenWeight(bias)
        self._mask = _structure(constraints.mask)
        self._signs = _structure(constraints.signs)
        self._is_frozen = _structure(frozen)
        self._is_frozen_bias = _structure(frozen_bias)
        self._borrowed = _structure(constraints.borrowed_kernel)
        self._borrowed_bias = _structure(constraints.borrowed_bias)
        self._taps = _structure(constraints.taps)

    @property
    def places(self) -> dict[str, tuple[int, int, int, int]]:
        """Product, first row, place among the reads and first column of each connection."""
        return dict(self.block.connections)

    def values(
        self,
        common: tuple[Float[Array, " kernels"], Float[Array, " biases"]],
        taps: Float[Array, " all"] | None,
    ) -> tuple[Float[Array, "n rows columns"], Float[Array, "n R columns"]]:
        """The kernel and bias as they act: borrowed, frozen, with their sign, masked, by tap.

        Args:
          common: values of the weights that are held in common.
          taps: the weights of all taps; None to leave them out.
        """
        kernel = _borrow(self.kernel[...], common[0], self._borrowed)
        kernel = _freeze(kernel, self.frozen_kernel, self._is_frozen)
        if self._signs is not None:
            signs = self._signs[...]
            kernel = jnp.where(signs == 0, kernel, signs * jnp.abs(kernel))
        if self._mask is not None:
            kernel = jnp.where(self._mask[...], kernel, 0)
        if self._taps is not None and taps is not None:
            index = self._taps[...]
            weights = jnp.take(taps, jnp.maximum(index, 0), mode="clip").astype(kernel.dtype)
            kernel = jnp.where(index < 0, kernel, kernel * weights)
        bias = _borrow(self.bias[...], common[1], self._borrowed_bias)
        return kernel, _freeze(bias, self.frozen_bias, self._is_frozen_bias)

    def total(self, bias: Float[Array, "n R columns"]) -> Float[Array, " columns"]:
        """The sum of the biases of each column, (n * columns,)."""
        counts = np.array([len(reads) for reads in self.block.reads])
        real = np.arange(bias.shape[1]) < counts[:, None]
        summed = jnp.sum(jnp.where(real[..., None], bias, 0), axis=1)
        return summed.reshape(-1)


def bias_shape(block: Block) -> tuple[int, int, int]:
    """(n, R, columns) of a block."""
    return len(block.reads), max(map(len, block.reads)), block.columns


def region(block: Block, where: tuple[int, int, int, int], width: int) -> tuple[tuple, tuple]:
    """Returns where a connection's kernel and bias are, as indices of the arrays of its block.

    Args:
      block: that computes it.
      where: the connection's product, first row, place among the reads and first column.
      width: size of its destination.
    """
    product, row, place, column = where
    _, height = block.reads[product][place]
    columns = slice(column, column + width)
    return (product, slice(row, row + height), columns), (product, place, columns)


def _structure(array: np.ndarray | None) -> Structure | None:
    return None if array is None else Structure(jax.device_put(array))


def _borrow(own: Array, common: Array, places: Structure | None) -> Array:
    if places is None:
        return own
    index = places[...]
    return jnp.where(index < 0, own, jnp.take(common, jnp.maximum(index, 0), mode="clip"))


def _freeze(own: Array, frozen: FrozenWeight | None, where: Structure | None) -> Array:
    if frozen is None or where is None:
        return own
    return jnp.where(where[...], frozen[...], own)


def product(
    kernel: Float[Array, "n rows columns"], x: Float[Array, "*lead read"], dtype: Any = None
) -> Float[Array, "*lead sums"]:
    """Multiplies what each product reads, (*lead, n * rows), to (*lead, n * columns).

    Args:
      kernel: of a block.
      x: what its products read, side by side.
      dtype: type that the operands are rounded to, in the gradients too; None for their own.
    """
    return _multiply(kernel, x) if dtype is None else _rounded_product(kernel, x, dtype)


def rounded_product(kernel: Array, x: Array, dtype: Any) -> Array:
    """As :func:`product`, but without the derivative: for use where that is written out."""
    if dtype is None:
        return _multiply(kernel, x)
    result = jnp.promote_types(kernel.dtype, x.dtype)
    return _multiply(narrow(kernel, dtype), narrow(x, dtype), result)


def _multiply(kernel: Array, x: Array, result: Any = None) -> Array:
    count, rows, columns = kernel.shape
    if count == 1 and result is None:  # one product over time and batch together
        y = multiply_rows(x, kernel[0])
    elif count == 1:  # the same, of rounded operands
        y = jnp.matmul(x.reshape((-1, rows)), kernel[0], preferred_element_type=result)
    else:
        apart = x.reshape((-1, count, rows))
        y = jnp.einsum("bni,nio->bno", apart, kernel, preferred_element_type=result)
    return y.reshape((*x.shape[:-1], count * columns))


def product_gradient(
    x: Float[Array, "time B read"], d_sums: Float[Array, "T B sums"], count: int, dtype: Any = None
) -> Float[Array, "n rows columns"]:
    """The kernels' gradient of :func:`product`, over time and batch at once.

    Args:
      x: what each product reads, (at least T, B, n * rows); what is beyond T does not count.
      d_sums: gradient of the sums, (T, B, n * columns).
      count: n.
      dtype: type that both are rounded to; None for their own.
    """
    beyond = x.shape[0] - d_sums.shape[0]
    if beyond and x.shape[-1] <= d_sums.shape[-1]:  # whichever is cheaper to copy
        x = x[: d_sums.shape[0]]
    elif beyond:
        d_sums = jnp.pad(d_sums, ((0, beyond), (0, 0), (0, 0)))
    return _kernel_gradient(x, d_sums, count, dtype)


def _kernel_gradient(x: Array, d_sums: Array, count: int, dtype: Any) -> Array:
    result = jnp.promote_types(x.dtype, d_sums.dtype)
    x, d_sums = narrow(x, dtype), narrow(d_sums, dtype)
    if count == 1:
        rows, sums = x.reshape((-1, x.shape[-1])), d_sums.reshape((-1, d_sums.shape[-1]))
        return jnp.matmul(rows.T, sums, preferred_element_type=result)[None]
    read = x.reshape((-1, count, x.shape[-1] // count))
    sums = d_sums.reshape((-1, count, d_sums.shape[-1] // count))
    return jnp.einsum("bni,bno->nio", read, sums, preferred_element_type=result)


def _rounded_forward(kernel: Array, x: Array, dtype: Any) -> tuple[Array, tuple[Array, Array]]:
    return rounded_product(kernel, x, dtype), (kernel, x)


def _rounded_backward(
    dtype: Any, residuals: tuple[Array, Array], d_sums: Array
) -> tuple[Array, Array]:
    kernel, x = residuals
    d_x = rounded_product(jnp.swapaxes(kernel, 1, 2), d_sums, dtype)
    d_kernel = _kernel_gradient(x, d_sums, kernel.shape[0], dtype)
    return d_kernel.astype(kernel.dtype), d_x.astype(x.dtype)


_rounded_product = jax.custom_vjp(rounded_product, nondiff_argnums=(2,))
_rounded_product.defvjp(_rounded_forward, _rounded_backward)


def draw_kernels(
    places: Sequence[Int[np.ndarray, "n rows columns"]],
    scales: Sequence[Float[np.ndarray, "n rows columns"]],
    key: Key[Array, ""],
) -> list[Float[Array, "n rows columns"]]:
    """Draws the initial kernels of all blocks, in one program: truncated normal numbers, scaled.

    Args:
      places: which number of all is where in the kernel of each block; -1 where there is none.
      scales: standard deviation of each.
      key: of the graph.
    """
    count = 1 + max((int(own.max(initial=-1)) for own in places), default=-1)
    flat_places = np.concatenate([np.zeros(0, int), *(own.reshape(-1) for own in places)])
    flat_scales = np.concatenate([np.zeros(0), *(own.reshape(-1) for own in scales)])
    flat_scales = np.where(flat_places < 0, 0, flat_scales / TRUNCATED_DEVIATION)

    def draw(key: Array, places: Array, scales: Array) -> list[Array]:
        numbers = jax.random.truncated_normal(key, -2.0, 2.0, (max(count, 1),), jnp.float32)
        weights = jnp.take(numbers, places, mode="clip") * scales
        kernels, start = [], 0
        for shape in shapes:
            kernels.append(weights[start : start + math.prod(shape)].reshape(shape))
            start += math.prod(shape)
        return kernels

    shapes = [own.shape for own in places]
    return jax.jit(draw)(
        key, np.maximum(flat_places, 0).astype(np.int32), flat_scales.astype(np.float32)
    )
