"""Delays that are not whole steps: learnable ones, and the weights of all taps."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from .._declaration._delay import LearnableDelay, is_weighted
from .._declaration._spec import Connection, GraphSpec
from ._packing import Transfer

MARGIN = 0.01
"""In steps: no nearer to a bound a learnable delay begins, or is written."""


class DelaySpread(nnx.Variable):
    """How many steps around a learnable delay take part; no optimiser sees it."""


@dataclasses.dataclass(frozen=True)
class _Range:
    """What learnable delays have in common whose weights are computed together.

    Attributes:
      minimum: in steps.
      maximum: in steps.
      units: number of delays of a connection.
      size: of its source.
    """

    minimum: int
    maximum: int
    units: int
    size: int


class Delays(nnx.Module):
    """The delays of a graph as its connections act: with which weights they read which step.

    Args:
      spec: the declaration.

    Attributes:
      logits: for the n learnable delays of each range, (n, units), the logit of where in the range
        they are.
      spreads: for each range, (n,), in steps.
    """

    def __init__(self, spec: GraphSpec):
        sizes = {p.name: p.size for p in spec.populations}
        fixed: list[np.ndarray] = []
        starts: list[tuple[str, int]] = []
        ranges: dict[_Range, list[tuple[str, LearnableDelay]]] = {}
        start = 0
        for connection in spec.connections:
            delay, size = connection.delay, sizes[connection.src]
            if isinstance(delay, LearnableDelay):
                units = size if delay.per_unit else 1
                kind = _Range(delay.minimum, delay.maximum, units, size)
                ranges.setdefault(kind, []).append((connection.name, delay))
            elif is_weighted(delay):
                fixed.append(fixed_weights(delay, size).reshape(-1))
                starts.append((connection.name, start))
                start += fixed[-1].size
        self._fixed = tuple(np.concatenate(fixed).tolist()) if fixed else ()
        self._ranges = tuple(ranges)
        self._learnable: tuple[tuple[str, tuple[int, int]], ...] = tuple(
            (name, (number, place))
            for number, members in enumerate(ranges.values())
            for place, (name, _) in enumerate(members)
        )
        for kind, members in ranges.items():
            for name, _ in members:
                starts.append((name, start))
                start += (kind.maximum - kind.minimum + 1) * kind.size
        self._starts = tuple(starts)
        first = [[_first(delay) for _, delay in members] for members in ranges.values()]
        self.logits = nnx.List(
            [
                nnx.Param(_logits(kind, np.repeat(np.array(own)[:, None], kind.units, axis=1)))
                for kind, own in zip(ranges, first, strict=True)
            ]
        )
        self.spreads = nnx.List(
            [
                DelaySpread(jnp.asarray([delay.spread for _, delay in members], jnp.float32))
                for members in ranges.values()
            ]
        )

    def of(self, connection: Connection) -> tuple[nnx.Param, DelaySpread, int]:
        """The parameter and the spreads of a learnable delay's range, and its place there."""
        number, place = dict(self._learnable)[connection.name]
        return self.logits[number], self.spreads[number], place

    def steps(self, connection: Connection) -> Float[Array, "*units"]:
        """A learnable delay, in steps: () or (size of src,)."""
        delay, (parameter, _, place) = connection.delay, self.of(connection)
        assert isinstance(delay, LearnableDelay)
        steps = _steps(delay.minimum, delay.maximum, parameter[...][place])
        return steps if delay.per_unit else steps[0]

    def weights(self) -> Float[Array, " all"]:
        """With which weight each tap counts for each unit of its source, of all connections."""
        found = [jnp.asarray(np.array(self._fixed), jnp.zeros(()).dtype)] if self._fixed else []
        for kind, logits, spreads in zip(self._ranges, self.logits, self.spreads, strict=True):
            steps = _steps(kind.minimum, kind.maximum, logits[...])
            own = hat_weights(steps, kind.minimum, kind.maximum, spreads[...])
            found.append(jnp.broadcast_to(own, (*own.shape[:2], kind.size)).reshape(-1))
        return jnp.concatenate(found) if found else jnp.zeros(0)

    def reader(self) -> Callable[[Transfer, Array], Array]:
        """Returns what adds up the taps of connections with a module, with their weights.

        It is called with the connections and what they read, (*lead, all taps * size), and returns
        (*lead, n, size) for n connections, (*lead, size) for one.
        """
        weights, places = self.weights(), self.places()

        def carried(transfer: Transfer, rows: Array) -> Array:
            size = rows.shape[-1] // sum(transfer.taps)
            if max(transfer.taps) > 1:
                index = np.full(rows.shape[-1], -1)  # of one tap, which has no weight
                start = 0
                for connection, count in zip(transfer.connections, transfer.taps, strict=True):
                    end = start + count * size
                    if connection.name in places:
                        index[start:end] = places[connection.name] + np.arange(count * size)
                    start = end
                own = jnp.where(index < 0, 1, jnp.take(weights, np.maximum(index, 0), mode="clip"))
                rows = rows * own.astype(rows.dtype)
                apart = jnp.sum(_by_tap(rows, transfer.taps, size), axis=-2)
            else:
                apart = rows.reshape((*rows.shape[:-1], len(transfer.taps), size))
            return apart if len(transfer.taps) > 1 else apart[..., 0, :]

        return carried

    def places(self) -> dict[str, int]:
        """Where those of each connection of several taps begin in :meth:`weights`."""
        return dict(self._starts)


