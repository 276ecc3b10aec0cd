"""Law 6: a sequence at once equals step after step."""

import dataclasses

import jax
from flax import nnx

from ._compare import assert_close
from ._trial import Trial


def unroll_equals_stepping(trial: Trial) -> None:
    """Unroll equals a loop of calls, across resets and without any, metrics included."""
    unrolled = trial.copy().unroll(trial.start, trial.xs, trial.done)
    for field in dataclasses.fields(unrolled):
        expected, got = getattr(trial.stepped, field.name), getattr(unrolled, field.name)
        assert_close(f"unroll: {field.name}", expected, got, trial.tolerance)
    if jax.tree.leaves(trial.xs):  # else only done says how long the sequence is
        _compare_without_resets(trial)


def _compare_without_resets(trial: Trial) -> None:
    stepping, unrolling = trial.copy(), trial.copy()
    stepped = trial.step(stepping, done=None)
    unrolled = unrolling.unroll(trial.start, trial.xs)
    what = "unroll without done: next_state"
    assert_close(what, stepped.next_state, unrolled.next_state, trial.tolerance)
    expected = nnx.filter_state(stepping.variables, nnx.RngState)
    got = nnx.filter_state(unrolling.variables, nnx.RngState)
    assert_close("RNG streams after unroll", expected, got)
