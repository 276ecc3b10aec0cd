"""Selections: columns of several arrays side by side, in few operations whatever their number."""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

Key = Any
"""Hashable; names an array."""
Piece = tuple[Key | None, int, int]
"""(array, first column, width); zeros where the array is None."""

MAX_SLICES = 8
"""Up to this many stretches are cut out one by one; more are gathered together."""


@dataclasses.dataclass(frozen=True)
class Selection:
    """Which columns of which arrays, in order.

    Attributes:
      pieces: the stretches; what adjoins in the same array is one stretch.

    Example:
      >>> select = Selection.of([("a", 0, 1), ("a", 1, 1), (None, 0, 1), ("b", 2, 1)])
      >>> select.pieces
      (('a', 0, 2), (None, 0, 1), ('b', 2, 1))
      >>> select({"a": jnp.array([[1.0, 2.0]]), "b": jnp.array([[3.0, 4.0, 5.0]])}).tolist()
      [[1.0, 2.0, 0.0, 5.0]]
    """

    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, pieces: Iterable[Piece]) -> "Selection":
        """Joins adjoining pieces."""
        joined: list[Piece] = []
        for key, start, width in pieces:
            if joined:
                last, begin, length = joined[-1]
                if last == key and (key is None or begin + length == start):
                    joined[-1] = (key, begin, length + width)
                    continue
            joined.append((key, start, width))
        return cls(tuple(joined))

    @property
    def width(self) -> int:
        """Number of columns."""
        return sum(width for _, _, width in self.pieces)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The arrays that are read, each once."""
        return tuple(dict.fromkeys(key for key, _, _ in self.pieces if key is not None))

    def __call__(self, arrays: Mapping[Any, Array]) -> Array:
        """Returns the columns, (*lead, width), of arrays (*lead, ...) of which one is read."""
        if len(self.pieces) > MAX_SLICES:
            return self._gather(arrays)
        like = arrays[self.keys[0]]
        parts = [
            jnp.zeros((*like.shape[:-1], width), like.dtype)
            if key is None
            else _columns(arrays[key], start, width)
            for key, start, width in self.pieces
        ]
        return joined(parts)

    def _gather(self, arrays: Mapping[Any, Array]) -> Array:
        offsets, total = {}, 0
        for key in self.keys:
            offsets[key] = total
            total += arrays[key].shape[-1]
        columns = np.concatenate(
            [
                np.full(width, total) if key is None else offsets[key] + start + np.arange(width)
                for key, start, width in self.pieces
            ]
        )
        whole = [arrays[key] for key in self.keys]
        return jnp.take(joined(whole), columns, axis=-1, mode="fill", fill_value=0)


def joined(parts: list[jax.Array]) -> jax.Array:
    """Puts arrays side by side along the last axis."""
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-1)


def add_columns(total: Array, additions: Sequence[tuple[Selection, Array]]) -> Array:
    """Adds selected columns back to where they came from: the transpose of selecting.

    Args:
      total: (*lead, width), an array from which selections take all of their pieces but zeros.
      additions: selections, and what to add to the columns that each of them takes.

    Example:
      >>> select = Selection.of([("a", 2, 1), ("a", 0, 1)])
      >>> add_columns(jnp.zeros((1, 3)), [(select, jnp.array([[5.0, 7.0]]))]).tolist()
      [[7.0, 0.0, 5.0]]
    """
    if any(len(selection.pieces) > MAX_SLICES for selection, _ in additions):
        for selection, columns in additions:
            (key,) = selection.keys
            like = jax.ShapeDtypeStruct(total.shape, columns.dtype)
            spread = jax.linear_transpose(lambda a, s=selection, k=key: s({k: a}), like)
            total = total + spread(columns)[0]
        return total
    edges = {0, total.shape[-1]}
    sources = []  # (first column, end, what to add)
    for selection, columns in additions:
        offset = 0
        for key, start, width in selection.pieces:
            if key is not None:
                sources.append((start, start + width, columns[..., offset : offset + width]))
                edges |= {start, start + width}
            offset += width
    parts = []
    for begin, end in itertools.pairwise(sorted(edges)):
        part = total[..., begin:end]
        for start, stop, columns in sources:
            if start <= begin and end <= stop:
                part = part + columns[..., begin - start : end - start]
        parts.append(part)
    return joined(parts)


def write_columns(
    sequence: Float[Array, "time *lead width"],
    time: Int[ArrayLike, ""],
    selection: Selection,
    values: Float[Array, "steps *lead columns"],
) -> Float[Array, "time *lead width"]:
    """Writes what is selected to consecutive steps of a sequence, where nothing was written before.

    Args:
      sequence: zeros where it was not written yet.
      time: the first of the steps.
      selection: selects, from one array, what to write, in its place; zeros write nothing.
      values: the array of that selection.

    Example:
      >>> select = Selection.of([(None, 0, 1), ("a", 1, 1)])
      >>> write_columns(jnp.zeros((2, 2)), 1, select, jnp.array([[5.0, 7.0]])).tolist()
      [[0.0, 0.0], [0.0, 7.0]]
    """
    if len(selection.pieces) > MAX_SLICES:
        (key,) = selection.keys
        known = jax.lax.dynamic_slice_in_dim(sequence, time, values.shape[0], 0)
        added = known + selection({key: values})
        return jax.lax.dynamic_update_slice_in_dim(sequence, added, time, 0)
    place, zeros = 0, [0] * (sequence.ndim - 2)
    for key, start, width in selection.pieces:
        if key is not None:
            columns = values[..., start : start + width]
            sequence = jax.lax.dynamic_update_slice(sequence, columns, (time, *zeros, place))
        place += width
    return sequence


def _columns(array: Array, start: int, width: int) -> Array:
    return array if width == array.shape[-1] else array[..., start : start + width]
