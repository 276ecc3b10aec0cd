"""One pass over a circuit, a step or a whole sequence: sums, responses, and what they leave."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from nnx_stateful import PyTree, Routing, StatefulModuleOutput

from .._declaration._spec import Connection
from ._effects import Effects
from ._packing import Level, Response, Unit
from ._selection import Selection
from ._weights import product

if TYPE_CHECKING:
    from ._circuit import Circuit


class Evaluation:
    """One pass over a circuit: a step with leading axes (B,), or a sequence with (T, B).

    Args:
      circuit: what is evaluated.
      run: ``run(child, state, x, rollout_extras)``, which steps or unrolls a custom module.
      state: carry state of the circuit.
      rollout_extras: extras by group and child name, or None.
      lead: the leading axes.
      drive: (*lead, size) by population, what is added to its sum from outside.
      past: ``past(ring, delay)``, what the ring buffer of that name held so many steps ago,
        (*lead, columns).
      effects: what interventions do to a step; None for nothing.

    Attributes:
      weights: kernel and summed biases of each block, as they act.
      arrays: what selections read: outputs by level, shown and hidden ones, and past outputs.
    """

    def __init__(
        self,
        circuit: "Circuit",
        run: Callable[..., StatefulModuleOutput],
        state: Mapping[str, PyTree],
        rollout_extras: Mapping[str, PyTree] | None,
        lead: tuple[int, ...],
        drive: Mapping[str, jax.Array],
        past: Callable[[str, int], jax.Array],
        effects: Effects | None = None,
    ):
        self._circuit = circuit
        self._packing = circuit.packing
        self._lead = lead
        self._dtype = circuit.float_type
        self._effects = effects or Effects(circuit.packing)
        self.weights = circuit.acting_weights(self._effects.cut)
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
            for name, group in circuit.groups.items()
        }

    def evaluate(self, level: Level) -> None:
        """Computes the outputs of a level from those of the levels before it."""
        transforms = [*level.transforms, *((c, at) for c, at, _ in level.inner_transforms)]
        total = self._integrate(level, (*level.blocks, *level.inner_blocks), transforms)
        for connection, start in self._effects.cut_into(level):
            arriving = self._effects.on_connection(connection, self._arriving(connection))
            total = add_arriving(total, arriving, start)
        total = self._effects.on_level("sums", level, total)
        outputs = respond(level.responses, total, len(self._lead), self._compute)
        outputs = self._effects.on_level("outputs", level, outputs)
        self._note(level, *level.parted(outputs))

    def enter(self, unit: Unit) -> tuple[jax.Array, jax.Array]:
        """What reaches a unit with a cycle from outside, and the biases from within.

        Returns:
          (*lead, entering columns) and (width,).
        """
        entering, biases = [], []
        for level in unit.levels:
            if level.entering.width:
                total = self._integrate(level, level.blocks, level.transforms)
                entering.append(level.entering({"level": total}))
            within = {i: self.weights[i][1] for i in level.inner_blocks}
            bias = sums_of(level.from_inner_blocks, within)
            biases.append(jnp.zeros(level.width, self._dtype) if bias is None else bias)
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
        transforms: Sequence[tuple[Connection, int]],
    ) -> jax.Array:
        """Sums the input of a level, that of blocks, and that of custom transforms."""
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
            terms.append(jnp.zeros((*self._lead, level.width), self._dtype))
        total = sum(terms[1:], terms[0])
        for connection, start in transforms:
            arriving = self._routings["transforms"].call(connection.name, self._sent(connection))
            arriving = self._effects.on_connection(connection, arriving)
            total = add_arriving(total, arriving, start)
        return total

    def _sums(self, index: int) -> jax.Array:
        """The sums of a block."""
        sources, (kernel, bias) = self._packing.blocks[index].sources, self.weights[index]
        arrays = {key: self._read(key) for key in sources.keys}
        return product(kernel, sources(arrays), self._circuit.compute_dtype) + bias

    def _arriving(self, connection: Connection) -> jax.Array:
        """What a default connection adds to the sums, computed apart from its block."""
        kernel, bias = self._circuit.own_weights(connection)
        return product(kernel[None], self._sent(connection), self._circuit.compute_dtype) + bias

    def _sent(self, connection: Connection) -> jax.Array:
        """What a connection carries, before its transform."""
        key, first = self._packing.locate(connection)
        size = self._packing.plan.populations[connection.src].size
        return self._read(key)[..., first : first + size]

    def _read(self, key: Any) -> jax.Array:
        if key not in self.arrays:
            _, ring, delay = key
            self.arrays[key] = self._past(ring, delay)
        return self.arrays[key]

    def _compute(self, name: str, total: jax.Array) -> jax.Array:
        return self._routings["computes"].call(name, total)

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


def joined(parts: list[jax.Array]) -> jax.Array:
    """Puts arrays side by side along the last axis."""
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-1)


def add_arriving(total: jax.Array, arriving: jax.Array, start: int) -> jax.Array:
    """Adds what a custom transform returned to the sums of its population."""
    total = total.astype(jnp.result_type(total, arriving))
    return total.at[..., start : start + arriving.shape[-1]].add(arriving)


def sums_of(selection: Selection | None, blocks: Mapping[int, jax.Array]) -> Any:
    """What blocks add to the columns of a level; None if there are none."""
    if selection is None:
        return None
    return selection({("block", index): sums for index, sums in blocks.items()})


def respond(
    responses: tuple[Response, ...],
    totals: jax.Array,
    lead_axes: int,
    compute: Callable[[str, jax.Array], jax.Array] | None = None,
) -> jax.Array:
    """Outputs of a level for its sums: compute, then activation, of each population apart.

    Args:
      responses: what the level consists of.
      totals: (*lead, width).
      lead_axes: 1 for a step, 2 for a sequence; an activation sees (B, size).
      compute: ``compute(name, total)`` runs the module of a population.
    """
    outputs, start = [], 0
    for response in responses:
        total = totals[..., start : start + response.width]
        start += response.width
        if response.compute is not None:
            assert compute is not None
            total = compute(response.compute, total)
        outputs.append(_activated(response, total, lead_axes))
    return joined(outputs)


def pullback_inputs(
    responses: tuple[Response, ...], totals: jax.Array
) -> tuple[jax.Array | None, ...]:
    """What :func:`respond_backward` needs of the sums of a sequence, for all steps at once.

    Args:
      responses: what the level consists of; without modules.
      totals: (T, B, width).

    Returns:
      For each response (T, B, columns): the slopes where the activation treats every number by
      itself, otherwise the sums; None where there is no activation.
    """
    inputs, start = [], 0
    for response in responses:
        own = totals[..., start : start + response.width]
        start += response.width
        if response.activation is None:
            inputs.append(None)
        elif response.elementwise:
            _, pull = jax.vjp(lambda z, r=response: _activated(r, z, 2), own)
            inputs.append(pull(jnp.ones_like(own))[0])
        else:
            inputs.append(own)
    return tuple(inputs)


def respond_backward(
    responses: tuple[Response, ...], inputs: Sequence[jax.Array | None], d_outputs: jax.Array
) -> jax.Array:
    """The gradient of one step's sums, (B, width), for that of the outputs; without modules.

    Args:
      responses: what the level consists of.
      inputs: of this step, see :func:`pullback_inputs`.
      d_outputs: (B, width).
    """
    d_totals, start = [], 0
    for response, own in zip(responses, inputs, strict=True):
        d_output = d_outputs[..., start : start + response.width]
        start += response.width
        if own is None:
            d_totals.append(d_output)
        elif response.elementwise:
            d_totals.append(d_output * own)
        else:
            _, pull = jax.vjp(lambda z, r=response: _activated(r, z, 1), own)
            d_totals += pull(d_output)
    return joined(d_totals)


def _activated(response: Response, total: jax.Array, lead_axes: int) -> jax.Array:
    function = response.activation
    if function is None:
        return total

    def activate(x: jax.Array) -> jax.Array:
        return jnp.asarray(function(x))

    if response.count > 1:
        apart = total.reshape((*total.shape[:-1], response.count, response.size))
        activate = jax.vmap(activate, in_axes=1, out_axes=1)
    else:
        apart = total
    for _ in range(lead_axes - 1):
        activate = jax.vmap(activate)
    return activate(apart).reshape(total.shape).astype(total.dtype)


def ring_state(rings: Mapping[str, tuple[jax.Array, jax.Array]]) -> dict[str, PyTree]:
    """Returns the part of a carry state that (buffer, index) by ring makes up."""
    return {
        "buffers": {name: buffer for name, (buffer, _) in rings.items()},
        "index": {name: index for name, (_, index) in rings.items()},
    }
