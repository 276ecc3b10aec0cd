"""Whole sequences: units without a cycle at once, only the cyclic ones step by step."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from nnx_stateful import (
    PyTree,
    StatefulModule,
    StatefulModuleOutput,
    episode_starts,
    ring_last,
    ring_read_sequence,
    ring_write_sequence,
)

from ._circuit import Circuit
from ._cycle import Cycle, run_cycle
from ._cycle_modules import run_cycle_of_modules
from ._evaluation import Evaluation
from ._packing import Unit


def run_sequence(
    circuit: Circuit,
    state: dict[str, PyTree],
    drive: Mapping[str, jax.Array],
    done: Any,
    rollout_extras: dict[str, PyTree] | None,
    lead: tuple[int, int],
    outputs: Iterable[str],
) -> StatefulModuleOutput:
    """Equals stepping the circuit through T steps with resets, leaf for leaf.

    What enters a unit is known for the whole sequence before the unit runs. A unit without a cycle
    then takes a few operations on (T, B, ...) arrays. A cyclic one is scanned, with everything
    from outside already summed.

    Args:
      circuit: the engine of the graph.
      state: its carry state before the first step.
      drive: (T, B, size) by population that is driven from outside.
      done: (T, B), or None if no episode ends.
      rollout_extras: leaves (T, B, ...) to replay, or None.
      lead: (T, B).
      outputs: the populations whose outputs are wanted.

    Returns:
      As T calls of the circuit's ``step``, stacked in time.
    """
    packing, dtype = circuit.packing, circuit.float_type

    def run(child: StatefulModule, *inputs: PyTree) -> StatefulModuleOutput:
        child_state, child_xs, child_extras = inputs
        return child.unroll(child_state, child_xs, done, child_extras)

    def ring(name: str) -> tuple[jax.Array, jax.Array]:
        return state["buffers"][name], state["index"][name]

    def past(name: str, delay: int) -> jax.Array:
        written = packing.rings[name].remembered(evaluation.arrays).astype(dtype)
        return ring_read_sequence(*ring(name), written, done, delay)

    def write(name: str, values: jax.Array) -> tuple[jax.Array, jax.Array]:
        return ring_write_sequence(*ring(name), values, done)

    acting = circuit.acting()
    evaluation = Evaluation(acting, run, state, rollout_extras, lead, drive, past)
    parts = []
    for unit in packing.units:
        if not unit.cyclic:
            for level in unit.levels:
                evaluation.evaluate(level)
            continue
        cycle = Cycle(unit, packing.blocks, circuit.compute_dtype)
        entering, bias = evaluation.enter(unit)
        kernels = {index: acting.weights[index][0] for index in cycle.blocks}
        history = _history(unit, state, dtype)
        valid = _valid_reads(unit, done)
        if unit.modules or entering.dtype != dtype:
            levels, part = run_cycle_of_modules(
                unit,
                cycle,
                kernels,
                circuit.groups,
                state,
                bias,
                entering,
                history,
                valid,
                done,
                rollout_extras,
                acting.carried,
            )
            parts.append(part)
        else:
            levels: Any = run_cycle(cycle, kernels, bias, entering, history, valid)
        evaluation.leave(unit, levels)
    return evaluation.result(write, outputs, parts)


def _history(unit: Unit, state: dict[str, PyTree], dtype: Any) -> jax.Array:
    """The unit's outputs of the steps before the sequence, (K, B, width), the last one last."""
    depth, known = unit.longest_delay, {}
    for ring in unit.in_rings.keys:
        buffer = state["buffers"][ring]
        last = ring_last(buffer, state["index"][ring], min(depth, buffer.shape[1]))
        before = depth - last.shape[0]  # of which nothing reads so far back
        known[ring] = jnp.pad(last.astype(dtype), ((before, 0), (0, 0), (0, 0)))
    return unit.in_rings(known)


def _valid_reads(unit: Unit, done: Any) -> jax.Array | None:
    """Whether a read belongs to the running episode: (T, delays, B); None if none ends."""
    if done is None:
        return None
    start = episode_starts(done)
    age = jnp.arange(done.shape[0])[:, None] - start
    return jnp.stack([(start == 0) | (age >= delay) for delay, _ in unit.backs], axis=1)
