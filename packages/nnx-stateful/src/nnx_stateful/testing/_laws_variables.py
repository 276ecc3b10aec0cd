"""Law 7: who may write which variables."""

from typing import Any

import jax
from flax import nnx

from ._compare import assert_close
from ._trial import Trial


def calls_write_nothing(trial: Trial) -> None:
    """Calls and unrolls change no variable but RNG streams; statistics change no Param."""
    before = _values(trial.module, nnx.Not(nnx.RngState))
    module = trial.copy()
    module(trial.used, trial.x)
    assert_close("variables after a call", before, _values(module, nnx.Not(nnx.RngState)))
    extras = module.unroll(trial.start(), trial.xs, trial.done).rollout_extras
    assert_close("variables after unroll", before, _values(module, nnx.Not(nnx.RngState)))
    module.update_statistics(extras)
    params = _values(trial.module, nnx.Param)
    assert_close("parameters after update_statistics", params, _values(module, nnx.Param))
    module(trial.used, trial.x)


def _values(module: nnx.Module, kind: Any) -> Any:
    """The values of one kind of variable, by path; as arrays, so that later writes do not show."""
    return jax.tree.map(lambda leaf: leaf, nnx.to_pure_dict(nnx.state(module, kind)))
