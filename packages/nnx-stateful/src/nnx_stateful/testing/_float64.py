"""Float64 copies, in which rounding is too small to hide a mistake."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx

from .._output import PyTree

M = TypeVar("M", bound=nnx.Module)


def to_float64(module: M) -> M:
    """Returns a copy of a module whose float variables are float64.

    NNX layers keep float32 parameters, also where x64 is enabled. A module whose carry has a
    float type that no variable decides keeps it in an attribute ``dtype`` or ``dtypes`` (a
    tuple), which is widened too.

    Args:
      module: any module; it is left as it is.

    Raises:
      RuntimeError: if x64 is not enabled.

    Example:
      >>> from flax import nnx
      >>> from nnx_stateful import Dense
      >>> with jax.enable_x64(True):
      ...     to_float64(Dense(2, 3, nnx.Rngs(0))).kernel.dtype
      dtype('float64')
    """
    if jnp.result_type(float) != jnp.float64:
        raise RuntimeError(
            "to_float64: expected x64 to be enabled; call it inside `with jax.enable_x64(True):`"
        )
    graphdef, state = nnx.split(module)
    copy = nnx.merge(graphdef, tree_to_float64(state))
    for _, node in nnx.iter_modules(copy):
        _widen_attributes(node)
    return copy


def tree_to_float64(tree: PyTree) -> PyTree:
    """Returns a tree whose float leaves are float64 and whose complex ones are complex128."""

    def widen(leaf: Any) -> Any:
        leaf = jnp.asarray(leaf)
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf.astype(jnp.float64)
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            return leaf.astype(jnp.complex128)
        return leaf

    return jax.tree.map(widen, tree)


def _widen_attributes(node: Any) -> None:
    dtype, dtypes = getattr(node, "dtype", None), getattr(node, "dtypes", None)
    if _is_float(dtype):
        node.dtype = jnp.dtype(jnp.float64)
    if isinstance(dtypes, tuple):
        widened = tuple("float64" if _is_float(entry) else entry for entry in dtypes)
        node.dtypes = widened


def _is_float(dtype: Any) -> bool:
    return dtype is not None and jnp.issubdtype(dtype, jnp.floating)
