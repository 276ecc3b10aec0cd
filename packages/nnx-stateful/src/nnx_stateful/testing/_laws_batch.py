"""Law 3: rows of the batch know nothing of each other."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._output import PyTree, StatefulModuleOutput
from .._unroll import has_rng_streams
from ._compare import assert_close
from ._trial import Trial


def rows_are_independent(trial: Trial) -> None:
    """Permuting or splitting the batch commutes with the call.

    Modules with RNG streams are exempt: their noise belongs to a position of the batch.
    """
    if trial.batch_size < 2 or has_rng_streams(trial.module):
        return
    state, x, size = trial.used, trial.x, trial.batch_size
    whole = trial.copy()(state, x)
    order = jnp.roll(jnp.arange(size)[::-1], 1)
    permuted = trial.copy()(*_take((state, x), order))
    _compare(trial, "after permuting the batch", _rows(whole, order), permuted)
    cut = size // 2
    for rows in (jnp.arange(cut), jnp.arange(cut, size)):
        part = trial.copy()(*_take((state, x), rows))
        _compare(trial, "in a part of the batch", _rows(whole, rows), part)
    _check_mean_loss(trial, whole, cut)


def _rows(out: StatefulModuleOutput, rows: Array) -> StatefulModuleOutput:
    loss = jnp.asarray(out.regularization_loss)
    return out.replace(
        next_state=_take(out.next_state, rows),
        output=_take(out.output, rows),
        rollout_extras=_take(out.rollout_extras, rows),
        regularization_loss=_take(loss, rows) if loss.ndim else loss,
    )


def _take(tree: PyTree, rows: Array) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[rows], tree)


def _compare(
    trial: Trial, when: str, expected: StatefulModuleOutput, got: StatefulModuleOutput
) -> None:
    for field in ("next_state", "output", "rollout_extras"):
        assert_close(
            f"{when}: {field}", getattr(expected, field), getattr(got, field), trial.tolerance
        )
    loss = jnp.asarray(expected.regularization_loss)
    full = loss.ndim == 1 or len(jax.tree.leaves(got.output)[0]) == trial.batch_size
    if full:  # a scalar may be a mean over the batch, which a part of it need not share
        assert_close(f"{when}: regularization_loss", loss, got.regularization_loss, trial.tolerance)


def _check_mean_loss(trial: Trial, whole: StatefulModuleOutput, cut: int) -> None:
    """A scalar loss is the batch mean of a per-row loss, or does not depend on the batch."""
    if jnp.ndim(whole.regularization_loss):
        return
    size = trial.batch_size
    parts = (jnp.arange(cut), jnp.arange(cut, size))
    losses = [
        trial.copy()(*_take((trial.used, trial.x), rows)).regularization_loss for rows in parts
    ]
    mean = (jnp.asarray(losses[0]) * cut + jnp.asarray(losses[1]) * (size - cut)) / size
    assert_close(
        "scalar regularization_loss, averaged over the parts of the batch",
        whole.regularization_loss,
        mean,
        trial.tolerance,
    )
