"""The first value of an iteration that was not finite: by kind, leaf, step, row and module."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from flax import nnx
from nnx_stateful import extract_activations, rebuild, with_recording

from ._epochs import FIRST_LEAF
from ._loop_state import LoopState
from ._nonfinite import KINDS, SAMPLES, is_usable
from ._optimizer import parameter_name
from ._types import Transition
from ._update import Iteration


def first_nonfinite(
    iteration: Iteration, state: LoopState, steps: int, metrics: Mapping[str, Any]
) -> str:
    """Returns a sentence about the first value that was not finite in an iteration.

    Values of a step are looked at in the order observation, carry, output, reward, then loss and
    gradient. The rollout is run again with every module's output recorded.

    Args:
      iteration: the iteration, with ``nonfinite="raise"``.
      state: the state before it.
      steps: environment steps before it.
      metrics: its metrics, among them that of the first bad leaf of loss and gradient.
    """
    config = iteration.config
    where = (
        f"iteration {1 + steps // config.steps_per_iteration} (steps {steps:,} to "
        f"{steps + config.steps_per_iteration:,})"
    )
    if metrics[SAMPLES] > 0:
        return f"{where}: {_in_rollout(iteration, state)}"
    place = int(metrics[FIRST_LEAF])
    if place <= 1:
        return (
            f"{where}: expected a finite loss, got one that is not; no observation, output or "
            + ("reward was to blame: lower learning_rate, or bound log-likelihoods and values")
        )
    params = jax.tree_util.tree_leaves_with_path(state.params)
    if place - 2 == len(params):
        return (
            f"{where}: expected a finite step, got one that is not of a finite gradient: its "
            "squares or the parameters overflow; set gradient_clipping, or lower learning_rate or "
            "weight_decay"
        )
    path, _ = params[place - 2]
    return (
        f"{where}: expected finite gradients, got one that is not for parameter "
        f"{parameter_name(path)}, though the loss is finite; set gradient_clipping, or look for "
        "derivatives that are infinite, as that of sqrt or norm at 0"
    )


def _in_rollout(iteration: Iteration, state: LoopState) -> str:
    plain = rebuild(iteration.graphdef, state.params, state.variables)
    graphdef, *parts = nnx.split(with_recording(plain), nnx.Param, ...)
    order: list[str] = []  # of execution; JAX sorts the keys of dicts that it returns

    def record(state: LoopState, *parts: Any) -> Transition:
        network = rebuild(graphdef, *parts)
        out = network(state.network_states, state.env_states.obs)
        order.extend(extract_activations(out.metrics))
        reset_key = jax.random.split(state.key, 3)[1]
        return iteration.rollout(state, rebuild(graphdef, *parts), reset_key)[2]

    rollout: Transition = jax.device_get(jax.jit(record)(state, *parts))
    leaves = rollout.metrics["nonfinite"]["leaves"]
    found = [
        (*np.argwhere(flags)[0], KINDS.index(kind), kind, leaf)
        for kind, by_leaf in leaves.items()
        for leaf, flags in by_leaf.items()
        if np.any(flags)
    ]
    if not found:
        return "values were not finite in the rollout, but are when it is run again with recording"
    step, row, _, kind, leaf = min(found, key=lambda entry: (entry[0], entry[2]))
    leaf = leaf or "(the whole of it)"
    text = f"{kind} {leaf} is not finite in step {step} of environment {row}"
    if kind in ("carry", "output"):
        text += (
            f"; the first module whose output is not finite is {_module(rollout, order, step, row)}"
        )
    return text


def _module(rollout: Transition, order: list[str], step: int, row: int) -> str:
    activations = extract_activations(rollout.metrics["net"])
    for path in order:
        for leaf in jax.tree.leaves(activations[path]):
            if np.ndim(leaf) >= 2 and not np.all(is_usable(np.asarray(leaf)[step, row])):
                return path or "the network"
    return "none: only the carry state is"
