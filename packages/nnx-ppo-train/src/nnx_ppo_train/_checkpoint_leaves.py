"""The leaves of a training state as Orbax can store them, and their description for JSON."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def named_leaves(tree: Any) -> dict[str, Any]:
    """Leaves by path, such as ``networks/layers/0/kernel``, in the order of the tree."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]
    if len(set(names)) < len(names):  # a dict key with a slash in it
        names = [jax.tree_util.keystr(path) for path, _ in leaves]
    return {name: leaf for name, (_, leaf) in zip(names, leaves, strict=True)}


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def describe(leaf: Any) -> dict[str, Any]:
    """What JSON notes down of a leaf: shape, dtype and, of keys, their implementation."""
    leaf = leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
    described = {"shape": list(leaf.shape), "dtype": str(leaf.dtype)}
    if _is_key(leaf) and isinstance(leaf, jax.Array):
        described["key_impl"] = str(jax.random.key_impl(leaf))
    return described


def are_descriptions(leaves: Any) -> bool:
    """Whether these are leaves by name as :func:`describe` notes them down."""
    return isinstance(leaves, dict) and all(
        isinstance(leaf, dict) and {"shape", "dtype"} <= leaf.keys() for leaf in leaves.values()
    )


def storable(leaves: dict[str, Any]) -> dict[str, np.ndarray]:
    """Plain arrays; keys as their data. Orbax stores none without elements, nor need it."""
    plain = {
        name: np.asarray(jax.random.key_data(leaf) if _is_key(jnp.asarray(leaf)) else leaf)
        for name, leaf in leaves.items()
    }
    return {name: array for name, array in plain.items() if array.size}


def empty(leaf: dict[str, Any]) -> np.ndarray:
    """An array as the described leaf is stored."""
    if "key_impl" in leaf:
        keys = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0, impl=leaf["key_impl"])))
        return np.zeros((*leaf["shape"], *keys.shape), keys.dtype)
    return np.zeros(leaf["shape"], jnp.dtype(leaf["dtype"]))


def restored(array: np.ndarray, leaf: dict[str, Any]) -> jax.Array:
    """A leaf from the array that was stored of it, and its description."""
    if "key_impl" in leaf:
        return jax.random.wrap_key_data(jnp.asarray(array), impl=leaf["key_impl"])
    return jnp.asarray(array)


def check_leaves(path: Path, saved: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raises ValueError unless the saved leaves are those that the template has."""
    text = {name: f"{leaf['dtype']}{leaf['shape']}" for name, leaf in saved.items()}
    template = {name: f"{leaf.dtype}{list(leaf.shape)}" for name, leaf in wanted.items()}
    names = dict.fromkeys([*template, *text])
    problems = [
        f"{name}: expected {template.get(name, 'nothing')}, got {text.get(name, 'nothing')}"
        for name in names
        if template.get(name) != text.get(name)
    ]
    if problems:
        more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise ValueError(
            f"{path}: the checkpoint does not fit the network, environment and config: "
            f"{'; '.join(problems[:3])}{more}. Build all three as they were when it was saved"
        )