def fixed_weights(delay: int | float | tuple[float, ...], size: int) -> Float[np.ndarray, "2 size"]:
    """The weights of the two taps between which a fixed delay lies.

    Example:
      >>> fixed_weights(1.25, 2).tolist()
      [[0.75, 0.75], [0.25, 0.25]]
    """
    above = np.broadcast_to(np.asarray(delay, float) % 1, (size,))
    return np.stack([1 - above, above])


def hat_weights(
    delays: Float[Array, "n units"], minimum: int, maximum: int, spreads: Float[Array, " n"]
) -> Float[Array, "n taps units"]:
    """The weights of the taps of learnable delays of one range; they add up to 1.

    At whole steps, where the slope of the weights jumps, the gradient is that of a longer delay.

    Example:
      >>> hat_weights(jnp.array([[2.25]]), 1, 4, jnp.array([1.0])).ravel().tolist()
      [0.0, 0.75, 0.25, 0.0]
    """
    steps = jnp.arange(minimum, maximum + 1)[:, None]
    distance = (delays[:, None] - steps) / jnp.maximum(spreads, 1)[:, None, None]
    rising = jnp.where(distance >= -1, 1 + distance, 0)
    falling = jnp.where(distance < 1, 1 - distance, 0)
    hat = jnp.where(distance < 0, rising, falling)
    return hat / hat.sum(1, keepdims=True)


def parameter_for(delay: LearnableDelay, steps: Float[Array, "*units"]) -> Float[Array, "*units"]:
    """The parameter at which a learnable delay has a value, or the nearest one within bounds."""
    span = delay.maximum - delay.minimum
    margin = MARGIN / span
    return jax.scipy.special.logit(jnp.clip((steps - delay.minimum) / span, margin, 1 - margin))


def _steps(minimum: int, maximum: int, logits: Float[Array, "*n"]) -> Float[Array, "*n"]:
    return minimum + (maximum - minimum) * jax.nn.sigmoid(logits)


def _first(delay: LearnableDelay) -> float:
    return (delay.minimum + delay.maximum) / 2 if delay.initial is None else delay.initial


def _logits(kind: _Range, steps: Float[np.ndarray, "n units"]) -> Float[Array, "n units"]:
    delay = LearnableDelay(kind.minimum, kind.maximum)
    return parameter_for(delay, jnp.asarray(steps, jnp.float32))


def _by_tap(
    rows: Float[Array, "*lead rows"], counts: tuple[int, ...], size: int
) -> Float[Array, "*lead n taps size"]:
    """Rows of several connections apart, with zeros for taps that a connection lacks."""
    most, starts = max(counts), np.cumsum((0, *counts[:-1]))
    if min(counts) == most:
        return rows.reshape((*rows.shape[:-1], len(counts), most, size))
    tap = np.arange(most)
    index = (starts[:, None] + tap)[..., None] * size + np.arange(size)
    index = np.where((tap < np.array(counts)[:, None])[..., None], index, rows.shape[-1])
    return jnp.take(rows, index, axis=-1, mode="fill", fill_value=0)
