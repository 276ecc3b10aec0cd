"""Refusal of NaN: nothing that is NaN can be shown to agree with its replay."""

from typing import Any

import jax
import numpy as np
from flax import nnx
from nnx_stateful import PyTree, StatefulModule

from ._arrays import Deviations, Quantity, leaf_path, without_keys
from ._blame import Fault, describe, execution_order, first_fault
from ._traced_rollout import OUTPUT_FIELDS, RolledOut


def nan_deviations(rolled: RolledOut) -> Deviations:
    """Infinite deviations, (T, B), where something in a rollout is NaN; else 0."""
    trace, found = rolled.trace, {}
    found |= _nan("obs", "", trace.obs)
    for path, output in trace.module_outputs.items():
        found |= _nan("module", path, output)
    for kind, field in OUTPUT_FIELDS.items():
        found |= _nan(kind, "", getattr(trace.output, field))
    found |= _nan("loss", "", trace.regularization_loss)
    found |= _nan("carry", "", trace.state)
    return found


def nan_fault(networks: StatefulModule, rolled: RolledOut, found: Deviations) -> Fault:
    """The first NaN that comes out of clean inputs, by the order of execution; else of the inputs.

    A network that acts with NaN may get NaN to observe, in the steps after: no fault of the
    environment's.
    """
    given = {name: leaf for name, leaf in found.items() if name.kind in ("obs", "carry")}
    clean = ~np.any([leaf > 0.0 for leaf in given.values()], axis=0)
    made = {n: np.where(clean, leaf, 0.0) for n, leaf in found.items() if n not in given}
    chosen = made if any(leaf.any() for leaf in made.values()) else given
    limits = {name: np.ones_like(leaf) for name, leaf in chosen.items()}
    return first_fault(chosen, limits, execution_order(networks, rolled))


def nan_message(networks: StatefulModule, rolled: RolledOut, fault: Fault) -> str:
    """Returns the text of a ReplayError about NaN."""
    variables = [
        "/".join(map(str, path))
        for path, variable in nnx.to_flat_state(rolled.variables)
        if any(map(_any_nan, jax.tree.leaves(without_keys(variable))))
    ]
    module = "the network" if fault.module is None else describe(networks, fault.module)
    what = {
        "obs": "the observation",
        "carry": f"the carry state of {module}",
        "loss": "the regularization loss",
        "module": f"the output of {module}",
    }.get(fault.quantity.kind, f"the network's {fault.quantity.kind.replace('_', '-')}")
    reason = f". Variables that hold nan: {', '.join(variables[:8])}" if variables else ""
    return (
        f"verify_replay: {what} is nan, first at step {fault.step}, row {fault.row}: "
        f"{fault.quantity.name}; expected numbers, since NaN equals nothing and no replay can be "
        f"shown to agree{reason}"
    )


def _nan(kind: str, path: str, tree: PyTree) -> Deviations:
    return {
        Quantity(kind, path, leaf_path(where)): _where_nan(np.asarray(leaf))
        for where, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _where_nan(leaf: np.ndarray) -> np.ndarray:
    bad = np.asarray(leaf != leaf)  # of every dtype, also those that NumPy does not know
    return np.where(bad.reshape((*leaf.shape[:2], -1)).any(axis=-1), np.inf, 0.0)


def _any_nan(leaf: Any) -> bool:
    values = np.asarray(leaf)
    return bool((values != values).any())
