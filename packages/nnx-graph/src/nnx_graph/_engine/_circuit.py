"""The engine of a graph: weights, modules, and one step of all of it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Int, Key
from nnx_stateful import (
    Map,
    PyTree,
    StatefulModule,
    StatefulModuleOutput,
    Tied,
    ring_read,
    ring_write,
)

from .._declaration._delay import is_weighted
from .._declaration._spec import Connection
from ._common import CommonWeights
from ._constraints import Constraints
from ._delays import Delays
from ._effects import Effects
from ._evaluation import Acting, Evaluation, ring_state
from ._packing import Block, Packing, Transfer
from ._weights import Weights, bias_shape, draw_kernels, region


class Transforms(Map):
    """The custom transforms of a circuit, by connection name; of several, by that of the first."""


class Aggregates(Map):
    """The aggregations of a circuit that have a module, by population name."""


class Computes(Map):
    """The compute modules of a circuit, by population name."""


class Circuit(nnx.Module):
    """Populations and the connections among them; the input is what reaches them from outside.

    The carry state is ``{"buffers": {ring: (B, L, columns)}, "index": {ring: (B,)}}`` with an entry
    for each ring buffer, and ``"transforms"``, ``"aggregates"`` and ``"computes"`` with the carry
    of the modules, where there are any. A ring holds the past outputs of all populations of one
    level whose longest outgoing delay is L, side by side.

    Args:
      packing: the graph as few operations.
      key: of the initial weights.
      transforms: custom transforms by connection name.
      aggregates: modules of aggregations by population name.
      computes: compute modules by population name.
      compute_dtype: type of the operands of products; None for their own.
    """

    def __init__(
        self,
        packing: Packing,
        key: Key[Array, ""],
        transforms: Mapping[str, StatefulModule],
        aggregates: Mapping[str, StatefulModule],
        computes: Mapping[str, StatefulModule],
        compute_dtype: Any = None,
    ):
        self.packing = packing
        self.compute_dtype = compute_dtype
        own_key, common_key = jax.random.split(key)
        self.common = CommonWeights(packing.plan.spec, common_key)
        self.delays = Delays(packing.plan.spec)
        tap_places = self.delays.places()
        constraints = [self._constraints(block, tap_places) for block in packing.blocks]
        kernels = draw_kernels(self._numbers(), [c.deviation for c in constraints], own_key)
        self.weights = nnx.List(map(Weights, packing.blocks, kernels, constraints))
        modules = {
            transfer.name: _module(transforms[transfer.name], transfer)
            for transfer in packing.transfers
        }
        self.transforms = Transforms(modules) if modules else None
        self.aggregates = Aggregates(aggregates) if aggregates else None
        self.computes = Computes(computes) if computes else None

    @property
    def groups(self) -> dict[str, Map]:
        """The custom modules by kind, as far as there are any."""
        groups = {
            "transforms": self.transforms,
            "aggregates": self.aggregates,
            "computes": self.computes,
        }
        return {name: group for name, group in groups.items() if group is not None}

    @property
    def float_type(self) -> Any:
        """The floating type of the parameters, which buffers share."""
        types = [leaf.dtype for leaf in jax.tree.leaves(nnx.state(self, nnx.Param))]
        floating = [kind for kind in types if jnp.issubdtype(kind, jnp.floating)]
        return jnp.result_type(*floating) if floating else jnp.zeros(()).dtype

    def acting(self, cut: Iterable[Connection] = ()) -> Acting:
        """Returns the circuit as it acts.

        Args:
          cut: default connections that are left out of the blocks.
        """
        common, taps = self.common.values(), self.delays.weights()
        found = [weights.values(common, taps) for weights in self.weights]
        apart = {}
        for connection in cut:
            index, parts = self._find(connection)
            pairs = list(zip(found[index], parts, strict=True))
            kernel, bias = (array[part] for array, part in pairs)
            apart[connection.name] = kernel, bias
            kernel, bias = (array.at[part].set(0) for array, part in pairs)
            found[index] = kernel, bias
        return Acting(
            packing=self.packing,
            dtype=self.float_type,
            compute_dtype=self.compute_dtype,
            weights=[
                (kernel, weights.total(bias))
                for weights, (kernel, bias) in zip(self.weights, found, strict=True)
            ],
            cut=apart,
            groups=self.groups,
            carried=self.delays.reader(),
        )

    def transform_of(self, connection: Connection) -> StatefulModule | None:
        """The module of a connection; None for a default connection."""
        for transfer in self.packing.transfers:
            if connection in transfer.connections and self.transforms is not None:
                module = self.transforms.children[transfer.name]
                if len(transfer.connections) == 1:
                    return module
                assert isinstance(module, Tied)
                return module.module
        return None

    def weights_of(self, connection: Connection) -> tuple[Weights, tuple[Any, Any]]:
        """Returns the weights of a default connection's block, and where its own are in them."""
        index, parts = self._find(connection)
        return self.weights[index], parts

    def _find(self, connection: Connection) -> tuple[int, tuple[Any, Any]]:
        """The index of a default connection's block, and where its own weights are in those."""
        width = self.packing.plan.populations[connection.dst].size
        for index, weights in enumerate(self.weights):
            if connection.name in weights.places:
                return index, region(weights.block, weights.places[connection.name], width)
        raise KeyError(connection.name)

    def _constraints(self, block: Block, tap_places: Mapping[str, int]) -> Constraints:
        """What binds the weights of a block."""
        regions = [(c, *where) for c, where in self._regions(block)]
        return Constraints.of(
            block, self.packing.plan.spec, self.common, tap_places, regions, bias_shape(block)
        )

    def _numbers(self) -> list[Int[np.ndarray, "n rows columns"]]:
        """Numbers the weights by connection, in the order of declaration, for each block."""
        sizes = {p.name: p.size for p in self.packing.plan.spec.populations}
        starts, count = {}, 0
        for connection in self.packing.plan.spec.connections:
            starts[connection.name] = count
            if not connection.has_transform:
                count += sizes[connection.src] * sizes[connection.dst]
        numbers = []
        for block in self.packing.blocks:
            numbers.append(np.full((len(block.reads), block.rows, block.columns), -1))
            for connection, (kernel, _) in self._regions(block):
                if is_weighted(connection.delay):
                    continue  # its kernel is among the common ones
                size = sizes[connection.src], sizes[connection.dst]
                own = np.arange(size[0] * size[1]).reshape(size)
                numbers[-1][kernel] = starts[connection.name] + own
        return numbers

    def _regions(self, block: Block) -> Iterator[tuple[Connection, tuple[Any, Any]]]:
        """The connections of a block, and where their kernels and biases are in its arrays."""
        plan = self.packing.plan
        for name, where in block.connections:
            connection = plan.connections[name]
            yield connection, region(block, where, plan.populations[connection.dst].size)

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

    def carry_written(self, next_state: dict[str, PyTree]) -> dict[str, PyTree]:
        """Returns the newest outputs in the ring buffers, and what the modules wrote."""
        buffers, index = next_state["buffers"], next_state["index"]
        newest = {name: ring_read(buffer, index[name], 1) for name, buffer in buffers.items()}
        groups = {
            name: group.carry_written(next_state[name]) for name, group in self.groups.items()
        }
        return {"buffers": newest, **groups}

    def update_statistics(self, rollout_extras: dict[str, PyTree]) -> None:
        for name, group in self.groups.items():
            group.update_statistics(rollout_extras[name])

    def step(
        self,
        state: dict[str, PyTree],
        x: Mapping[str, jax.Array],
        rollout_extras: dict[str, PyTree] | None,
        outputs: Iterable[str],
        effects: Effects | None = None,
    ) -> StatefulModuleOutput:
        """Runs one step.

        Args:
          state: the carry state.
          x: (B, size) by population, what is added to its sum from outside; may lack populations.
          rollout_extras: extras of the custom modules to replay, or None.
          outputs: the populations whose outputs are wanted.
          effects: what interventions do to it; None for nothing.

        Returns:
          The outputs of these populations by name, (B, size).
        """

        def run(child: StatefulModule, *inputs: PyTree) -> StatefulModuleOutput:
            return child(*inputs)

        def past(name: str, delay: int) -> jax.Array:
            return ring_read(state["buffers"][name], state["index"][name], delay)

        rows = jax.tree.leaves((x, state))[0].shape[0]
        acting = self.acting(effects.cut if effects is not None else ())
        evaluation = Evaluation(acting, run, state, rollout_extras, (rows,), x, past, effects)
        for unit in self.packing.units:
            for level in unit.levels:
                evaluation.evaluate(level)

        def write(name: str, values: jax.Array) -> tuple[jax.Array, jax.Array]:
            return ring_write(state["buffers"][name], state["index"][name], values)

        return evaluation.result(write, outputs)


def _module(module: StatefulModule, transfer: Transfer) -> StatefulModule:
    """The module of one connection, or that of several."""
    if len(transfer.connections) == 1:
        return module
    try:
        return Tied(module, len(transfer.connections))
    except TypeError as error:
        names = ", ".join(repr(connection.name) for connection in transfer.connections)
        error.add_note(
            f"PopulationGraph.finalize: in the transform that {names} share, which is called once "
            "for all of them; give each connection an instance of its own"
        )
        raise
