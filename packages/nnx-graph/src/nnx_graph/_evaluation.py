"""One pass over a circuit, a step or a whole sequence: sums, responses, and what they leave."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from nnx_stateful import PyTree, Routing, StatefulModuleOutput

from ._spec import Connection

if TYPE_CHECKING:
    from ._circuit import Circuit

Read = Callable[[Connection], jax.Array]
"""Returns what arrives over a connection, before its transform."""


class Evaluation:
    """One pass over a circuit: a step with leading axes (B,), or a sequence with (T, B).

    Args:
      circuit: what is evaluated.
      run: ``run(child, state, x, rollout_extras)``, which steps or unrolls a custom module.
      state: carry state of the circuit.
      rollout_extras: extras by group and child name, or None.
      lead: the leading axes.
    """

    def __init__(
        self,
        circuit: "Circuit",
        run: Callable[..., StatefulModuleOutput],
        state: Mapping[str, PyTree],
        rollout_extras: Mapping[str, PyTree] | None,
        lead: tuple[int, ...],
    ):
        self._circuit = circuit
        self._lead = lead
        self._dtype = circuit.float_type
        self._routings = {
            name: Routing(
                group,
                run,
                state[name],
                None if rollout_extras is None else rollout_extras[name],
                lead,
            )
            for name, group in circuit.groups.items()
        }

    def integrate(
        self,
        name: str,
        connections: tuple[Connection, ...],
        read: Read,
        drive: jax.Array | None,
    ) -> jax.Array:
        """Returns the sum of what arrives at a population over the given connections.

        Args:
          name: the population.
          connections: some or all of its incoming connections.
          read: returns what each carries.
          drive: what is added from outside, (*lead, size), or None.
        """
        reads = {c.name: read(c) for c in connections}
        default = {c.name: reads[c.name] for c in connections if not c.has_transform}
        terms = [] if drive is None else [drive]
        if default:
            terms.append(self._circuit.projection(name).part(set(default))(default))
        for connection in connections:
            if connection.has_transform:
                transform = self._routings["transforms"].call
                terms.append(transform(connection.name, reads[connection.name]))
        if not terms:
            size = self._circuit.plan.populations[name].size
            return jnp.zeros((*self._lead, size), self._dtype)
        return sum(terms[1:], terms[0])

    def respond(self, name: str, total: jax.Array) -> jax.Array:
        """Returns a population's output for its summed input: compute, then activation."""
        population = self._circuit.plan.populations[name]
        if population.has_compute:
            total = self._routings["computes"].call(name, total)
        if population.activation is None:
            return total
        over_time = jax.vmap if len(self._lead) == 2 else lambda function: function
        return jnp.asarray(over_time(population.activation)(total))

    def result(
        self,
        outputs: Mapping[str, jax.Array],
        rings: Mapping[str, tuple[jax.Array, jax.Array]],
        parts: tuple[StatefulModuleOutput, ...] = (),
    ) -> StatefulModuleOutput:
        """Joins the outputs, the rings after them, and what the custom modules returned.

        Args:
          outputs: by population.
          rings: (buffer, index) by population.
          parts: results of circuits that evaluated some of the custom modules in place of this
            pass; their entries win.
        """
        own = {name: routing.result(None) for name, routing in self._routings.items()}

        def joined(field: str) -> dict[str, PyTree]:
            return {
                name: getattr(out, field)
                | {k: v for part in parts for k, v in getattr(part, field).get(name, {}).items()}
                for name, out in own.items()
            }

        loss = jnp.zeros(self._lead, self._dtype)
        for out in (*own.values(), *parts):
            loss = loss + out.regularization_loss
        return StatefulModuleOutput(
            next_state={**ring_state(rings), **joined("next_state")},
            output=dict(outputs),
            regularization_loss=loss,
            metrics=joined("metrics"),
            rollout_extras=joined("rollout_extras"),
        )


def ring_state(rings: Mapping[str, tuple[jax.Array, jax.Array]]) -> dict[str, PyTree]:
    """Returns the part of a carry state that (buffer, index) by population makes up."""
    return {
        "buffers": {name: buffer for name, (buffer, _) in rings.items()},
        "index": {name: index for name, (_, index) in rings.items()},
    }
