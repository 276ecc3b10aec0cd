"""Responses: from what arrived at a level to its outputs, and the gradients of that."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from .._declaration._aggregation import REDUCTIONS
from ._packing import Response
from ._selection import joined

Call = Callable[[str, str | None, jax.Array], jax.Array]
"""``call(kind, name, x)`` runs a module of a connection or population."""


def no_modules(kind: str, name: str | None, x: jax.Array) -> jax.Array:
    """The call where there are no modules."""
    raise AssertionError(kind, name, x)


def respond(
    responses: tuple[Response, ...],
    totals: jax.Array,
    lead_axes: int,
    call: Call = no_modules,
) -> jax.Array:
    """Outputs of a level for its intake: aggregation, compute, then activation, of each population.

    Args:
      responses: what the level consists of.
      totals: (*lead, intake).
      lead_axes: 1 for a step, 2 for a sequence; an activation sees (B, size).
      call: ``call(kind, name, x)`` runs a module of a population.
    """
    outputs, start = [], 0
    for response in responses:
        own = totals[..., start : start + response.intake]
        start += response.intake
        outputs.append(_response(response, own, lead_axes, call))
    return joined(outputs)


def pullback_inputs(
    responses: tuple[Response, ...], totals: jax.Array
) -> tuple[jax.Array | None, ...]:
    """What :func:`respond_backward` needs of the sums of a sequence, for all steps at once.

    Args:
      responses: what the level consists of; without modules.
      totals: (T, B, intake).

    Returns:
      For each response (T, B, columns): the slopes where the activation treats every number by
      itself, otherwise the sums; None where there is no activation.
    """
    inputs, start = [], 0
    for response in responses:
        own = totals[..., start : start + response.intake]
        start += response.intake
        if response.activation is None and response.aggregate is None:
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
    """The gradient of one step's intake, (B, intake), for that of the outputs; without modules.

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
            _, pull = jax.vjp(lambda z, r=response: _response(r, z, 1, no_modules), own)
            d_totals += pull(d_output)
    return joined(d_totals)


def _response(
    response: Response,
    total: jax.Array,
    lead_axes: int,
    call: Call,
) -> jax.Array:
    """Outputs of populations that respond alike, (*lead, width), for their intake."""
    name = response.population
    if response.aggregate is not None:
        shape = (response.count, response.messages + 1, response.size)
        apart = total.reshape((*total.shape[:-1], *shape))
        messages, direct = apart[..., :-1, :], apart[..., -1, :]
        if reduce := REDUCTIONS.get(response.aggregate.name):
            total = reduce(messages, axis=-2) + direct
        else:
            total = call("aggregates", name, messages[..., 0, :, :]) + direct[..., 0, :]
        total = total.reshape((*total.shape[:lead_axes], response.width))
    if response.has_compute:
        total = call("computes", name, total)
    return _activated(response, total, lead_axes)


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
