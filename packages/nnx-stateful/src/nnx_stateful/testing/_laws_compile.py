"""Laws 4 and 9: compiling, splitting and merging change nothing."""

from collections.abc import Mapping
from typing import Any

import jax
from flax import nnx

from .._output import PyTree, StatefulModuleOutput
from ._compare import BrokenLawError, assert_close
from ._trial import Trial


def jit_equals_eager(trial: Trial) -> None:
    """A compiled call computes what an eager one does, and is traced once."""
    graphdef, variables = nnx.split(trial.copy())
    traces = []

    @jax.jit
    def step(variables: Any, state: PyTree, x: PyTree) -> StatefulModuleOutput:
        traces.append(None)
        return nnx.merge(graphdef, variables)(state, x)

    state = trial.start()
    out = step(variables, state, trial.x)
    assert_close("compiled", trial.copy()(state, trial.x), out, trial.tolerance)
    step(variables, out.next_state, trial.x)
    if len(traces) != 1:
        raise BrokenLawError(
            "calling with next_state traced again: expected one trace, got two. The state "
            "changes its type: perhaps a dtype, a shape, or a weak type, as of jnp.where(c, 0.0, "
            "1.0)"
        )


def merging_changes_nothing(trial: Trial) -> None:
    """The output survives nnx.split and nnx.merge, and dict entries in another order."""
    expected = trial.copy()(trial.used, trial.x)
    merged = nnx.merge(*nnx.split(trial.copy()))
    assert_close("after split and merge", expected, merged(trial.used, trial.x))
    reordered = trial.copy()(_reverse(trial.used), _reverse(trial.x))
    assert_close("with dict entries in another order", expected, reordered)


def _reverse(tree: PyTree) -> PyTree:
    """Returns the tree with the entries of its plain dicts in reverse order of insertion."""
    if type(tree) is dict:
        return {key: _reverse(value) for key, value in reversed(tree.items())}
    if isinstance(tree, Mapping) or not isinstance(tree, list | tuple):
        return tree
    entries = [_reverse(value) for value in tree]
    if hasattr(tree, "_fields"):
        return type(tree)(*entries)
    return type(tree)(entries)
