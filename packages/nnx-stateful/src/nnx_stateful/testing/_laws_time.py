"""Law 6: a sequence at once equals step after step."""

from typing import Any

import jax
from flax import nnx

from .._output import PyTree, StatefulModuleOutput
from ._compare import assert_close, stack_steps
from ._trial import Trial

_STACKED = ("output", "regularization_loss", "metrics", "rollout_extras")


def unroll_equals_stepping(trial: Trial) -> None:
    """Unroll equals a loop of calls, across resets and without, compiled and eager."""
    graphdef, variables = nnx.split(trial.copy())

    @jax.jit
    def unroll(variables: Any, state: PyTree, xs: PyTree, done: Any) -> Any:
        module = nnx.merge(graphdef, variables)
        return module.unroll(state, xs, done), nnx.state(module, nnx.RngState)

    unrolled, streams = unroll(variables, trial.start(), trial.xs, trial.done)
    _compare(trial, unrolled)
    module, state = _step_without_resets(trial)
    assert_close("RNG streams after unroll", nnx.state(module, nnx.RngState), streams)
    whole = trial.copy().unroll(trial.start(), trial.xs)
    assert_close("unroll without done: next_state", state, whole.next_state, trial.tolerance)


def _step_without_resets(trial: Trial) -> tuple[nnx.Module, PyTree]:
    module, state = trial.copy(), trial.start()
    for step in range(trial.steps):
        state = module(state, trial.at(step)).next_state
    return module, state


def _compare(trial: Trial, unrolled: StatefulModuleOutput) -> None:
    outs, state = trial.stepped
    for field in _STACKED:
        expected = stack_steps([getattr(out, field) for out in outs])
        assert_close(f"unroll: {field}", expected, getattr(unrolled, field), trial.tolerance)
    assert_close("unroll: next_state", state, unrolled.next_state, trial.tolerance)
