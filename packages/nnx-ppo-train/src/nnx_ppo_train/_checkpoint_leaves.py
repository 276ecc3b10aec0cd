"""The leaves of a training state as Orbax can store them, and their description for JSON."""

import re
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_OF_EPISODES = re.compile(r"\.?(network_states|env_states|tally|rewards[./]sums)(?!\w)")
_BY_NETWORK = re.compile(r"\.?(params|variables)(?!\w)")


def named_leaves(tree: Any, like: Any = ()) -> dict[str, Any]:
    """Leaves by path, such as ``params/layers/0/kernel``, in the order of the tree.

    Args:
      tree: any tree.
      like: names whose notation is to be followed: that of a whole state has brackets where a dict
        key with a slash in it makes two names equal, which a part of the state cannot know.
    """
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]
    bracketed = any(name.startswith(".") for name in like)
    if bracketed or len(set(names)) < len(names):
        names = [jax.tree_util.keystr(path) for path, _ in leaves]
    return {name: leaf for name, (_, leaf) in zip(names, leaves, strict=True)}


def of_episodes(name: str) -> bool:
    """Returns whether a leaf belongs to the episodes under way: one row for each environment."""
    return _OF_EPISODES.match(name) is not None


def of_network(name: str) -> bool:
    """Returns whether a leaf belongs to the network."""
    return _BY_NETWORK.match(name) is not None


def is_key(leaf: Any) -> bool:
    """Returns whether a leaf holds random keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def describe(leaf: Any) -> dict[str, Any]:
    """Description of a leaf for JSON: shape, dtype and, of keys, their implementation."""
    leaf = leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
    described = {"shape": list(leaf.shape), "dtype": str(leaf.dtype)}
    if is_key(leaf) and isinstance(leaf, jax.Array):
        described["key_impl"] = str(jax.random.key_impl(leaf))
    return described


def are_descriptions(leaves: Any) -> bool:
    """Returns whether these are leaves by name as :func:`describe` notes them down."""
    return isinstance(leaves, dict) and all(map(_is_description, leaves.values()))


def _is_description(leaf: Any) -> bool:
    return (
        isinstance(leaf, dict)
        and isinstance(leaf.get("shape"), list)
        and all(type(size) is int and size >= 0 for size in leaf["shape"])
        and isinstance(leaf.get("dtype"), str)
        and isinstance(leaf.get("key_impl", ""), str)
    )


def on_host(leaves: dict[str, Any]) -> dict[str, np.ndarray]:
    """Copies of leaves as NumPy arrays; of keys their data.

    They are copies on a CPU too: an array that NumPy looks at cannot be donated any more, and JAX
    copies it in every following iteration without a word.
    """
    plain = {
        name: jax.random.key_data(leaf) if is_key(jnp.asarray(leaf)) else leaf
        for name, leaf in leaves.items()
    }
    for leaf in plain.values():
        if isinstance(leaf, jax.Array):
            leaf.copy_to_host_async()
    return {name: np.array(leaf) for name, leaf in plain.items()}


def checksum(data: bytes | np.ndarray) -> str:
    """CRC-32 of bytes, or of an array's, as eight hex digits.

    It finds every burst of up to 32 wrong bits, and misses one in 4e9 of other kinds of damage, at
    3.1 GB/s on one core. SHA-256 (1.2 GB/s) would add nothing: it withstands attackers, who could
    rewrite it here as well.
    """
    if isinstance(data, bytes):
        return f"{zlib.crc32(data):08x}"
    plain = np.ascontiguousarray(data).reshape(-1).view(np.uint8)  # bfloat16 has no buffer
    return f"{zlib.crc32(plain.data):08x}"


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


def nonfinite_leaves(arrays: dict[str, np.ndarray]) -> dict[str, str]:
    """Leaves with a value that is not finite, by name: "nan", or "inf" if all such are infinite."""
    found = {}
    for name, array in arrays.items():
        if not jnp.issubdtype(array.dtype, jnp.inexact):
            continue
        wide = array if array.dtype.itemsize >= 4 else array.astype(np.float32)
        if not np.isfinite(wide).all():
            found[name] = "nan" if np.isnan(wide).any() else "inf"
    return found
