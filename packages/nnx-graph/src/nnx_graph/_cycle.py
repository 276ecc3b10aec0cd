"""A unit with a cycle over a whole sequence: one scan forward, one backward, and no more.

Columns of the unit at step t depend on what comes from outside and on columns of earlier steps,

    z_t = drive_t + bias + (columns of steps t - k, where the episode is older than k) @ kernels
    x_t = response(z_t)

level by level. The scan backward computes dz_t, the gradient of each step's sums, and what it means
for the columns of steps t - k. The gradients of the kernels follow for all steps at once from dz,
as one matrix product for each block, and that of the drive is dz itself.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ._evaluation import joined, respond, respond_backward, sums_of
from ._packing import Block, Level, Unit
from ._selection import add_columns
from ._weights import product

Kernels = Mapping[int, Array]
"""By the number of the block."""


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def run_cycle(
    unit: Unit,
    blocks: Any,
    kernels: Kernels,
    bias: Float[Array, " width"],
    drive: Float[Array, "T B entering"],
    history: Float[Array, "K B width"],
    valid: Bool[Array, "T delays B"] | None,
) -> Float[Array, "T B width"]:
    """Returns the unit's outputs at each step; has a derivative of its own, for reverse mode.

    Args:
      unit: a unit with a cycle and without custom modules.
      blocks: all blocks of the graph, compared by identity.
      kernels: those of the unit's inner blocks.
      bias: what the inner blocks add to each column.
      drive: what reaches the unit from outside, for the columns that anything does.
      history: outputs of the K steps before the first, the last one last.
      valid: for each of the unit's delays whether a read belongs to the running episode; None if
        no episode ends.
    """
    return _forward(unit, blocks, kernels, bias, drive, history, valid)[0][history.shape[0] :]


class Blocks:
    """The blocks of a graph as a static argument, compared by identity."""

    def __init__(self, blocks: tuple[Block, ...]):
        self._blocks = blocks

    def __getitem__(self, index: int) -> Block:
        return self._blocks[index]


def _forward(
    unit: Unit,
    blocks: Blocks,
    kernels: Kernels,
    bias: Array,
    drive: Array,
    history: Array,
    valid: Any,
) -> tuple[Array, Array]:
    """Returns history and outputs, (K + T, B, width), and the sums, (T, B, width)."""
    depth, steps = history.shape[0], drive.shape[0]

    def step(columns: Array, inputs: Any) -> tuple[Array, Array]:
        time, drive, valid = inputs
        arrays: dict[Any, Array] = {}
        for place, (delay, selection) in enumerate(unit.backs):
            earlier = jax.lax.dynamic_index_in_dim(columns, time + depth - delay, 0, False)
            arrays["back", delay] = masked(selection({"unit": earlier}), valid, place)
        totals = []
        for level in unit.levels:
            totals.append(level_total(level, blocks, kernels, bias, drive, arrays))
            arrays["level", level.index] = respond(level.responses, totals[-1], 1)
        outputs = joined([arrays["level", level.index] for level in unit.levels])
        columns = jax.lax.dynamic_update_index_in_dim(columns, outputs, time + depth, 0)
        return columns, joined(totals)

    future = jnp.zeros((steps, *history.shape[1:]), history.dtype)
    columns = jnp.concatenate([history, future])
    return jax.lax.scan(step, columns, (jnp.arange(steps), drive, valid))


def _run_forward(
    unit: Unit,
    blocks: Blocks,
    kernels: Kernels,
    bias: Array,
    drive: Array,
    history: Array,
    valid: Any,
) -> tuple[Array, Any]:
    columns, totals = _forward(unit, blocks, kernels, bias, drive, history, valid)
    return columns[history.shape[0] :], (kernels, columns, totals, valid)


def _run_backward(unit: Unit, blocks: Blocks, residuals: Any, d_outputs: Array) -> Any:
    kernels, columns, totals, valid = residuals
    steps = totals.shape[0]
    depth = columns.shape[0] - steps

    def step(pending: Any, inputs: Any) -> tuple[Any, Array]:
        time, d_output, totals, valid = inputs
        arrived = [
            (selection, jax.lax.dynamic_index_in_dim(later, time + delay, 0, False))
            for (delay, selection), later in zip(unit.backs, pending, strict=True)
        ]
        d_output = add_columns(d_output, arrived)
        d_level = {
            ("level", level.index): d_output[..., level.start : level.start + level.width]
            for level in unit.levels
        }
        d_backs: dict[Any, Any] = {("back", delay): None for delay, _ in unit.backs}
        d_totals = []
        for level in reversed(unit.levels):
            own = totals[..., level.start : level.start + level.width]
            d_total = respond_backward(level.responses, own, d_level["level", level.index])
            d_totals.insert(0, d_total)
            for key, gradient in _d_sources(level, blocks, kernels, d_total, unit).items():
                known = d_level if key[0] == "level" else d_backs
                known[key] = gradient if known[key] is None else known[key] + gradient
        following = []
        for place, ((delay, selection), later) in enumerate(zip(unit.backs, pending, strict=True)):
            gradient = d_backs["back", delay]
            if gradient is None:
                gradient = jnp.zeros((*d_output.shape[:-1], selection.width), d_output.dtype)
            gradient = masked(gradient, valid, place)
            following.append(jax.lax.dynamic_update_index_in_dim(later, gradient, time, 0))
        return tuple(following), joined(d_totals)

    rows = totals.shape[1]
    pending = tuple(
        jnp.zeros((steps + delay, rows, selection.width), totals.dtype)
        for delay, selection in unit.backs
    )
    pending, d_totals = jax.lax.scan(
        step, pending, (jnp.arange(steps), d_outputs, totals, valid), reverse=True
    )
    d_history = jnp.zeros((depth, rows, unit.width), totals.dtype)
    for (delay, selection), gradients in zip(unit.backs, pending, strict=True):
        known = min(delay, steps)
        steps_back = slice(depth - delay, depth - delay + known)
        added = add_columns(d_history[steps_back], [(selection, gradients[:known])])
        d_history = d_history.at[steps_back].set(added)
    d_kernels = _d_kernels(unit, blocks, kernels, columns, valid, d_totals)
    d_drive = [
        level.entering({"level": d_totals[..., level.start : level.start + level.width]})
        for level in unit.levels
        if level.entering.width
    ]
    d_drive = joined(d_drive or [d_totals[..., :0]])
    d_valid = None if valid is None else np.zeros(valid.shape, jax.dtypes.float0)
    return d_kernels, d_totals.sum((0, 1)), d_drive, d_history, d_valid


def _d_kernels(
    unit: Unit, blocks: Blocks, kernels: Kernels, columns: Array, valid: Any, d_totals: Array
) -> Kernels:
    """The kernels' gradients, of all steps at once."""
    steps = d_totals.shape[0]
    depth = columns.shape[0] - steps
    arrays: dict[Any, Array] = {}
    for place, (delay, selection) in enumerate(unit.backs):
        earlier = selection({"unit": columns[depth - delay : depth - delay + steps]})
        arrays["back", delay] = masked(earlier, valid, place)
    for level in unit.levels:
        arrays["level", level.index] = columns[depth:, :, level.start : level.start + level.width]

    def sums(kernels: Kernels) -> list[Array]:
        found = [inner_sums(level, blocks, kernels, arrays) for level in unit.levels]
        return [total for total in found if total is not None]

    d_sums = [
        d_totals[..., level.start : level.start + level.width]
        for level in unit.levels
        if level.inner_blocks
    ]
    (gradients,) = jax.vjp(sums, kernels)[1](d_sums)
    return gradients


