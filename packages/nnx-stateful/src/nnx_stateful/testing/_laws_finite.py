"""Law 10, and the refusal of what is NaN to begin with."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._recording import extract_activations, with_recording
from ._compare import BrokenLawError, assert_close, to_numpy
from ._trial import Trial


def bad_values_end_with_their_episode(trial: Trial) -> None:
    """NaN and inf in a row's carry and inputs stay in that row, and end with its episode.

    Modules that keep carry state over resets are exempt, and so is a loss that is a batch mean.
    """
    modules = [node for _, node in nnx.iter_modules(trial.module)]
    if any(getattr(node, "keeps_state_on_reset", False) for node in modules):
        return
    last = int(jnp.argmax(trial.done[:, 0]))  # of the first episode of row 0
    clean = trial.copy().unroll(trial.start, trial.xs, trial.done)
    for value in (np.nan, np.inf):
        start = _spoil(trial.start, 0, value)
        xs = _spoil(trial.xs, (slice(last + 1), 0), value)
        spoiled = trial.copy().unroll(start, xs, trial.done)
        _compare(trial, f"{value} in row 0 up to the reset after step {last}", last, clean, spoiled)


def _spoil(tree: PyTree, where: Any, value: float) -> PyTree:
    def spoil(leaf: Array) -> Array:
        return leaf.at[where].set(value) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(spoil, tree)


def _compare(
    trial: Trial, what: str, last: int, clean: StatefulModuleOutput, spoiled: StatefulModuleOutput
) -> None:
    """Compares everything but the first ``last + 1`` steps of row 0."""

    def unaffected(leaf: Any) -> np.ndarray:
        leaf = np.array(to_numpy(leaf))
        if leaf.ndim >= 2:
            leaf[: last + 1, 0] = 0
        return leaf

    for field in ("output", "rollout_extras", "regularization_loss"):
        expected, got = getattr(clean, field), getattr(spoiled, field)
        if field == "regularization_loss" and jnp.ndim(expected) < 2:
            continue
        name = f"{what}: {field} of other rows and later steps"
        old, new = (jax.tree.map(unaffected, tree) for tree in (expected, got))
        assert_close(name, old, new, trial.tolerance)
    assert_close(f"{what}: next_state", clean.next_state, spoiled.next_state, trial.tolerance)


def refuse_nan(module: StatefulModule, sample_input: PyTree, state: PyTree) -> None:
    """Raises BrokenLawError if inputs, variables, the initial carry or the output hold NaN.

    Nothing that is NaN can be compared, so no law says anything about it. The message names the
    first module, from the inside out, whose variable or output it is.
    """
    _refuse("sample_input", sample_input)
    for path, variable in nnx.to_flat_state(nnx.state(module)):
        owner: Any = module
        for step in path[:-1]:
            held = isinstance(owner, nnx.List | nnx.Dict)
            owner = owner[step] if held else getattr(owner, str(step))
        where = "/".join(map(str, path))
        _refuse(f"{type(owner).__name__}: its variable {where!r}", variable.get_value())
    _refuse("initialize_state", state)
    out = with_recording(nnx.clone(module))(state, sample_input)
    for path, output in extract_activations(out.metrics).items():
        _refuse(f"output of the module at {path!r}" if path else "output", output)
    _refuse("output", out.output)
    _refuse("regularization_loss", out.regularization_loss)
    _refuse("next_state", out.next_state)


def _refuse(what: str, tree: PyTree) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        values = to_numpy(leaf)
        if np.issubdtype(values.dtype, np.inexact) and np.isnan(values).any():
            index = tuple(int(i) for i in np.argwhere(np.isnan(values))[0])
            raise BrokenLawError(
                f"{what}{jax.tree_util.keystr(path)}: expected numbers, got nan at index {index} "
                f"({int(np.isnan(values).sum())} of {values.size} values); NaN equals nothing, so "
                "no law can be checked"
            )
