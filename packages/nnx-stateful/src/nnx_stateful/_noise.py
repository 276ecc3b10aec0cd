"""Replayable noise: keys live in the carry state, one per row."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from ._output import PyTree


class NoiseKey(nnx.Variable):
    """The key that a stochastic module took from its rngs when it was built."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class NoiseState:
    """The carry state of a stochastic module.

    The noise of a row at its step ``t`` is drawn from ``fold_in(key, count + t)``, so a whole
    sequence is drawn at once and equals stepping bit for bit. A reset leaves it as it is: what
    comes after an episode must not repeat what came before.

    Attributes:
      key: (B,) typed keys, one per row; (B, copies) inside of :class:`Tied`.
      count: int32, of the same shape, steps drawn so far.
    """

    key: Key[Array, "*B"]
    count: Int[Array, "*B"]

    def advance(self, steps: int = 1) -> "NoiseState":
        """Returns the state after ``steps`` further draws."""
        return dataclasses.replace(self, count=self.count + jnp.int32(steps))


def noise_state(key: Key[Array, ""], batch_size: int, first_row: int = 0) -> NoiseState:
    """Returns fresh noise states of ``batch_size`` rows, deterministic in ``key``.

    Rows of other numbers have other noise; they are counted from ``first_row``.
    """
    rows = jnp.arange(first_row, first_row + batch_size, dtype=jnp.uint32)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, rows)
    return NoiseState(keys, jnp.zeros(batch_size, jnp.int32))


def draw_noise(
    noise: NoiseState, draw: Callable[[Key[Array, ""]], PyTree], steps: int | None = None
) -> PyTree:
    """Draws the noise of one step, or of ``steps`` steps at once.

    Args:
      noise: state before the (first) step.
      draw: a function from one key to the noise of one row at one step.
      steps: T for a sequence, None for a single step.

    Returns:
      Leaves (B, ...), or (T, B, ...) where ``steps`` is given. The caller advances the state.

    Example:
      >>> noise = noise_state(jax.random.key(0), 3)
      >>> draw_noise(noise, lambda key: jax.random.normal(key, (2,)), steps=5).shape
      (5, 3, 2)
    """

    def at(count: Int[Array, " B"]) -> PyTree:
        return jax.vmap(lambda key, n: draw(jax.random.fold_in(key, n)))(noise.key, count)

    if steps is None:
        return at(noise.count)
    offsets = jnp.arange(steps, dtype=noise.count.dtype)
    return jax.vmap(lambda offset: at(noise.count + offset))(offsets)


def draw_normal(
    noise: NoiseState, shape: tuple[int, ...], steps: int | None = None, dtype: Any = None
) -> Float[Array, "*lead"]:
    """Draws standard normal noise, (B, *shape) or (T, B, *shape); see :func:`draw_noise`."""
    dtype = dtype or jnp.float32
    return draw_noise(noise, lambda key: jax.random.normal(key, shape, dtype), steps)


def rekey_noise(state: PyTree, key: Key[Array, ""]) -> PyTree:
    """Gives every NoiseState in a carry state new keys drawn from ``key``, and counts of zero.

    ``initialize_state`` is deterministic; a training loop calls this with a key of its run, so
    that two runs, or training and evaluation, do not share their noise.
    """

    def is_noise(node: Any) -> bool:
        return isinstance(node, NoiseState)

    leaves, treedef = jax.tree.flatten(state, is_leaf=is_noise)
    fresh, rows = [], 0
    for leaf in leaves:
        if is_noise(leaf):
            shape = leaf.count.shape
            drawn = noise_state(key, leaf.count.size, rows)
            leaf = jax.tree.map(lambda entry, shape=shape: entry.reshape(shape), drawn)
            rows += drawn.count.size
        fresh.append(leaf)
    return jax.tree.unflatten(treedef, fresh)