def level_total(
    level: Level,
    blocks: Blocks,
    kernels: Kernels,
    bias: Array,
    drive: Array,
    arrays: Mapping[Any, Array],
) -> Array:
    """The sums of a level at one step, (B, width), without those of custom transforms."""
    total = bias[level.start : level.start + level.width]
    inner = inner_sums(level, blocks, kernels, arrays)
    if inner is None:
        total = jnp.broadcast_to(total, (drive.shape[0], level.width))
    else:
        total = total + inner
    begin = level.entering_start
    entering = drive[..., begin : begin + level.entering.width]
    return add_columns(total, [(level.entering, entering)])


def inner_sums(
    level: Level, blocks: Blocks, kernels: Kernels, arrays: Mapping[Any, Array]
) -> Array | None:
    """What enters a level from within its unit."""
    computed = {}
    for index in level.inner_blocks:
        sources = blocks[index].cycle_sources
        assert sources is not None
        computed[index] = product(kernels[index], sources(arrays))
    return sums_of(level.from_inner_blocks, computed)


def _d_sources(
    level: Level, blocks: Blocks, kernels: Kernels, d_total: Array, unit: Unit
) -> dict[Any, Array]:
    """The gradient of what a level reads within its unit, for that of its sums."""
    keys: dict[Any, int] = {}
    widths: dict[Any, int] = {("back", delay): s.width for delay, s in unit.backs}
    widths |= {("level", other.index): other.width for other in unit.levels}
    for index in level.inner_blocks:
        sources = blocks[index].cycle_sources
        assert sources is not None
        keys |= {key: widths[key] for key in sources.keys}
    if not keys:
        return {}
    shapes = {
        key: jnp.zeros((d_total.shape[0], width), d_total.dtype) for key, width in keys.items()
    }
    # Linear in what is read: nothing of the product itself is computed.
    (gradients,) = jax.vjp(lambda arrays: inner_sums(level, blocks, kernels, arrays), shapes)[1](
        d_total
    )
    return gradients


def masked(values: Array, valid: Array | None, place: int) -> Array:
    """Zero where the read would reach into an earlier episode."""
    if valid is None:
        return values
    return jnp.where(valid[..., place, :, None], values, jnp.zeros((), values.dtype))


run_cycle.defvjp(_run_forward, _run_backward)
