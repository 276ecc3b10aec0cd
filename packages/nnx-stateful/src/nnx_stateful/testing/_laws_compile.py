"""Laws 4 and 9: compiling, splitting and merging change nothing."""

from collections.abc import Mapping

import jax
from flax import nnx

from .._output import PyTree, StatefulModuleOutput
from ._compare import BrokenLawError, assert_close
from ._compiled import CompiledFunctions, CompiledModule
from ._trial import Trial


def jit_equals_eager(trial: Trial) -> None:
    """A compiled call computes what an eager one does, and is traced once."""
    functions = trial.functions
    if functions.call_traces > 1:  # other laws have left traces that would hide one more
        functions = CompiledFunctions(trial.module)
    out = CompiledModule(functions, nnx.state(trial.module))(trial.start, trial.x)
    eager = _call_original(trial, trial.start)
    assert_close("compiled", eager, out, trial.tolerance)
    CompiledModule(functions, nnx.state(trial.module))(out.next_state, trial.x)
    if functions.call_traces != 1:
        raise BrokenLawError(
            "calling with next_state traced again: expected one trace, got two. The state "
            "changes its type: perhaps a dtype, a shape, or a weak type, as of jnp.where(c, 0.0, "
            "1.0)"
        )


def merging_changes_nothing(trial: Trial) -> None:
    """The output survives nnx.split and nnx.merge, and dict entries in another order."""
    expected = _call_original(trial, trial.used)
    merged = nnx.clone(trial.module)
    assert_close("after split and merge", expected, merged(trial.used, trial.x))
    reordered = nnx.clone(trial.module)(_reverse(trial.used), _reverse(trial.x))
    assert_close("with dict entries in another order", expected, reordered)


def _call_original(trial: Trial, state: PyTree) -> StatefulModuleOutput:
    """Calls the module itself, since every copy has been merged already."""
    streams = jax.tree.map(lambda leaf: leaf, nnx.state(trial.module, nnx.RngState))
    try:
        return trial.module(state, trial.x)
    finally:
        nnx.update(trial.module, streams)


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
