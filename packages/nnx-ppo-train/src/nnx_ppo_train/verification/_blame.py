"""Who is to blame: the first module, in the order of execution, whose result deviates."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx
from nnx_stateful import StatefulModule, extract_activations, rebuild, with_recording

from ._arrays import Deviations, Quantity, with_keys
from ._probe import own_extras
from ._traced_rollout import RolledOut


@dataclasses.dataclass(frozen=True)
class Fault:
    """The first deviation of a stage.

    Attributes:
      quantity: what deviates.
      module: path of the module to blame, "" for the network as a whole; None where no module is.
      step: the first step at which anything deviates.
      row: the row in which it deviates most.
      deviation: how far.
      limit: how far it may be.
      others: the other quantities that deviate at that step, with their largest deviation there.
    """

    quantity: Quantity
    module: str | None
    step: int
    row: int
    deviation: float
    limit: float
    others: dict[str, float]


def first_fault(deviations: Deviations, limits: Deviations, order: Sequence[str]) -> Fault:
    """Picks the first deviation above its limit: by step, then by the order of execution.

    Args:
      deviations: by quantity, (T, B); some are above their limits.
      limits: by quantity, (T, B).
      order: paths of modules in the order of execution.
    """
    over = {name: ~(leaf <= limits[name]) for name, leaf in deviations.items()}
    step = min(int(mask.any(axis=1).argmax()) for mask in over.values() if mask.any())
    here = [name for name, mask in over.items() if mask[step].any()]
    first = min(here, key=lambda name: _rank(name, order))
    row = int(np.argmax(deviations[first][step] / limits[first][step]))
    others = {
        name.name: float(deviations[name][step].max())
        for name in here
        if name != first and (name.kind != "module" or name.path)  # "" is the output once more
    }
    return Fault(
        quantity=first,
        module=first.path if first.kind == "module" else owner_of(first, order),
        step=step,
        row=row,
        deviation=float(deviations[first][step, row]),
        limit=float(limits[first][step, row]),
        others=others,
    )


def owner_of(quantity: Quantity, order: Sequence[str]) -> str | None:
    """Returns the path of the module whose carry state a leaf is; None if it is of no carry."""
    if quantity.kind not in ("carry", "returned"):
        return None
    parts = quantity.leaf.split("/")
    prefixes = ["/".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((path for path in prefixes if path in order), "")


def _rank(quantity: Quantity, order: Sequence[str]) -> tuple[int, int]:
    """Outputs of modules come first, then those of the network, then what is carried on."""
    if quantity.kind == "module":
        return 0, order.index(quantity.path)
    owner = owner_of(quantity, order)
    return (1, 0) if owner is None else (2, order.index(owner) if owner in order else len(order))


def execution_order(networks: StatefulModule, rolled: RolledOut) -> list[str]:
    """Returns the paths of modules in the order in which a step computes their outputs.

    The order is that of the operations in the traced step, so that a module comes after all
    whose outputs it uses, whatever the order of names in the metrics. Of modules with the very
    same output the deeper comes first.
    """
    graphdef, _ = nnx.split(with_recording(networks))
    names: list[str] = []

    def step(variables: Any, inputs: Any) -> dict[str, Any]:
        out = rebuild(graphdef, variables)(*with_keys(inputs, rolled.kinds))
        found = extract_activations(out.metrics)
        names.extend(found)
        return found

    trace = rolled.trace
    stacked = (trace.state, trace.obs, own_extras(trace))
    closed, outputs = jax.make_jaxpr(step, return_shape=True)(
        rolled.variables, jax.tree.map(lambda leaf: leaf[0], stacked)
    )
    made = {id(var): n for n, eqn in enumerate(closed.jaxpr.eqns) for var in eqn.outvars}
    ranks = jax.tree.unflatten(
        jax.tree.structure(outputs), [made.get(id(var), -1) for var in closed.jaxpr.outvars]
    )
    return sorted(names, key=lambda name: max(jax.tree.leaves(ranks[name]), default=-1))


def describe(networks: StatefulModule, path: str) -> str:
    """Names a module by path and, where it is a child of containers, by its class."""
    if not path:
        return f"the network itself ({type(networks).__name__})"
    node: Any = networks
    for name in path.split("/"):
        node = getattr(node, "children", {}).get(name)
    return f"module {path!r}" + ("" if node is None else f" ({type(node).__name__})")
