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
    expected = _rows(whole, order)
    _compare(trial, "after permuting the batch", expected, permuted)
    assert_close(
        "after permuting the batch: regularization_loss",
        expected.regularization_loss,
        permuted.regularization_loss,
        trial.tolerance,
    )
    mean_loss, cut = 0.0, size // 2
    for rows in (jnp.arange(cut), jnp.arange(cut, size)):
        part = trial.copy()(*_take((state, x), rows))
        _compare(trial, "in a part of the batch", _rows(whole, rows), part)
        mean_loss += jnp.mean(part.regularization_loss) * len(rows) / size
    # A scalar may be a mean over the batch, also where a container has spread it over the rows,
    # so that only the mean over all rows is the same.
    assert_close(
        "in parts of the batch: mean of regularization_loss",
        jnp.mean(whole.regularization_loss),
        mean_loss,
        trial.tolerance,
    )


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
