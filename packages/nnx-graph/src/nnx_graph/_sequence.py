"""Whole sequences: components without a cycle at once, only the cyclic ones step by step."""

from collections.abc import Mapping
from typing import Any

import jax
from nnx_stateful import (
    PyTree,
    StatefulModule,
    StatefulModuleOutput,
    ring_read_sequence,
    ring_write_sequence,
)

from ._circuit import Circuit
from ._evaluation import Evaluation
from ._plan import Component
from ._spec import Connection


def run_sequence(
    circuit: Circuit,
    state: dict[str, PyTree],
    drive: Mapping[str, jax.Array],
    done: Any,
    rollout_extras: dict[str, PyTree] | None,
    lead: tuple[int, int],
) -> StatefulModuleOutput:
    """Equals stepping the circuit through T steps with resets, leaf for leaf.

    The graph is condensed into its strongly connected components over all connections, so what
    enters a component is known for the whole sequence before the component runs. A component
    without a cycle then takes a few operations on (T, B, ...) arrays. A cyclic one is scanned,
    with everything from outside already summed.

    Args:
      circuit: the engine of the graph.
      state: its carry state before the first step.
      drive: (T, B, size) by population that is driven from outside.
      done: (T, B), or None if no episode ends.
      rollout_extras: leaves (T, B, ...) to replay, or None.
      lead: (T, B).

    Returns:
      As the circuit's own ``unroll``.
    """

    def run(child: StatefulModule, *inputs: PyTree) -> StatefulModuleOutput:
        child_state, child_xs, child_extras = inputs
        return child.unroll(child_state, child_xs, done, child_extras)

    plan = circuit.plan
    evaluation = Evaluation(circuit, run, state, rollout_extras, lead)
    wires = _Wires(state, done)
    parts = []
    for component in plan.components:
        driven = {
            name: evaluation.integrate(
                name, _from_outside(component, plan.incoming[name]), wires.read, drive.get(name)
            )
            for name in component.members
        }
        if component.cyclic:
            part = circuit.part(component.members)
            out = part.unroll(
                _state_of(part, state), driven, done, _extras_of(part, rollout_extras)
            )
            parts.append(out)
            wires.outputs.update(out.output)
        else:
            (name,) = component.members
            wires.outputs[name] = evaluation.respond(name, driven[name])
    outputs = {name: wires.outputs[name] for name in plan.order}
    return evaluation.result(outputs, wires.rings(), tuple(parts))


class _Wires:
    """What populations put out over the whole sequence, and delayed reads of it."""

    def __init__(self, state: dict[str, PyTree], done: Any):
        self.outputs: dict[str, jax.Array] = {}
        self._buffers, self._index, self._done = state["buffers"], state["index"], done

    def read(self, connection: Connection) -> jax.Array:
        """Returns what a connection carries at each step, before its transform."""
        src = connection.src
        if not connection.delay:
            return self.outputs[src]
        return ring_read_sequence(*self._written(src), self._done, connection.delay)

    def rings(self) -> dict[str, tuple[jax.Array, jax.Array]]:
        """Returns the ring buffers after the last step and its resets."""
        return {
            name: ring_write_sequence(*self._written(name), self._done) for name in self._buffers
        }

    def _written(self, name: str) -> tuple[jax.Array, jax.Array, jax.Array]:
        buffer = self._buffers[name]
        return buffer, self._index[name], self.outputs[name].astype(buffer.dtype)


def _from_outside(
    component: Component, connections: tuple[Connection, ...]
) -> tuple[Connection, ...]:
    return tuple(c for c in connections if c.src not in component.members)


def _state_of(part: Circuit, state: dict[str, PyTree]) -> dict[str, PyTree]:
    rings = {
        field: {name: state[field][name] for name in part.plan.ring_lengths}
        for field in ("buffers", "index")
    }
    return {**rings, **_children_of(part, state)}


def _extras_of(part: Circuit, extras: dict[str, PyTree] | None) -> dict[str, PyTree] | None:
    return None if extras is None else _children_of(part, extras)


def _children_of(part: Circuit, tree: dict[str, PyTree]) -> dict[str, PyTree]:
    return {
        name: {child: tree[name][child] for child in group.child_names}
        for name, group in part.groups.items()
    }
