"""One pass over a circuit, a step or a whole sequence: sums, responses, and what they leave."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from nnx_stateful import Map, PyTree, Routing, StatefulModuleOutput

from .._declaration._spec import Connection
from ._effects import Effects
from ._packing import Level, Packing, Transfer, Unit
from ._response import respond
from ._selection import Selection, joined
from ._weights import product


@dataclasses.dataclass(frozen=True)
class Acting:
    """A circuit as it acts in one pass.

    Attributes:
      packing: the graph as few operations.
      dtype: the floating type of the parameters.
      compute_dtype: type of the operands of products; None for their own.
      weights: kernel and summed biases of each block.
      cut: kernel and bias of the connections that are left out of those, by name.
      groups: the custom modules by kind.
      carried: what connections carry to their modules, for what they read.
    """

    packing: Packing
    dtype: Any
    compute_dtype: Any
    weights: Sequence[tuple[jax.Array, jax.Array]]
    cut: Mapping[str, tuple[jax.Array, jax.Array]]
    groups: Mapping[str, Map]
    carried: Callable[[Transfer, jax.Array], jax.Array]


class Evaluation:
    """One pass over a circuit: a step with leading axes (B,), or a sequence with (T, B).

    Args:
      acting: what is evaluated.
      run: ``run(child, state, x, rollout_extras)``, which steps or unrolls a custom module.
      state: its carry state.
      rollout_extras: extras by group and child name, or None.
      lead: the leading axes.
      drive: (*lead, size) by population, what is added to its sum from outside.
      past: ``past(ring, delay)``, what the ring buffer of that name held so many steps ago,
        (*lead, columns).
      effects: what interventions do to a step; None for nothing.

    Attributes:
      arrays: what selections read: outputs by level, shown and hidden ones, and past outputs.
    """

    def __init__(
        self,
        acting: Acting,
        run: Callable[..., StatefulModuleOutput],
        state: Mapping[str, PyTree],
        rollout_extras: Mapping[str, PyTree] | None,
        lead: tuple[int, ...],
        drive: Mapping[str, jax.Array],
        past: Callable[[str, int], jax.Array],
        effects: Effects | None = None,
    ):
        self._acting = acting
        self._packing = acting.packing
        self._lead = lead
        self._dtype = acting.dtype
        self._effects = effects or Effects(acting.packing)
        self._drive = {("drive", name): value for name, value in drive.items()}
        self._past = past
        self.arrays: dict[Any, jax.Array] = {}
        self._routings = {
            name: Routing(
                group,
                run,
                state[name],
                None if rollout_extras is None else rollout_extras[name],
                lead,
            )
            for name, group in acting.groups.items()
        }

    def evaluate(self, level: Level) -> None:
        """Computes the outputs of a level from those of the levels before it."""
        transfers = (*level.transfers, *level.inner_transfers)
        total = self._integrate(level, (*level.blocks, *level.inner_blocks), transfers)
        for connection, start in self._effects.cut_into(level):
            arriving = self._effects.on_connection(connection, self._arriving(connection))
            total = add_arriving(total, arriving, [start])
        total = self._effects.on_level("sums", level, total)
        outputs = respond(level.responses, total, len(self._lead), self._call)
        outputs = self._effects.on_level("outputs", level, outputs)
        self._note(level, *level.parted(outputs))

    def enter(self, unit: Unit) -> tuple[jax.Array, jax.Array]:
        """What reaches a unit with a cycle from outside, and the biases from within.

        Returns:
          (*lead, entering columns) and (intake,).
        """
        entering, biases = [], []
        for level in unit.levels:
            if level.entering.width:
                total = self._integrate(level, level.blocks, level.transfers)
                entering.append(level.entering({"level": total}))
            within = {i: self._acting.weights[i][1] for i in level.inner_blocks}
            bias = sums_of(level.from_inner_blocks, within)
            biases.append(jnp.zeros(level.intake, self._dtype) if bias is None else bias)
        nothing = jnp.zeros((*self._lead, 0), self._dtype)
        return joined(entering or [nothing]), joined(biases)

    def leave(self, unit: Unit, outputs: Sequence[tuple[jax.Array, jax.Array]]) -> None:
        """Notes the outputs of a unit with a cycle: of each level those shown, and the others."""
        for level, parts in zip(unit.levels, outputs, strict=True):
            self._note(level, *parts)

    def _note(self, level: Level, shown: jax.Array, hidden: jax.Array) -> None:
        self.arrays["level", level.index] = shown
        self.arrays["hidden", level.index] = hidden

    def _integrate(
        self,
        level: Level,
        blocks: Sequence[int],
        transfers: Sequence[Transfer],
    ) -> jax.Array:
        """The intake of a level: what drives it, and what blocks and custom transforms add."""
        terms = []
        if level.index in self._packing.drives:
            terms.append(self._packing.drives[level.index](self._drive))
        for family, selection in (
            (level.blocks, level.from_blocks),
            (level.inner_blocks, level.from_inner_blocks),
        ):
            computed = {index: self._sums(index) for index in family if index in blocks}
            if computed:
                terms.append(sums_of(selection, computed))
        if not terms:
            terms.append(jnp.zeros((*self._lead, level.intake), self._dtype))
        total = sum(terms[1:], terms[0])
        for transfer in transfers:
            sent = self._acting.carried(transfer, self._select(transfer.sources))
            arriving = self._call("transforms", transfer.name, sent)
            arriving = self._effects.on_transfer(transfer, arriving)
            total = add_arriving(total, arriving, transfer.columns)
        return total

    def _sums(self, index: int) -> jax.Array:
        """The sums of a block."""
        block, (kernel, bias) = self._packing.blocks[index], self._acting.weights[index]
        read, dtype = self._select(block.sources), self._acting.compute_dtype
        if self._acting.cut.keys() & dict(block.connections).keys():
            return _product_of_nonzero(kernel, read, dtype) + bias
        return product(kernel, read, dtype) + bias

    def _arriving(self, connection: Connection) -> jax.Array:
        """What a default connection adds to the sums, computed apart from its block."""
        kernel, bias = self._acting.cut[connection.name]
        rows = self._select(self._packing.read(connection))
        return product(kernel[None], rows, self._acting.compute_dtype) + bias

    def _select(self, sources: Selection) -> jax.Array:
        return sources({key: self._read(key) for key in sources.keys})

    def _read(self, key: Any) -> jax.Array:
        if key not in self.arrays:
            _, ring, delay = key
            self.arrays[key] = self._past(ring, delay)
        return self.arrays[key]

    def _call(self, kind: str, name: str | None, x: jax.Array) -> jax.Array:
        assert name is not None
        return self._routings[kind].call(name, x)

    def _output(self, name: str) -> jax.Array:
        """The output of one population, (*lead, size)."""
        key, start, size = self._packing.places[name]
        return self.arrays[key][..., start : start + size]

    def result(
        self,
        write: Callable[[str, jax.Array], tuple[jax.Array, jax.Array]],
        outputs: Iterable[str],
        parts: Sequence[Mapping[str, StatefulModuleOutput]] = (),
    ) -> StatefulModuleOutput:
        """Joins the outputs, the rings after them, and what the custom modules returned.

        Args:
          write: ``write(ring, values)`` returns the ring buffer of that name and its index
            after the values, (*lead, columns), were written.
          outputs: the populations whose outputs are wanted.
          parts: results, by kind, of those custom modules that were run elsewhere; they win.
        """
        rings = {
            name: write(name, ring.remembered(self.arrays).astype(self._dtype))
            for name, ring in self._packing.rings.items()
        }
        own = {name: routing.result(None) for name, routing in self._routings.items()}

        def merged(field: str) -> dict[str, PyTree]:
            found = {name: dict(getattr(out, field)) for name, out in own.items()}
            for part in parts:
                for name, out in part.items():
                    found[name] |= getattr(out, field)
            return found

        loss = jnp.zeros(self._lead, self._dtype)
        for out in (*own.values(), *(out for part in parts for out in part.values())):
            loss = loss + out.regularization_loss
        return StatefulModuleOutput(
            next_state={**ring_state(rings), **merged("next_state")},
            output={name: self._output(name) for name in outputs},
            regularization_loss=loss,
            metrics=merged("metrics"),
            rollout_extras=merged("rollout_extras"),
        )


def _product_of_nonzero(kernel: jax.Array, read: jax.Array, dtype: Any) -> jax.Array:
    """The product of a block in which 0 times a number that is not finite is 0.

    A lesioned connection has the weight 0, and carries nothing whatever its source puts out. Only
    steps with lesioned connections pay for the three products.
    """
    finite = jnp.isfinite(read)
    touched = product((kernel != 0).astype(read.dtype), (~finite).astype(read.dtype)) > 0
    clean = product(kernel, jnp.where(finite, read, 0), dtype)
    return jnp.where(touched, product(kernel, read, dtype), clean)


def add_arriving(total: jax.Array, arriving: jax.Array, columns: Sequence[int]) -> jax.Array:
    """Adds what a custom transform returned to the intake of its level.

    Args:
      total: (*lead, intake).
      arriving: (*lead, size), or (*lead, n, size) for n connections.
      columns: the first column of each.
    """
    total = total.astype(jnp.result_type(total, arriving))
    size = arriving.shape[-1]
    if len(columns) == 1:
        return total.at[..., columns[0] : columns[0] + size].add(arriving)
    places = np.concatenate([column + np.arange(size) for column in columns])
    return total.at[..., places].add(arriving.reshape((*total.shape[:-1], -1)))


def sums_of(selection: Selection | None, blocks: Mapping[int, jax.Array]) -> Any:
    """What blocks add to the columns of a level; None if there are none."""
    if selection is None:
        return None
    return selection({("block", index): sums for index, sums in blocks.items()})


def ring_state(rings: Mapping[str, tuple[jax.Array, jax.Array]]) -> dict[str, PyTree]:
    """Returns the part of a carry state that (buffer, index) by ring makes up."""
    return {
        "buffers": {name: buffer for name, (buffer, _) in rings.items()},
        "index": {name: index for name, (_, index) in rings.items()},
    }
