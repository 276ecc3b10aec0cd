"""The engine of a graph, or of a part of it: weights, modules, and one step of all of it."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from nnx_stateful import (
    Map,
    PyTree,
    StatefulModule,
    StatefulModuleOutput,
    ring_read,
    ring_write,
)

from ._evaluation import Evaluation, ring_state
from ._plan import Plan, lower, restrict
from ._projection import Projection
from ._spec import Connection


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
        return {**ring_state(rings), **groups}

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
