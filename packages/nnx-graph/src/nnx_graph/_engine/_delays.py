"""Delays that are not whole steps: learnable ones, and the weights of all taps."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from .._declaration._delay import LearnableDelay, fixed_weights, hat_weights, is_weighted, taps
from .._declaration._spec import Connection, GraphSpec

MARGIN = 1e-3
"""Share of the range of a learnable delay: no nearer to a bound it begins, or is written."""


class DelaySpread(nnx.Variable):
    """How many steps around a learnable delay take part; no optimiser sees it."""


class Delays(nnx.Module):
    """The delays of a graph as its connections act: with which weights they read which step.

    Args:
      spec: the declaration.

    Attributes:
      shares: for each learnable delay the logit of where in its range it is, () or (size of src,).
      spreads: for each learnable delay, (), in steps.
    """

    def __init__(self, spec: GraphSpec):
        sizes = {p.name: p.size for p in spec.populations}
        self._several = tuple((c, sizes[c.src]) for c in spec.connections if is_weighted(c.delay))
        found = [
            (c.name, c.delay, size)
            for c, size in self._several
            if isinstance(c.delay, LearnableDelay)
        ]
        self._learnable = tuple(name for name, _, _ in found)
        self.shares = nnx.List([nnx.Param(_initial(delay, size)) for _, delay, size in found])
        self.spreads = nnx.List([DelaySpread(jnp.float32(delay.spread)) for _, delay, _ in found])

    def of(self, connection: Connection) -> tuple[nnx.Param, DelaySpread]:
        """The parameter and the spread of a learnable delay."""
        place = self._learnable.index(connection.name)
        return self.shares[place], self.spreads[place]

    def steps(self, connection: Connection) -> Float[Array, "*units"]:
        """A learnable delay, in steps."""
        delay = connection.delay
        assert isinstance(delay, LearnableDelay)
        share = jax.nn.sigmoid(self.of(connection)[0][...])
        return delay.minimum + (delay.maximum - delay.minimum) * share

    def weights(self, connection: Connection) -> Float[Array, "taps size"]:
        """With which weight each tap counts for each unit of the source, of several taps."""
        size, delay = dict(self._several)[connection], connection.delay
        if not isinstance(delay, LearnableDelay):
            return jnp.asarray(fixed_weights(delay, size), jnp.zeros(()).dtype)
        steps, spread = jnp.atleast_1d(self.steps(connection)), self.of(connection)[1][...]
        weights = hat_weights(steps, delay.minimum, delay.maximum, spread)
        return jnp.broadcast_to(weights, (weights.shape[0], size))

    def all_weights(self) -> Float[Array, " all"]:
        """The weights of all linear connections of several taps, one after the other."""
        found = [self.weights(c).reshape(-1) for c, _ in self._several if not c.has_transform]
        return jnp.concatenate(found) if found else jnp.zeros(0)

    def places(self) -> dict[str, int]:
        """Where those of each linear connection of several taps begin in :meth:`all_weights`."""
        starts, start = {}, 0
        for connection, size in self._several:
            if not connection.has_transform:
                starts[connection.name] = start
                start += len(taps(connection.delay, size)) * size
        return starts


def parameter_for(delay: LearnableDelay, steps: Float[Array, "*units"]) -> Float[Array, "*units"]:
    """The parameter at which a learnable delay has a value, or the nearest one within bounds."""
    share = (steps - delay.minimum) / (delay.maximum - delay.minimum)
    return jax.scipy.special.logit(jnp.clip(share, MARGIN, 1 - MARGIN))


def _initial(delay: LearnableDelay, size: int) -> Float[Array, "*units"]:
    first = (delay.minimum + delay.maximum) / 2 if delay.initial is None else delay.initial
    shape = (size,) if delay.per_unit else ()
    return parameter_for(delay, jnp.asarray(np.full(shape, first, np.float32)))
