"""The engine of a graph: weights, modules, and one step of all of it."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Key
from nnx_stateful import (
    Map,
    PyTree,
    StatefulModule,
    StatefulModuleOutput,
    ring_read,
    ring_write,
)

from ._constraints import CommonWeights, Constraints
from ._evaluation import Evaluation, ring_state
from ._packing import Block, Packing
from ._spec import Connection
from ._weights import Weights, bias_shape, draw_kernels, region


class Transforms(Map):
    """The custom transforms of a circuit, by connection name."""


class Computes(Map):
    """The compute modules of a circuit, by population name."""


class Circuit(nnx.Module):
    """Populations and the connections among them; the input is what reaches them from outside.

    The carry state is ``{"buffers": {ring: (B, L, columns)}, "index": {ring: (B,)}}`` with an entry
    for each ring buffer, and ``"transforms"`` and ``"computes"`` with the carry of the custom
    modules, where there are any. A ring holds the past outputs of all populations of one level
    whose longest outgoing delay is L, side by side.

    Args:
      packing: the graph as few operations.
      keys: initial keys of the default connections, by name.
      transforms: custom transforms by connection name.
      computes: compute modules by population name.
      compute_dtype: type of the operands of products; None for their own.
    """

    def __init__(
        self,
        packing: Packing,
        keys: Mapping[str, Key[Array, ""]],
        transforms: Mapping[str, StatefulModule],
        computes: Mapping[str, StatefulModule],
        compute_dtype: Any = None,
    ):
        self.packing = packing
        self.compute_dtype = compute_dtype
        by_name = {c.name: c for c in packing.plan.spec.connections}
        self.common = CommonWeights(packing.plan.spec, keys)
        self.weights = nnx.List(
            [
                Weights(block, kernel, self._constraints(block, by_name))
                for block, kernel in zip(
                    packing.blocks, draw_kernels(packing.blocks, keys), strict=True
                )
            ]
        )
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

    def acting_weights(self) -> list[tuple[Array, Array]]:
        """Kernel and summed biases of each block as they act: (n, rows, columns), (columns,)."""
        common = self.common.values()
        found = []
        for weights in self.weights:
            kernel, bias = weights.values(common)
            found.append((kernel, weights.total(bias)))
        return found

    def weights_of(self, connection: Connection) -> tuple[Weights, tuple[Any, Any]]:
        """Returns the weights of a default connection's block, and where its own are in them."""
        width = self.packing.plan.populations[connection.dst].size
        for weights in self.weights:
            if connection.name in weights.places:
                return weights, region(weights.block, weights.places[connection.name], width)
        raise KeyError(connection.name)

    def _constraints(self, block: Block, by_name: Mapping[str, Connection]) -> Constraints:
        plan = self.packing.plan
        regions = []
        for name, where in block.connections:
            connection = by_name[name]
            width = plan.populations[connection.dst].size
            regions.append((connection, *region(block, where, width)))
        return Constraints.of(block, plan.spec, self.common, regions, bias_shape(block))

    def initialize_state(self, batch_size: int) -> dict[str, PyTree]:
        dtype = self.float_type
        rings = {
            name: (
                jnp.zeros((batch_size, ring.length, ring.remembered.width), dtype),
                jnp.zeros(batch_size, jnp.int32),
            )
            for name, ring in self.packing.rings.items()
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

    def step(
        self,
        state: dict[str, PyTree],
        x: Mapping[str, jax.Array],
        rollout_extras: dict[str, PyTree] | None,
        outputs: Iterable[str],
    ) -> StatefulModuleOutput:
        """Runs one step.

        Args:
          state: the carry state.
          x: (B, size) by population, what is added to its sum from outside; may lack populations.
          rollout_extras: extras of the custom modules to replay, or None.
          outputs: the populations whose outputs are wanted.

        Returns:
          The outputs of these populations by name, (B, size).
        """

        def run(child: StatefulModule, *inputs: PyTree) -> StatefulModuleOutput:
            return child(*inputs)

        def past(name: str, delay: int) -> jax.Array:
            return ring_read(state["buffers"][name], state["index"][name], delay)

        rows = jax.tree.leaves((x, state))[0].shape[0]
        evaluation = Evaluation(self, run, state, rollout_extras, (rows,), x, past)
        for unit in self.packing.units:
            for level in unit.levels:
                evaluation.evaluate(level)

        def write(name: str, values: jax.Array) -> tuple[jax.Array, jax.Array]:
            return ring_write(state["buffers"][name], state["index"][name], values)

        return evaluation.result(write, outputs)
