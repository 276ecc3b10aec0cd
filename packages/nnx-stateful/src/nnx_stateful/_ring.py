"""Ring buffers: the last L values of each batch row, step by step or for a whole sequence.

A buffer has shape (B, L, ...), and ``index``, (B,), is the slot of the next write. A reset fills
a row with the initial value and sets its index to 0. All functions are pure; reads come before
the write of the same step.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Shaped


def ring_read(
    buffer: Shaped[Array, "B L *F"], index: Int[Array, " B"], delay: int
) -> Shaped[Array, "B *F"]:
    """Returns what was written ``delay`` steps ago, 1 <= delay <= L.

    Example:
      >>> buffer = jnp.array([[1.0, 2.0, 3.0]])
      >>> ring_read(buffer, jnp.array([0]), 1).tolist()
      [3.0]
    """
    length = buffer.shape[1]
    return buffer[jnp.arange(index.shape[0]), (index - delay) % length]


def ring_write(
    buffer: Shaped[Array, "B L *F"], index: Int[Array, " B"], x: Shaped[Array, "B *F"]
) -> tuple[Shaped[Array, "B L *F"], Int[Array, " B"]]:
    """Writes one value per row; returns the buffer and the next index.

    Example:
      >>> buffer, index = ring_write(jnp.zeros((1, 2)), jnp.array([1]), jnp.array([5.0]))
      >>> buffer.tolist(), index.tolist()
      ([[0.0, 5.0]], [0])
    """
    written = buffer.at[jnp.arange(index.shape[0]), index].set(x)
    return written, (index + 1) % buffer.shape[1]


def ring_last(
    buffer: Shaped[Array, "B L *F"], index: Int[Array, " B"], steps: int
) -> Shaped[Array, "steps B *F"]:
    """Returns what was written in the last ``steps`` steps, oldest first, 1 <= steps <= L.

    Example:
      >>> buffer = jnp.array([[1.0, 2.0, 3.0]])
      >>> ring_last(buffer, jnp.array([1]), 2)[:, 0].tolist()
      [3.0, 1.0]
    """
    slots = (index[None] + jnp.arange(steps)[:, None] - steps) % buffer.shape[1]
    return buffer[jnp.arange(index.shape[0])[None], slots]


def ring_read_sequence(
    buffer: Shaped[Array, "B L *F"],
    index: Int[Array, " B"],
    xs: Shaped[Array, "T B *F"],
    done: Bool[Array, "T B"] | None,
    delay: int,
    initial: float = 0.0,
) -> Shaped[Array, "T B *F"]:
    """Reads with a delay at each of T steps during which ``xs`` is written.

    The value at step t is ``xs[t - delay]``, or comes from the buffer where t < delay; it is
    ``initial`` if the row was reset in between, that is after a step in [t - delay, t - 1].

    Example:
      >>> xs = jnp.arange(1.0, 6.0)[:, None]
      >>> done = jnp.array([[0], [1], [0], [0], [0]], bool)
      >>> ring_read_sequence(jnp.zeros((1, 2)), jnp.array([0]), xs, done, 2)[:, 0].tolist()
      [0.0, 0.0, 0.0, 0.0, 3.0]
    """
    steps = xs.shape[0]
    head = ring_last(buffer, index, delay)[:steps]
    delayed = jnp.concatenate([head, xs[: steps - head.shape[0]]], axis=0)
    if done is None:
        return delayed
    start = episode_starts(done)
    valid = (start == 0) | (jnp.arange(steps)[:, None] - start >= delay)
    return jnp.where(_expand(valid, delayed), delayed, jnp.asarray(initial, delayed.dtype))


def ring_write_sequence(
    buffer: Shaped[Array, "B L *F"],
    index: Int[Array, " B"],
    xs: Shaped[Array, "T B *F"],
    done: Bool[Array, "T B"] | None,
    initial: float = 0.0,
) -> tuple[Shaped[Array, "B L *F"], Int[Array, " B"]]:
    """Returns the buffer and index after T writes and the resets between them.

    Both equal stepping exactly: the index is ``(index + T) % L`` without a reset, else the number
    of steps since the reset modulo L, and slots not written since the reset hold ``initial``.

    Example:
      >>> xs = jnp.arange(1.0, 4.0)[:, None]
      >>> buffer, index = ring_write_sequence(jnp.zeros((1, 2)), jnp.array([0]), xs, None)
      >>> buffer.tolist(), index.tolist()
      ([[3.0, 2.0]], [1])
    """
    steps, rows = xs.shape[:2]
    length = buffer.shape[1]
    start, first_slot = _episode(index, done)
    writes = steps - start
    # Slot j is written at the writes p, p + L, ...: the last of them stays.
    p = (jnp.arange(length)[None] - first_slot[:, None]) % length
    last = p + length * ((writes[:, None] - 1 - p) // length)
    written = p < writes[:, None]
    step = jnp.where(written, start[:, None] + last, 0)
    values = xs[step, jnp.arange(rows)[:, None]]
    fresh = jnp.asarray(initial, buffer.dtype)
    old = jnp.where(_expand(start > 0, buffer), fresh, buffer)
    return jnp.where(_expand(written, values), values, old), ring_advance(
        index, length, steps, done
    )


def episode_starts(done: Bool[Array, "T B"]) -> Int[Array, "T B"]:
    """Returns the first step of the episode that runs at each step; 0 if it began before.

    Example:
      >>> episode_starts(jnp.array([[0], [1], [0], [0]], bool))[:, 0].tolist()
      [0, 0, 2, 2]
    """
    before = jnp.zeros((1, done.shape[1]), jnp.int32)
    return jnp.concatenate([before, _starts(done)[:-1]], axis=0)


def ring_advance(
    index: Int[Array, " B"], length: int, steps: int, done: Bool[Array, "T B"] | None
) -> Int[Array, " B"]:
    """Returns the index after ``steps`` writes, and the resets between them, in L = ``length``.

    Example:
      >>> done = jnp.array([[0, 0], [0, 1], [0, 0]], bool)
      >>> ring_advance(jnp.array([1, 1]), 3, 3, done).tolist()
      [1, 1]
    """
    start, first_slot = _episode(index, done)
    return ((first_slot + steps - start) % length).astype(index.dtype)


def _episode(
    index: Int[Array, " B"], done: Bool[Array, "T B"] | None
) -> tuple[Int[Array, " B"], Int[Array, " B"]]:
    """Returns the first step of the episode that runs at the end, and the slot it wrote to."""
    if done is None:
        return jnp.zeros_like(index), index
    start = _starts(done)[-1].astype(index.dtype)
    return start, jnp.where(start > 0, 0, index)


def _starts(done: Bool[Array, "T B"]) -> Int[Array, "T B"]:
    """Returns, after each step, the first step of the running episode; 0 if it began before."""
    steps = jnp.arange(1, done.shape[0] + 1, dtype=jnp.int32)[:, None]
    return jax.lax.cummax(jnp.where(done.astype(bool), steps, 0), axis=0)


def _expand(mask: Bool[Array, "*lead"], like: Array) -> Bool[Array, "*lead_and_ones"]:
    return mask.reshape(mask.shape + (1,) * (like.ndim - mask.ndim))
