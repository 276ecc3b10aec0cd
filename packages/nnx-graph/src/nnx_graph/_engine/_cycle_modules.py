"""A unit with a cycle over a whole sequence by a plain scan, as custom modules in it require.

It also serves where what enters is of a wider type than the parameters.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float
from nnx_stateful import (
    Map,
    PyTree,
    Routing,
    StatefulModule,
    StatefulModuleOutput,
    rebuild,
    reset_rows,
)

from ._cycle import Cycle, Kernels, level_total, masked
from ._evaluation import add_arriving
from ._packing import Transfer, Unit
from ._response import respond
from ._selection import joined
from ._weights import product


class Participants(nnx.Module):
    """The custom modules of a cycle, by kind.

    Args:
      groups: the custom modules of the graph, by kind.
      unit: whose modules to take.
    """

    def __init__(self, groups: Mapping[str, Map], unit: Unit):
        self.kinds = tuple(kind for kind, _ in unit.modules)
        self.maps = nnx.List(
            [
                Map({name: groups[kind].children[name] for name in names})
                for kind, names in unit.modules
            ]
        )

    def items(self) -> list[tuple[str, Map]]:
        """The kinds, each with its modules."""
        return list(zip(self.kinds, self.maps, strict=True))

    def part_of(self, tree: Mapping[str, Mapping[str, PyTree]]) -> dict[str, dict[str, PyTree]]:
        """What belongs to these modules in a tree by kind and name."""
        return {
            kind: {name: tree[kind][name] for name in group.child_names}
            for kind, group in self.items()
        }


def run_cycle_of_modules(
    unit: Unit,
    cycle: Cycle,
    kernels: Kernels,
    groups: Mapping[str, Map],
    state: Mapping[str, PyTree],
    bias: Float[Array, " intake"],
    drive: Float[Array, "T B entering"],
    history: Float[Array, "K B width"],
    valid: Bool[Array, "T delays B"] | None,
    done: Bool[Array, "T B"] | None,
    rollout_extras: Mapping[str, PyTree] | None,
    carried: Callable[[Transfer, Array], Array],
) -> tuple[list[tuple[Array, Array]], dict[str, StatefulModuleOutput]]:
    """Returns the outputs of each level, in two parts, and what its modules returned, by kind.

    Arguments are the unit and those of ``run_cycle``; the modules, their carry and their extras
    come by kind; what connections carry to their modules is computed by ``carried``.
    """
    participants = Participants(groups, unit)
    graphdef, variables = nnx.split(participants)
    dtype = history.dtype
    inner_sources = {
        level.index: {
            index: sources
            for index in level.inner_blocks
            if (sources := cycle.blocks[index].cycle_sources) is not None
        }
        for level in unit.levels
    }

    def step(carry: Any, inputs: Any) -> tuple[Any, Any]:
        window, states = carry
        drive, valid, ended, extras = inputs
        local = rebuild(graphdef, variables)
        routings = {
            kind: Routing(
                group,
                _step,
                states[kind],
                None if extras is None else extras[kind],
                drive.shape[:1],
            )
            for kind, group in local.items()
        }

        def call(kind: str, name: str | None, x: Array) -> Array:
            assert name is not None
            return routings[kind].call(name, x)

        arrays: dict[Any, Array] = {}
        for place, (delay, selection) in enumerate(unit.backs):
            arrays["back", delay] = masked(selection({"unit": window[-delay]}), valid, place)
        for level in unit.levels:
            sums = {
                index: product(kernels[index], sources(arrays), cycle.dtype)
                for index, sources in inner_sources[level.index].items()
            }
            total = level_total(level, sums, bias, drive)
            for transfer in level.inner_transfers:
                assert transfer.cycle_sources is not None
                sent = carried(transfer, transfer.cycle_sources(arrays))
                arriving = routings["transforms"].call(transfer.name, sent)
                total = add_arriving(total, arriving, transfer.columns)

            arrays["level", level.index] = respond(level.responses, total, 1, call)
        levels = [arrays["level", level.index] for level in unit.levels]
        window = jnp.concatenate([window, joined(levels)[None].astype(dtype)])[1:]
        results = {kind: routing.result(None) for kind, routing in routings.items()}
        states = {kind: out.next_state for kind, out in results.items()}
        if ended is not None:
            states = {kind: reset_rows(group, states[kind], ended) for kind, group in local.items()}
        results = {kind: out.replace(next_state=None) for kind, out in results.items()}
        return (window, states), (levels, results)

    extras = None if rollout_extras is None else participants.part_of(rollout_extras)
    (_, states), (levels, results) = jax.lax.scan(
        step, (history, participants.part_of(state)), (drive, valid, done, extras)
    )
    parts = [level.parted(x) for level, x in zip(unit.levels, levels, strict=True)]
    return parts, {kind: out.replace(next_state=states[kind]) for kind, out in results.items()}


def _step(child: StatefulModule, *inputs: PyTree) -> StatefulModuleOutput:
    return child(*inputs)
