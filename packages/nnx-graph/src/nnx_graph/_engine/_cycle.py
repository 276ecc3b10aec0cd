"""A unit with a cycle over a whole sequence: one scan forward, one backward, and no more.

Columns of the unit at step t depend on what comes from outside and on columns of earlier steps,

    z_t = drive_t + bias + (columns of steps t - k, where the episode is older than k) @ kernels
    x_t = response(z_t)

level by level. Outputs are delivered: as soon as x_t is known, it is written to where each block
will read it at step t + k, so that a step multiplies what has arrived as it lies in memory. The
scan backward computes dz_t, the gradient of each step's sums, and what it means for that which the
blocks have read; x_t collects this from the steps t + k. The gradients of the kernels follow for
all steps at once, as one matrix product of what each block has read and dz.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float
from nnx_stateful import narrow

from ._evaluation import sums_of
from ._packing import Block, Level, Unit
from ._response import pullback_inputs, respond, respond_backward
from ._selection import Selection, add_columns, joined, write_columns
from ._weights import product_gradient, rounded_product

Kernels = Mapping[int, Array]
"""By the number of the block."""


class Cycle:
    """A unit with a cycle and the blocks of the graph, as a static argument compared by identity.

    Args:
      unit: the unit.
      blocks: all blocks of the graph.
      dtype: type of the operands of products; None for their own.

    Attributes:
      reads: what the blocks read of earlier steps: (place of the delay among those of the unit,
        delay, block, the unit's columns in their place among the block's sources).
    """

    def __init__(self, unit: Unit, blocks: Sequence[Block], dtype: Any):
        self.dtype = dtype
        self.levels = unit.levels
        self.backs = unit.backs
        self.width = unit.width
        self.blocks = {i: blocks[i] for level in unit.levels for i in level.inner_blocks}
        places = {delay: place for place, (delay, _) in enumerate(unit.backs)}
        self.reads = tuple(
            (places[delay], delay, index, selection)
            for index, block in self.blocks.items()
            for delay, selection in block.cycle_reads
            if delay
        )

    def immediate(self, index: int) -> Selection | None:
        """The unit's columns that a block reads at the same step; None if it reads none."""
        return dict(self.blocks[index].cycle_reads).get(0)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def run_cycle(
    cycle: Cycle,
    kernels: Kernels,
    bias: Float[Array, " intake"],
    drive: Float[Array, "T B entering"],
    history: Float[Array, "K B width"],
    valid: Bool[Array, "T delays B"] | None,
) -> list[tuple[Array, Array]]:
    """Runs a unit over a sequence; has a derivative of its own, for reverse mode.

    Args:
      cycle: a unit with a cycle and without custom modules.
      kernels: those of the unit's inner blocks.
      bias: what the inner blocks add to each column of the intake.
      drive: what reaches the unit from outside, for the columns that anything does.
      history: outputs of the K steps before the first, the last one last.
      valid: for each of the unit's delays whether a read belongs to the running episode; None if
        no episode ends.

    Returns:
      For each level the outputs that the rest of the graph reads, (T, B, shown), and the others,
      (T, B, width - shown): apart, since the others are seldom wanted.
    """
    outputs, _, _ = _forward(cycle, kernels, bias, drive, history, valid)
    return outputs


