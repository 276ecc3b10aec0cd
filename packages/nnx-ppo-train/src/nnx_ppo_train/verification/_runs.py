"""Replays of a rollout through ``unroll``: restarted at every step, in windows, and as a whole."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from nnx_stateful import PyTree, StatefulModule, extract_activations, rebuild, with_recording

from ._arrays import (
    Deviations,
    leaf_deviations,
    other_noise,
    ratio_deviations,
    with_keys,
    without_keys,
    without_noise_keys,
)
from ._probe import own_extras
from ._traced_rollout import OUTPUT_FIELDS, RolledOut, pad

Change = Callable[[PyTree], PyTree]

WINDOW = 3
"""Steps of a window: one before a reset and two after it, or two before and one after."""


def _same(tree: PyTree) -> PyTree:
    return tree


@dataclasses.dataclass(frozen=True)
class Played:
    """Results of W steps; arrays on the host.

    Attributes:
      output: the network's output, leaves (W, B, ...).
      module_outputs: the output of modules by path, leaves (W, B, ...).
      regularization_loss: (W, B).
      last_state: carry state after the last of them and its resets, leaves (B, ...).
    """

    output: PyTree
    module_outputs: dict[str, PyTree]
    regularization_loss: np.ndarray
    last_state: PyTree


class Replays:
    """Replays parts of a rollout with the variables that the rollout left.

    Args:
      networks: the network; it is left as it is.
      rolled: the rollout.
      float64: whether the network computes in float64.
    """

    def __init__(self, networks: StatefulModule, rolled: RolledOut, float64: bool):
        self._rolled = rolled
        self._float64 = float64
        graphdef, _ = nnx.split(with_recording(networks))

        @jax.jit
        def unroll(variables: Any, inputs: PyTree, done: Any) -> Any:
            state, obs, extras = with_keys(inputs, rolled.kinds)
            out = rebuild(graphdef, variables).unroll(state, obs, done, extras)
            loss = jnp.asarray(out.regularization_loss)
            loss = jnp.broadcast_to(loss.reshape(loss.shape + (1,) * (2 - loss.ndim)), done.shape)
            played = (out.output, extract_activations(out.metrics), loss, out.next_state)
            return without_keys(played)

        self._unroll = unroll

    def steps(self) -> Deviations:
        """Restarts every step from the carry with which the rollout began it."""
        return self._windows(1)

    def steps_with_other_noise(self) -> Deviations:
        """As :meth:`steps`, but noise that is drawn, and not replayed, comes out differently."""
        return self._windows(1, other_noise, without_noise_keys)

    def windows(self) -> Deviations:
        """Restarts every window of a few steps, so that resets are replayed inside sequences."""
        return self._windows(min(WINDOW, self._rolled.steps))

    def sequence(self) -> Deviations:
        """Replays the whole rollout from its start, as the loss does."""
        return self._windows(self._rolled.steps)

    def growth(self) -> Deviations:
        """How many times larger a small change becomes that everything in the sequence undergoes.

        Variables, observations and first carry state change by 64 units of rounding. The
        factors, (T, 1), are at least 1 and never fall: what has deviated may come back from
        memory. A change that makes something infinite or NaN counts for nothing: an infinite
        limit would let everything pass.
        """
        size = 64 * float(np.finfo(np.float64 if self._float64 else np.float32).eps)
        nudge = _Nudge(size)
        whole = slice(0, self._rolled.steps)
        changed = _compare(self._play(whole), self._play(whole, nudge, nudge, nudge))
        finite = {name: np.where(np.isfinite(leaf), leaf, 0.0) for name, leaf in changed.items()}
        return {
            name: np.maximum(1.0, np.maximum.accumulate(leaf.max(axis=1, keepdims=True)) / size)
            for name, leaf in finite.items()
        }

    def _windows(
        self,
        length: int,
        change: Change = _same,
        compared: Change = _same,
    ) -> Deviations:
        steps = self._rolled.steps
        found: Deviations = {}
        for begin in range(steps - length + 1):
            window = slice(begin, begin + length)
            deviations = _compare(self._expected(window), self._play(window, change), compared)
            for name, part in deviations.items():
                padded = pad(part, begin, steps)
                found[name] = np.maximum(found.get(name, padded), padded)
        return found

    def _play(
        self,
        window: slice,
        change_state: Change = _same,
        change_obs: Change = _same,
        change_variables: Change = _same,
    ) -> Played:
        rolled = self._rolled
        first = rolled.start if window.start == 0 else rolled.state_before(window.start)
        obs, extras = jax.tree.map(
            lambda leaf: leaf[window], (rolled.stored.obs, own_extras(rolled.trace))
        )
        inputs = (change_state(first), change_obs(obs), extras)
        done = rolled.stored.done[window]
        return Played(
            *jax.device_get(self._unroll(change_variables(rolled.variables), inputs, done))
        )

    def _expected(self, window: slice) -> Played:
        rolled = self._rolled
        trace = rolled.trace
        output, modules, loss = jax.tree.map(
            lambda leaf: leaf[window],
            (rolled.stored.network_output, trace.module_outputs, trace.regularization_loss),
        )
        after = jax.tree.map(lambda leaf: leaf[window.stop - 1], rolled.states_after)
        return Played(output, modules, loss, after)


def _compare(expected: Played, got: Played, compared: Change = _same) -> Deviations:
    """Compares what was with what is now; carry states, at the last step, through ``compared``."""
    found = ratio_deviations(expected.output.loglikelihoods, got.output.loglikelihoods)
    for kind, field in OUTPUT_FIELDS.items():
        found |= leaf_deviations(
            kind, "", getattr(expected.output, field), getattr(got.output, field)
        )
    found |= leaf_deviations("loss", "", expected.regularization_loss, got.regularization_loss)
    states = (
        jax.tree.map(lambda leaf: leaf[None], compared(state))
        for state in (expected.last_state, got.last_state)
    )
    steps = expected.regularization_loss.shape[0]
    for name, row in leaf_deviations("carry", "", *states).items():
        found[name] = pad(row, steps - 1, steps)
    for path, output in expected.module_outputs.items():
        if path in got.module_outputs:
            found |= leaf_deviations("module", path, output, got.module_outputs[path])
    return found


class _Nudge:
    """Changes every float of a tree by ``size``, relative where it is above 1, up or down."""

    def __init__(self, size: float):
        self._size = size
        self._random = np.random.default_rng(0)

    def __call__(self, tree: PyTree) -> PyTree:
        return jax.tree.map(self._nudged, tree)

    def _nudged(self, leaf: Any) -> Any:
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            return leaf
        sign = self._random.choice([-1.0, 1.0], leaf.shape)
        change = self._size * sign * np.maximum(1.0, np.abs(leaf))
        return leaf + change.astype(leaf.dtype)
