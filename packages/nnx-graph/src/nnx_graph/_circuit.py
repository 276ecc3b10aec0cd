"""The engine of a graph, or of a part of it: weights, modules, and one step of all of it."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from nnx_stateful import (
    Map,
    PyTree,
    Routing,
    StatefulModule,
    StatefulModuleOutput,
    ring_read,
    ring_write,
)

from ._plan import Plan, lower, restrict
from ._projection import Projection
from ._spec import Connection

Read = Callable[[Connection], jax.Array]
"""Returns what arrives over a connection, before its transform."""


class Transforms(Map):
    """The custom transforms of a circuit, by connection name."""


class Computes(Map):
    """The compute modules of a circuit, by population name."""


class Circuit(StatefulModule):
    """Populations and the connections among them; the input is what reaches them from outside.

    The carry state is ``{"buffers": {population: (B, L, size)}, "index": {population: (B,)}}``
    with an entry for each population that is read with a delay, and ``"transforms"`` and
    ``"computes"`` with the carry of the custom modules, where there are any.

    Args:
      plan: the lowered declaration.
      projections: the weights of default connections, by destination.
      transforms: custom transforms by connection name.
      computes: compute modules by population name.
    """

    def __init__(
        self,
        plan: Plan,
        projections: Mapping[str, Projection],
        transforms: Mapping[str, StatefulModule],
        computes: Mapping[str, StatefulModule],
    ):
        self.plan = plan
        self.projection_names = tuple(projections)
        self.projections = nnx.List(list(projections.values()))
        self.transforms = Transforms(transforms) if transforms else None
        self.computes = Computes(computes) if computes else None

    @property
    def groups(self) -> dict[str, Map]:
        """The custom modules: transforms and computes, as far as there are any."""
        groups = {"transforms": self.transforms, "computes": self.computes}
        return {name: group for name, group in groups.items() if group is not None}

    @property
    def float_type(self) -> Any:
        """The floating type of the parameters, which buffers share."""
        types = [leaf.dtype for leaf in jax.tree.leaves(nnx.state(self, nnx.Param))]
        floating = [kind for kind in types if jnp.issubdtype(kind, jnp.floating)]
        return jnp.result_type(*floating) if floating else jnp.zeros(()).dtype

    def projection(self, name: str) -> Projection:
        """Returns the weights of the default connections into a population."""
        return self.projections[self.projection_names.index(name)]

    def initialize_state(self, batch_size: int) -> dict[str, PyTree]:
        dtype, sizes = self.float_type, self.plan.populations
        rings = {
            name: (
                jnp.zeros((batch_size, length, sizes[name].size), dtype),
                jnp.zeros(batch_size, jnp.int32),
            )
            for name, length in self.plan.ring_lengths.items()
        }
        groups = {name: group.initialize_state(batch_size) for name, group in self.groups.items()}
        return {**_ring_state(rings), **groups}

    def reset_state(self, prev_state: dict[str, PyTree]) -> dict[str, PyTree]:
        zeros = jax.tree.map(jnp.zeros_like, (prev_state["buffers"], prev_state["index"]))
        groups = {name: group.reset_state(prev_state[name]) for name, group in self.groups.items()}
        return {"buffers": zeros[0], "index": zeros[1], **groups}

    def update_statistics(self, rollout_extras: dict[str, PyTree]) -> None:
        for name, group in self.groups.items():
            group.update_statistics(rollout_extras[name])

    def __call__(
        self,
        state: dict[str, PyTree],
        x: Mapping[str, jax.Array],
        rollout_extras: dict[str, PyTree] | None = None,
    ) -> StatefulModuleOutput:
        """Runs one step.

        Args:
          state: the carry state.
          x: (B, size) by population, what is added to its sum from outside; may lack populations.
          rollout_extras: extras of the custom modules to replay, or None.

        Returns:
          The output of every population by name, (B, size).
        """

        def run(child: StatefulModule, *inputs: PyTree) -> StatefulModuleOutput:
            return child(*inputs)

        def read(connection: Connection) -> jax.Array:
            src = connection.src
            if not connection.delay:
                return outputs[src]
            return ring_read(state["buffers"][src], state["index"][src], connection.delay)

        rows = jax.tree.leaves((x, state))[0].shape[0]
        evaluation = Evaluation(self, run, state, rollout_extras, (rows,))
        outputs: dict[str, jax.Array] = {}
        for name in self.plan.order:
            total = evaluation.integrate(name, self.plan.incoming[name], read, x.get(name))
            outputs[name] = evaluation.respond(name, total)
        rings = {
            name: ring_write(buffer, state["index"][name], outputs[name].astype(buffer.dtype))
            for name, buffer in state["buffers"].items()
        }
        return evaluation.result(outputs, rings)

    def part(self, members: tuple[str, ...]) -> "Circuit":
        """Returns the circuit of some populations and the connections among them.

        It shares the custom modules, and holds a copy of the weights it needs.
        """
        plan = lower(restrict(self.plan.spec, members))
        children = {name: group.children for name, group in self.groups.items()}
        projections, transforms = {}, {}
        for name, connections in plan.incoming.items():
            default = {c.name for c in connections if not c.has_transform}
            if default:
                projections[name] = self.projection(name).part(default)
            for c in connections:
                if c.has_transform:
                    transforms[c.name] = children["transforms"][c.name]
        computes = {
            p.name: children["computes"][p.name] for p in plan.spec.populations if p.has_compute
        }
        return Circuit(plan, projections, transforms, computes)


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
        circuit: Circuit,
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
            next_state={**_ring_state(rings), **joined("next_state")},
            output=dict(outputs),
            regularization_loss=loss,
            metrics=joined("metrics"),
            rollout_extras=joined("rollout_extras"),
        )


def _ring_state(rings: Mapping[str, tuple[jax.Array, jax.Array]]) -> dict[str, PyTree]:
    return {
        "buffers": {name: buffer for name, (buffer, _) in rings.items()},
        "index": {name: index for name, (_, index) in rings.items()},
    }