def _forward(
    cycle: Cycle, kernels: Kernels, bias: Array, drive: Array, history: Array, valid: Any
) -> tuple[Any, dict[int, Array], list[Array]]:
    """Outputs by level, what each block has read, (T + 1, B, n * rows), and sums by level."""
    kernels = {index: narrow(kernel, cycle.dtype) for index, kernel in kernels.items()}  # once
    steps, rows, _ = drive.shape
    depth = history.shape[0]
    sources = {  # the last row takes what would arrive after the end
        index: jnp.zeros((steps + 1, rows, math.prod(kernels[index].shape[:2])), history.dtype)
        for index in cycle.blocks
    }
    for place, delay, index, selection in cycle.reads:
        known = min(delay, steps)
        first = masked(
            history[depth - delay : depth - delay + known],
            None if valid is None else valid[:known],
            place,
        )
        sources[index] = write_columns(sources[index], 0, selection, first)

    def step(sources: dict[int, Array], inputs: Any) -> tuple[dict[int, Array], Any]:
        time, drive, later = inputs
        totals, outputs = [], []
        for level in cycle.levels:
            for index in level.inner_blocks:
                if (immediate := cycle.immediate(index)) is not None:
                    known = joined(outputs)[None]
                    sources |= {index: write_columns(sources[index], time, immediate, known)}
            sums = {
                i: rounded_product(kernels[i], read(sources[i], time), cycle.dtype)
                for i in level.inner_blocks
            }
            totals.append(level_total(level, sums, bias, drive))
            outputs.append(respond(level.responses, totals[-1], 1))
        columns = joined(outputs)[None]
        for place, delay, index, selection in cycle.reads:
            arriving = masked(columns, later, place)
            sources |= {index: write_columns(sources[index], time + delay, selection, arriving)}
        parts = [level.parted(x) for level, x in zip(cycle.levels, outputs, strict=True)]
        return sources, (parts, totals)

    later = None if valid is None else _valid_later(cycle, valid)
    sources, (outputs, totals) = jax.lax.scan(step, sources, (jnp.arange(steps), drive, later))
    return outputs, sources, totals


def _run_forward(cycle: Cycle, *primals: Any) -> tuple[Any, Any]:
    kernels, bias, drive, history, valid = jax.tree.map(lambda primal: primal.value, primals)
    outputs, sources, totals = _forward(cycle, kernels, bias, drive, history, valid)
    return outputs, (kernels, sources, totals, valid, history.shape[0])


def _run_backward(cycle: Cycle, residuals: Any, d_outputs: Any) -> Any:
    kernels, sources, totals, valid, depth = residuals
    steps, rows, _ = totals[0].shape
    pullbacks = [
        pullback_inputs(level.responses, total)
        for level, total in zip(cycle.levels, totals, strict=True)
    ]
    transposed = {
        index: jnp.swapaxes(narrow(kernel, cycle.dtype), 1, 2) for index, kernel in kernels.items()
    }
    given = [
        (selection, None if isinstance(gradient, SymbolicZero) else gradient)
        for level, parts in zip(cycle.levels, d_outputs, strict=True)
        for selection, gradient in zip(level.parts, parts, strict=True)
    ]
    selections = [selection for selection, gradient in given if gradient is not None]
    nothing = jnp.zeros((rows, cycle.width), totals[0].dtype)

    def step(received: dict[int, Array], inputs: Any) -> tuple[dict[int, Array], list[Array]]:
        time, given, pullbacks, later = inputs
        collected = list(zip(selections, given, strict=True))
        for place, delay, index, selection in cycle.reads:
            gradient = masked(read_ring(received[index], time + delay), later, place)
            collected.append((selection, gradient))
        d_columns = add_columns(nothing, collected)
        d_totals = []
        for level, own in reversed(list(zip(cycle.levels, pullbacks, strict=True))):
            d_level = d_columns[..., level.start : level.start + level.width]
            d_total = respond_backward(level.responses, own, d_level)
            d_totals.insert(0, d_total)
            for index, into in zip(level.inner_blocks, level.into_inner_blocks, strict=True):
                d_sums = into({"level": d_total})
                d_sources = rounded_product(transposed[index], d_sums, cycle.dtype)
                if (immediate := cycle.immediate(index)) is not None:
                    d_columns = add_columns(d_columns, [(immediate, d_sources)])
                if index in received:
                    received |= {index: write_ring(received[index], d_sources, time)}
        return received, d_totals

    lengths: dict[int, int] = {}
    for _, delay, index, _ in cycle.reads:
        lengths[index] = max(lengths.get(index, 0), delay + 1)
    received = {
        index: jnp.zeros((length, *sources[index].shape[1:]), nothing.dtype)
        for index, length in lengths.items()
    }
    later = None if valid is None else _valid_later(cycle, valid)
    wanted = [gradient for _, gradient in given if gradient is not None]
    received, d_totals = jax.lax.scan(
        step, received, (jnp.arange(steps), wanted, pullbacks, later), reverse=True
    )
    d_history = jnp.zeros((depth, rows, cycle.width), nothing.dtype)
    for place, delay, index, selection in cycle.reads:
        known = min(delay, steps)
        gradients = masked(received[index][:known], None if valid is None else valid[:known], place)
        steps_back = slice(depth - delay, depth - delay + known)
        added = add_columns(d_history[steps_back], [(selection, gradients)])
        d_history = d_history.at[steps_back].set(added)
    d_kernels, d_entering = _pullback_of_sums(cycle, kernels, sources, d_totals)
    # Columns to which no block adds have a constant for their bias: their gradient is not used.
    d_bias = joined([d_total.sum((0, 1)) for d_total in d_totals])
    d_valid = None if valid is None else np.zeros(valid.shape, jax.dtypes.float0)
    return d_kernels, d_bias, d_entering, d_history, d_valid


