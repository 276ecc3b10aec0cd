"""Probe modules: each does one thing that a container or loop may get wrong."""

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule


class CounterProbe(StatefulModule):
    """Adds the number of steps since the row's reset to its input; the carry is that number.

    Example:
      >>> probe = CounterProbe()
      >>> probe.unroll(probe.initialize_state(1), jnp.zeros((3, 1, 1))).output[:, 0, 0].tolist()
      [0.0, 1.0, 2.0]
    """

    def __call__(
        self, state: Int[Array, " B"], x: Float[Array, "B F"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        metrics = {"count": state}
        return StatefulModuleOutput(state + 1, x + state[:, None].astype(x.dtype), 0.0, metrics)

    def initialize_state(self, batch_size: int) -> Int[Array, " B"]:
        return jnp.zeros(batch_size, jnp.int32)

    def reset_state(self, prev_state: Int[Array, "*B"]) -> Int[Array, "*B"]:
        return jnp.zeros_like(prev_state)


class KeepingProbe(CounterProbe):
    """Counts steps across episodes: its carry is never reset, on purpose."""

    keeps_state_on_reset = True

    def reset_state(self, prev_state: Int[Array, "*B"]) -> Int[Array, "*B"]:
        return prev_state


class EmittingProbe(StatefulModule):
    """Emits what it saw as rollout_extras and, in a replay, outputs that instead of its input."""

    def __call__(
        self, state: PyTree, x: PyTree, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        seen = x if rollout_extras is None else rollout_extras
        return StatefulModuleOutput(state, seen, 0.0, {}, seen)


class MetricsProbe(StatefulModule):
    """Passes its input on and reports metrics: per row, scalar and nested."""

    folds_time = False  # the scalar is a mean over the batch

    def __call__(
        self, state: PyTree, x: Float[Array, "B F"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        metrics = {"row": x.sum(-1), "mean": x.mean(), "nested": {"max": x.max(-1)}}
        return StatefulModuleOutput(state, x, 0.0, metrics)


class RowLossProbe(StatefulModule):
    """Charges every row the mean square of its input."""

    folds_time = True

    def __call__(
        self, state: PyTree, x: Float[Array, "B F"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        return StatefulModuleOutput(state, x, jnp.mean(x**2, axis=-1), {})


class ScalarLossProbe(StatefulModule):
    """Charges the batch mean of what :class:`RowLossProbe` charges, as a scalar."""

    def __call__(
        self, state: PyTree, x: Float[Array, "B F"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        return StatefulModuleOutput(state, x, jnp.mean(x**2), {})


class StatisticsProbe(StatefulModule):
    """Counts the samples it is given by update_statistics, and adds them up.

    Attributes:
      samples: number of samples.
      total: their sum over samples and features.
    """

    folds_time = True

    def __init__(self):
        self.samples = nnx.Variable(jnp.zeros((), jnp.int32))
        self.total = nnx.Variable(jnp.zeros(()))

    def __call__(
        self, state: PyTree, x: Float[Array, "B F"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        return StatefulModuleOutput(state, x, 0.0, {}, x)

    def update_statistics(self, rollout_extras: Float[Array, "T B F"]) -> None:
        steps, rows = rollout_extras.shape[:2]
        self.samples[...] += steps * rows
        self.total[...] += rollout_extras.sum()


class StreamProbe(StatefulModule):
    """Draws its noise from an RNG stream, and emits it for the replay."""

    def __init__(self, rngs: nnx.Rngs):
        self.stream = rngs.noise.fork()

    def __call__(
        self, state: PyTree, x: Float[Array, "B F"], rollout_extras: Any = None
    ) -> StatefulModuleOutput:
        eps = rollout_extras
        if eps is None:
            eps = self.stream.normal(x.shape, x.dtype)
        return StatefulModuleOutput(state, x + eps, 0.0, {}, eps)
