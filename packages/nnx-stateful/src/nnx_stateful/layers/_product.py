"""Matrix products over time and batch, in the type that the operands are to have."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from .._validate import as_compute_dtype

_FEW_COLUMNS = 6
"""Up to so many a CPU is faster column by column; see ``benchmarks/narrow_products.py``."""


def multiply_rows(
    x: Float[Array, "*lead F"], kernel: Float[Array, "F O"], compute_dtype: DTypeLike | None = None
) -> Float[Array, "*lead O"]:
    """Returns ``x @ kernel``, computed with all leading axes as the rows of one matrix.

    With a ``compute_dtype`` the operands are rounded to it, and their products summed in the type
    that the result has without it, at least float32. So it is in the gradients: each is the
    product of the gradient of the result with the other operand, both rounded. Every layer that
    takes a ``compute_dtype`` multiplies with this function.

    With three axes XLA on a CPU contracts the gradient of the kernel over two of them, for which
    it first copies the transposed output gradient. Without a ``compute_dtype`` a CPU computes a
    result of two to six columns, as at the head of a policy, column by column.

    Args:
      x: the rows.
      kernel: the matrix.
      compute_dtype: type of the operands, unless their own is narrower: a floating type with the
        range and precision of bfloat16 at least. None for their own, and JAX's derivative;
        otherwise ``jax.jvp`` is a TypeError, as for any ``jax.custom_vjp``.

    Returns:
      The products, in the type that ``x`` and ``kernel`` have in common.

    Raises:
      TypeError: if ``compute_dtype`` names no type.
      ValueError: if it is a type that will not do.

    Example:
      >>> import jax.numpy as jnp
      >>> x, kernel = jnp.full((5, 4, 3), 1 + 2.0**-10), jnp.ones((3, 2))
      >>> y = multiply_rows(x, kernel, "bfloat16")  # eight significant bits: 1 + 2**-10 is 1
      >>> y.shape, str(y.dtype), float(y[0, 0, 0])
      ((5, 4, 2), 'float32', 3.0)
    """
    dtype = as_compute_dtype("multiply_rows", compute_dtype)
    rows = x.reshape(-1, x.shape[-1])
    if dtype is None:
        y = _multiply(rows, kernel)
    else:
        result = jnp.result_type(x, kernel)
        working = jnp.promote_types(result, jnp.float32)
        y = _rounded_product(rows.astype(working), kernel.astype(working), dtype).astype(result)
    return y.reshape(*x.shape[:-1], kernel.shape[-1])


def _multiply(rows: Float[Array, "B F"], kernel: Float[Array, "F O"]) -> Float[Array, "B O"]:
    if 1 < kernel.shape[-1] <= _FEW_COLUMNS:
        return jax.lax.platform_dependent(rows, kernel, cpu=_by_columns, default=jnp.matmul)
    return rows @ kernel


def _by_columns(rows: Float[Array, "B F"], kernel: Float[Array, "F O"]) -> Float[Array, "B O"]:
    """Products of a matrix with vectors: fast, and so are the products of their derivative."""
    return jnp.stack([rows @ column for column in kernel.T], axis=-1)


def narrow(x: Array, dtype: np.dtype | None) -> Array:
    """Rounds to a narrower type; None, or a type that is no narrower, leaves ``x`` as it is.

    A cast alone would not do. XLA may leave out casts to a narrow type and back, and does so where
    it computes the product itself in a wider one: then a step and a sequence, compiled apart,
    would multiply different numbers.

    Example:
      >>> import jax.numpy as jnp
      >>> y = narrow(jnp.float32(1 + 2.0**-10), jnp.dtype("bfloat16"))
      >>> float(y), str(y.dtype)
      (1.0, 'bfloat16')
    """
    if dtype is None or dtype.itemsize >= x.dtype.itemsize:
        return x
    info = jnp.finfo(dtype)
    return jax.lax.reduce_precision(x, info.nexp, info.nmant).astype(dtype)


def product(
    x: Float[Array, "B F"], kernel: Float[Array, "F O"], dtype: np.dtype | None
) -> Float[Array, "B O"]:
    """Returns ``x @ kernel`` with the operands rounded to ``dtype``, if it is not None.

    The result has the type that the operands have in common before they are rounded. Has JAX's
    derivative, which multiplies gradients that are not rounded: for use where the derivative is
    written out.
    """
    if dtype is None:
        return x @ kernel
    result = jnp.promote_types(x.dtype, kernel.dtype)
    return jnp.matmul(narrow(x, dtype), narrow(kernel, dtype), preferred_element_type=result)


def _forward(x: Array, kernel: Array, dtype: np.dtype) -> tuple[Array, tuple[Array, Array]]:
    return product(x, kernel, dtype), (narrow(x, dtype), narrow(kernel, dtype))


def _backward(dtype: np.dtype, residuals: tuple[Array, Array], grads: Array) -> tuple[Array, Array]:
    x, kernel = residuals
    return product(grads, kernel.T, dtype), product(x.T, grads, dtype)


_rounded_product = jax.custom_vjp(product, nondiff_argnums=(2,))
_rounded_product.defvjp(_forward, _backward)