def _pullback_of_sums(
    cycle: Cycle, kernels: Kernels, sources: Mapping[int, Array], d_totals: Sequence[Array]
) -> tuple[dict[int, Array], Array]:
    """Gradients of the kernels and of what enters, for those of the sums, by level."""
    d_kernels, d_entering = {}, []
    for level, d_total in zip(cycle.levels, d_totals, strict=True):
        entering = level.entering({"level": d_total}) if level.entering.pieces else d_total[..., :0]
        d_entering.append(entering)
        for index, into in zip(level.inner_blocks, level.into_inner_blocks, strict=True):
            kernel, d_sums = kernels[index], into({"level": d_total})
            gradient = product_gradient(sources[index], d_sums, kernel.shape[0], cycle.dtype)
            d_kernels[index] = gradient.astype(kernel.dtype)
    return d_kernels, joined(d_entering)


def _valid_later(cycle: Cycle, valid: Array) -> Array:
    """For each delay whether the step's outputs are read by the step so much later."""
    later = [
        jnp.concatenate([valid[delay:, place], jnp.zeros_like(valid[:delay, place])])
        for place, (delay, _) in enumerate(cycle.backs)
    ]
    return jnp.stack(later, axis=1)


def level_total(
    level: Level, sums: Mapping[int, Array], bias: Array, drive: Array
) -> Float[Array, "B intake"]:
    """The intake of a level at one step, without that of custom transforms.

    Args:
      level: of a unit with a cycle.
      sums: of the inner blocks, (B, columns of all products).
      bias: of all of the unit.
      drive: what reaches the unit from outside, (B, entering).
    """
    total = bias[level.intake_start : level.intake_start + level.intake]
    inner = sums_of(level.from_inner_blocks, sums)
    if inner is None:
        total = jnp.broadcast_to(total, (drive.shape[0], level.intake))
    else:
        total = total + inner
    begin = level.entering_start
    entering = drive[..., begin : begin + level.entering.width]
    return add_columns(total, [(level.entering, entering)])


def read(sequence: Array, time: Array) -> Array:
    """One step of a sequence."""
    return jax.lax.dynamic_index_in_dim(sequence, time, 0, keepdims=False)


def read_ring(ring: Array, time: Array) -> Array:
    """One of the last steps that were written to a ring."""
    return read(ring, time % ring.shape[0])


def write_ring(ring: Array, values: Array, time: Array) -> Array:
    """The ring with one step written."""
    return jax.lax.dynamic_update_index_in_dim(ring, values, time % ring.shape[0], 0)


def masked(values: Array, valid: Array | None, place: int) -> Array:
    """Zero where the read would reach into an earlier episode."""
    if valid is None:
        return values
    return jnp.where(valid[..., place, :, None], values, jnp.zeros((), values.dtype))


run_cycle.defvjp(_run_forward, _run_backward, symbolic_zeros=True)
