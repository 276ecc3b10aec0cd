"""Trees of arrays on the host: how they get there and back, and how far two of them differ."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from nnx_stateful import NoiseState, PyTree


class Quantity(NamedTuple):
    """What is compared: one leaf of one result.

    Attributes:
      kind: "ratio", "value", "carry", "module" and so on.
      path: of the module, where the kind is "module"; else empty.
      leaf: path of the leaf in that result, names joined with "/".
    """

    kind: str
    path: str
    leaf: str

    @property
    def name(self) -> str:
        """The parts that are not empty, joined with "/"."""
        return "/".join(filter(None, self))


Deviations = dict[Quantity, np.ndarray]
"""Largest deviation of each quantity, (T, B)."""


def key_kinds(tree: PyTree) -> PyTree:
    """Returns a tree with the implementation of each leaf of typed keys, "" for other leaves."""
    return jax.tree.map(lambda leaf: str(jax.random.key_impl(leaf)) if _is_key(leaf) else "", tree)


def without_keys(tree: PyTree) -> PyTree:
    """Returns a tree in which typed keys are their bits, which NumPy can hold."""
    return jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, tree)


def with_keys(tree: PyTree, kinds: PyTree) -> PyTree:
    """Undoes :func:`without_keys`; the leaves are JAX arrays."""

    def typed(leaf: Any, kind: str) -> Any:
        leaf = jnp.asarray(leaf)
        return jax.random.wrap_key_data(leaf, impl=kind) if kind else leaf

    return jax.tree.map(typed, tree, kinds)


def widened(tree: PyTree) -> PyTree:
    """Returns a tree whose float leaves are float64."""

    def widen(leaf: Any) -> Any:
        leaf = jnp.asarray(leaf)
        return leaf.astype(jnp.float64) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(widen, tree)


def other_noise(state: PyTree) -> PyTree:
    """Returns a carry state (of bits, on the host) whose NoiseStates hold other keys."""
    return _map_noise(
        lambda noise: NoiseState(noise.key ^ np.uint32(0x9E3779B9), noise.count), state
    )


def without_noise_keys(state: PyTree) -> PyTree:
    """Returns a carry state whose NoiseStates hold counts alone."""
    return _map_noise(lambda noise: noise.count, state)


def has_noise(state: PyTree) -> bool:
    """Whether there is a NoiseState in a carry state."""
    return any(map(_is_noise, jax.tree.leaves(state, is_leaf=_is_noise)))


def leaf_deviations(kind: str, path: str, expected: PyTree, got: PyTree) -> Deviations:
    """Compares two trees, leaves (T, B, ...), leaf by leaf.

    A deviation is relative to the largest magnitude in the row where that is above 1.
    """
    return {
        Quantity(kind, path, leaf_path(where)): _deviation(old, new)
        for where, old, new in _pairs(kind, path, expected, got)
    }


def ratio_deviations(expected: PyTree, got: PyTree) -> Deviations:
    """Returns |ratio - 1| of log-likelihoods, leaves (T, B)."""
    return {
        Quantity("ratio", "", leaf_path(where)): _ratio_deviation(old, new)
        for where, old, new in _pairs("log_likelihood", "", expected, got)
    }


def leaf_path(path: Any) -> str:
    """Names of a tree path joined with "/"."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _pairs(kind: str, path: str, expected: PyTree, got: PyTree) -> list[tuple[Any, Any, Any]]:
    wanted, found = jax.tree.structure(expected), jax.tree.structure(got)
    if wanted != found:
        raise ValueError(
            f"verify_replay: {Quantity(kind, path, '').name}: expected the structure that the "
            f"rollout has, {wanted}, got {found} from the replay; make unroll return what "
            "__call__ returns, stacked over time"
        )
    leaves = zip(jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(got), strict=True)
    return [(where, old, new) for (where, old), new in leaves]


def _deviation(expected: Any, got: Any) -> np.ndarray:
    exact = not jnp.issubdtype(expected.dtype, jnp.inexact)
    difference = np.abs(_difference(expected, got))
    lead = (*expected.shape[:2], -1)
    largest = _finite(difference).reshape(lead).max(axis=-1, initial=0.0)
    if exact:
        return largest
    magnitude = np.abs(np.nan_to_num(_float(expected), posinf=0.0, neginf=0.0))
    return largest / np.maximum(1.0, magnitude.reshape(lead).max(axis=-1, initial=0.0))


def _ratio_deviation(old: Any, new: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        return _finite(np.abs(np.expm1(_difference(old, new))))


def _difference(expected: Any, got: Any) -> np.ndarray:
    """``got - expected``; 0 where both are the same infinity, NaN where either is NaN."""
    if expected.shape != got.shape:
        return np.full(expected.shape, np.inf)
    old, new = _float(expected), _float(got)
    with np.errstate(invalid="ignore"):
        return np.where(old == new, 0.0, new - old)


def _float(leaf: Any) -> np.ndarray:
    leaf = np.asarray(leaf)
    return leaf.astype(np.complex128 if np.iscomplexobj(leaf) else np.float64)


def _finite(deviation: np.ndarray) -> np.ndarray:
    """Makes what is no number an infinite deviation: NaN equals nothing, not even NaN."""
    return np.where(np.isnan(deviation), np.inf, deviation)


def _map_noise(change: Any, state: PyTree) -> PyTree:
    return jax.tree.map(
        lambda node: change(node) if _is_noise(node) else node, state, is_leaf=_is_noise
    )


def _is_noise(node: Any) -> bool:
    return isinstance(node, NoiseState)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.asarray(leaf).dtype, jax.dtypes.prng_key)
