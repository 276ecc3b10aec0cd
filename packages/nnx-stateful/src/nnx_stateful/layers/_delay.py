"""Delay: the input of k steps ago."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._ring import (
    ring_advance,
    ring_read,
    ring_read_sequence,
    ring_write,
    ring_write_sequence,
)
from .._unroll import sequence_length
from .._validate import check_int, check_number
from ._inputs import canonical, match_input


class Delay(StatefulModule):
    """Outputs the input of ``k_steps`` steps ago.

    During the first ``k_steps`` steps of an episode the output is ``initial_value``. The carry is
    ``{"buffer": leaves (B, k_steps, ...), "index": (B,) int32, slot of the next write}``.

    Args:
      sample_input: one row (no batch axis) of the input tree: arrays, or anything with a shape
        and dtype. Only shapes and dtypes are kept.
      k_steps: the delay, at least 1.
      initial_value: what fills the buffer at the start of an episode.

    Raises:
      TypeError: if ``k_steps`` is not an int or ``initial_value`` not a number.
      ValueError: if ``k_steps`` is below 1, if ``initial_value`` is not finite, if the sample has
        no arrays, if an integer or bool leaf cannot hold ``initial_value``, or (on call) if the
        input's tree, a shape or a dtype is not that of the sample.

    Example:
      >>> delay = Delay(jnp.zeros(1), k_steps=2)
      >>> xs = jnp.arange(1.0, 6.0).reshape(5, 1, 1)
      >>> delay.unroll(delay.initialize_state(1), xs).output[:, 0, 0].tolist()
      [0.0, 0.0, 1.0, 2.0, 3.0]
    """

    def __init__(self, sample_input: PyTree, k_steps: int, initial_value: float = 0.0):
        if isinstance(k_steps, int) and not isinstance(k_steps, bool) and k_steps < 1:
            raise ValueError(
                f"Delay: k_steps: expected at least 1, got {k_steps}; leave the layer out for "
                "no delay"
            )
        check_int("Delay", "k_steps", k_steps)
        check_number("Delay", "initial_value", initial_value)
        if isinstance(initial_value, jax.Array | np.ndarray | np.generic):
            initial_value = np.asarray(initial_value).item()
        self.k_steps = int(k_steps)
        self.initial_value = initial_value
        sample = _shapes(canonical(sample_input))
        leaves, self.structure = jax.tree.flatten(sample)
        if not leaves:
            raise ValueError("Delay: sample_input: expected at least one array, got none")
        self.shapes = tuple(leaf.shape for leaf in leaves)
        self.dtypes = tuple(str(leaf.dtype) for leaf in leaves)
        for dtype in self.dtypes:
            if not jnp.issubdtype(dtype, jnp.inexact) and initial_value != int(initial_value):
                raise ValueError(
                    f"Delay: initial_value: expected a whole number for an input of dtype "
                    f"{dtype}, got {initial_value}"
                )

    def initialize_state(self, batch_size: int) -> dict[str, PyTree]:
        buffers = [
            jnp.full((batch_size, self.k_steps, *shape), self.initial_value, dtype)
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]
        return {
            "buffer": jax.tree.unflatten(self.structure, buffers),
            "index": jnp.zeros(batch_size, jnp.int32),
        }

    def reset_state(self, prev_state: dict[str, PyTree]) -> dict[str, PyTree]:
        def fill(buffer: Array) -> Array:
            return jnp.full_like(buffer, self.initial_value)

        return {
            "buffer": jax.tree.map(fill, prev_state["buffer"]),
            "index": jnp.zeros_like(prev_state["index"]),
        }

    def carry_written(self, next_state: dict[str, PyTree]) -> PyTree:
        index = next_state["index"]
        return jax.tree.map(lambda b: ring_read(b, index, 1), next_state["buffer"])

    def __call__(
        self, state: dict[str, PyTree], x: PyTree, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        del rollout_extras
        x = self._match(x, lead=1)
        index = state["index"]
        output = jax.tree.map(lambda b: ring_read(b, index, self.k_steps), state["buffer"])
        written = jax.tree.map(lambda b, leaf: ring_write(b, index, leaf)[0], state["buffer"], x)
        next_state = {"buffer": written, "index": ring_advance(index, self.k_steps, 1, None)}
        return StatefulModuleOutput(next_state, output, 0.0, {})

    def unroll(
        self,
        state: dict[str, PyTree],
        xs: PyTree,
        done: Bool[Array, "T B"] | None = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        length = sequence_length(self, xs, done, rollout_extras)
        xs = self._match(xs, lead=2)
        index, initial = state["index"], self.initial_value

        def read(buffer: Array, leaf: Array) -> Array:
            return ring_read_sequence(buffer, index, leaf, done, self.k_steps, initial)

        def write(buffer: Array, leaf: Array) -> Array:
            return ring_write_sequence(buffer, index, leaf, done, initial)[0]

        next_state = {
            "buffer": jax.tree.map(write, state["buffer"], xs),
            "index": ring_advance(index, self.k_steps, length, done),
        }
        output = jax.tree.map(read, state["buffer"], xs)
        return StatefulModuleOutput(next_state, output, jnp.zeros(length), {})

    def _match(self, x: PyTree, lead: int) -> PyTree:
        expected = [
            jax.ShapeDtypeStruct(shape, dtype)
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]
        x = match_input("Delay", jax.tree.unflatten(self.structure, expected), x, lead)
        x = jax.tree.map(jnp.asarray, x)
        found = jax.tree_util.tree_leaves_with_path(x)
        for (path, leaf), dtype in zip(found, self.dtypes, strict=True):
            if str(leaf.dtype) != dtype:
                raise ValueError(
                    f"Delay: expected dtype {dtype} at input{jax.tree_util.keystr(path)}, got "
                    f"{leaf.dtype}; build it from a sample of the dtype that it will see"
                )
        return x


def _shapes(sample: PyTree) -> PyTree:
    """Shapes and dtypes of a sample's leaves."""
    try:
        shapes = jax.eval_shape(lambda tree: tree, sample)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            "Delay: sample_input: expected a tree of arrays, one row of the input, got "
            f"{type(sample).__name__} with something else in it: {error}"
        ) from error
    for path, leaf in jax.tree_util.tree_leaves_with_path(shapes):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
            raise TypeError(
                "Delay: sample_input: expected numbers or bools at "
                f"input{jax.tree_util.keystr(path)}, got dtype {leaf.dtype}"
            )
    return shapes
