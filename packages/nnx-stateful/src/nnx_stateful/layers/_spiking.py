"""What spiking layers share: membrane, reset, refractoriness, and one scan over time."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._state import reset_rows
from .._unroll import sequence_length
from .._validate import check_bool, check_int, check_number
from ._inputs import check_features
from ._per_unit import Decay, PerUnit, check_units, per_unit, time_range
from ._surrogate import Surrogate

State = dict[str, Array]
Factors = dict[str, tuple[Array, Array]]
"""The decay and ``1 - decay``, each (size,), by the entry of the state that decays."""


class SpikingLayer(StatefulModule):
    """Units that integrate their input and emit a spike when they reach a threshold.

    A subclass says what the threshold is in :meth:`threshold_of`, and may keep further entries in
    the carry: :meth:`fresh_row`, :meth:`factors`, :meth:`adapted`. :class:`LIF` documents the
    arguments.
    """

    def __init__(
        self,
        size: int,
        rngs: nnx.Rngs,
        *,
        time_constant: PerUnit = 20.0,
        learnable: bool = False,
        dt: float = 1.0,
        threshold: float = 1.0,
        reset: str = "soft",
        detach_reset: bool = True,
        refractory_steps: int = 0,
        surrogate: str | Surrogate = "fast_sigmoid",
    ):
        kind = type(self).__name__
        check_units(kind, size, rngs, learnable, dt)
        check_number(kind, "threshold", threshold, "positive")
        check_bool(kind, "detach_reset", detach_reset)
        check_int(kind, "refractory_steps", refractory_steps, minimum=0)
        if not isinstance(reset, str) or reset not in ("soft", "hard"):
            raise ValueError(f"{kind}: reset: expected 'soft' or 'hard', got {reset!r}")
        self.size = size
        self.threshold = float(threshold)
        self.reset = reset
        self.detach_reset = detach_reset
        self.refractory_steps = refractory_steps
        self.surrogate = surrogate if isinstance(surrogate, Surrogate) else Surrogate(surrogate)
        tau = per_unit(kind, "time_constant", time_constant, size, rngs, time_range(dt))
        self.decay = Decay(tau, dt, learnable)

    @property
    def time_constant(self) -> Float[Array, " size"]:
        """Tau, one for each unit, in the unit of dt."""
        return self.decay.time_constants

    @abc.abstractmethod
    def threshold_of(self, state: State) -> float | Float[Array, "B size"]:
        """Returns the threshold in a step, given the carry before it."""

    def adapted(self, state: State, spikes: Float[Array, "B size"], factors: Factors) -> State:
        """Returns the further entries of the carry after a step."""
        del state, spikes, factors
        return {}

    def factors(self) -> Factors:
        """Returns how entries of the carry decay; computed once for all steps."""
        return {"v": self.decay.factors()}

    def fresh_row(self) -> State:
        """Returns the carry of one row at the start of an episode."""
        row = {"v": jnp.zeros(self.size, self.decay.logit[...].dtype)}
        if self.refractory_steps:
            row["refractory"] = jnp.zeros(self.size, jnp.int32)
        return row

    def initialize_state(self, batch_size: int) -> State:
        return jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (batch_size, *leaf.shape)), self.fresh_row()
        )

    def reset_state(self, prev_state: State) -> State:
        del prev_state
        return self.fresh_row()

    def __call__(
        self, state: State, x: Float[Array, "B size"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        del rollout_extras
        factors = self.factors()
        state, (spikes, metrics) = self._advance(state, self._drive(x, factors), factors)
        return StatefulModuleOutput(state, spikes, 0.0, metrics)

    def unroll(
        self,
        state: State,
        xs: Float[Array, "T B size"],
        done: Bool[Array, "T B"] | None = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        length = sequence_length(self, xs, done, rollout_extras)
        factors = self.factors()

        def step(state: State, inputs: tuple[Array, Array | None]) -> tuple[State, Any]:
            drive, ended = inputs
            state, shown = self._advance(state, drive, factors)
            return (state if ended is None else reset_rows(self, state, ended)), shown

        state, (spikes, metrics) = jax.lax.scan(step, state, (self._drive(xs, factors), done))
        return StatefulModuleOutput(state, spikes, jnp.zeros(length, spikes.dtype), metrics)

    def _drive(self, x: Float[Array, "*lead size"], factors: Factors) -> Float[Array, "*lead size"]:
        """Returns what the input adds to the potential."""
        check_features(self, x, self.size)
        _, rest = factors["v"]
        return rest * x.astype(rest.dtype)

    def _advance(
        self, state: State, drive: Float[Array, "B size"], factors: Factors
    ) -> tuple[State, tuple[Float[Array, "B size"], dict[str, Float[Array, " B"]]]]:
        """Charges, fires and resets; returns the next state, and the spikes with metrics."""
        threshold = self.threshold_of(state)
        decay, _ = factors["v"]
        v = decay * state["v"] + drive
        spikes = self.surrogate.spike(v - threshold)
        further = {}
        if self.refractory_steps:
            held = state["refractory"] > 0
            v = jnp.where(held, state["v"], v)
            spikes = jnp.where(held, 0, spikes)
            waited = jnp.maximum(state["refractory"] - 1, 0)
            further["refractory"] = jnp.where(spikes > 0, self.refractory_steps, waited)
        fired = jax.lax.stop_gradient(spikes) if self.detach_reset else spikes
        v = v - fired * threshold if self.reset == "soft" else v * (1 - fired)
        metrics = {"firing_rate": spikes.mean(axis=-1)}
        if jnp.ndim(threshold):
            metrics["threshold"] = jnp.mean(threshold, axis=-1)
        return {"v": v, **further, **self.adapted(state, spikes, factors)}, (spikes, metrics)
