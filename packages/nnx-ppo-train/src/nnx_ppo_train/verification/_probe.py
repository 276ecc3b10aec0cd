"""What a network sees and does in a rollout, noted in the one channel that every rollout keeps."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from nnx_stateful import (
    ACTIVATION_KEY,
    PyTree,
    StatefulModule,
    StatefulModuleOutput,
    extract_activations,
    with_recording,
)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StepTrace:
    """What a network saw and did in one step; travels as its rollout_extras.

    Attributes:
      rollout_extras: what the network itself emitted.
      obs: the observation that it was given, leaves (B, ...).
      state: carry state before the step, leaves (B, ...).
      next_state: carry state after it, before any reset, leaves (B, ...).
      output: the network's output, leaves (B, ...).
      module_outputs: the output of every module by path, leaves (B, ...).
      regularization_loss: (B,).
      smallest_std: (B,), all the same: the smallest "sigma" that samplers report; None if none
        does.
    """

    rollout_extras: PyTree
    obs: PyTree
    state: PyTree
    next_state: PyTree
    output: PyTree
    module_outputs: dict[str, PyTree]
    regularization_loss: Float[Array, " B"]
    smallest_std: Float[Array, " B"] | None


def traced(network: StatefulModule, cast: Callable[[PyTree], PyTree]) -> StatefulModule:
    """Returns a copy of a network that emits a StepTrace as its rollout_extras.

    The copy is of a subclass of the network's class, so that a rollout function finds all that it
    may use of the network. ``network`` itself stays as it is.

    Args:
      network: the network.
      cast: applied to observations first.
    """
    copy = with_recording(network)
    kind = type(copy)

    class Traced(kind):
        def __call__(
            self, state: PyTree, x: PyTree, rollout_extras: PyTree = None
        ) -> StatefulModuleOutput:
            x = cast(x)
            out = super().__call__(state, x, own_extras(rollout_extras))
            return out.replace(rollout_extras=_trace(state, x, out))

        def update_statistics(self, rollout_extras: PyTree) -> None:
            super().update_statistics(own_extras(rollout_extras))

    Traced.__name__, Traced.__qualname__ = kind.__name__, kind.__qualname__
    object.__setattr__(copy, "__class__", Traced)
    return copy


def trace_of(rollout_extras: PyTree) -> StepTrace:
    """Returns the trace that a rollout function stored; raises TypeError if it stored another."""
    if not isinstance(rollout_extras, StepTrace):
        raise TypeError(
            "verify_replay: expected unroll_fn to store what the network emitted as "
            f"rollout_extras in the Transition, got {type(rollout_extras).__name__}; store "
            "out.rollout_extras as it is, stacked over time"
        )
    return rollout_extras


def own_extras(rollout_extras: PyTree) -> PyTree:
    """Returns what the network itself emitted."""
    return (
        rollout_extras.rollout_extras if isinstance(rollout_extras, StepTrace) else rollout_extras
    )


def _trace(state: PyTree, x: PyTree, out: StatefulModuleOutput) -> StepTrace:
    rows = jax.tree.leaves((out.output, state))[0].shape[0]
    stds = [jnp.min(std) for std in _sampler_stds(out.metrics)]
    return StepTrace(
        rollout_extras=out.rollout_extras,
        obs=x,
        state=state,
        next_state=out.next_state,
        output=out.output,
        module_outputs=extract_activations(out.metrics),
        regularization_loss=jnp.broadcast_to(out.regularization_loss, (rows,)),
        smallest_std=jnp.broadcast_to(jnp.min(jnp.stack(stds)), (rows,)) if stds else None,
    )


def _sampler_stds(metrics: Any) -> list[Array]:
    """The "sigma" of every module whose output is that of an action sampler."""
    if not isinstance(metrics, Mapping):
        return []
    output = metrics.get(ACTIVATION_KEY)
    if isinstance(output, Mapping) and "log_likelihood" in output and "sigma" in metrics:
        return [metrics["sigma"]]
    return [std for entry in metrics.values() for std in _sampler_stds(entry)]
