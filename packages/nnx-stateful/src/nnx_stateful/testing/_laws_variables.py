"""Law 7: who may write which variables."""

from typing import Any

from flax import nnx

from ._compare import assert_close
from ._trial import Trial


def calls_write_nothing(trial: Trial) -> None:
    """Calls and unrolls change no variable but RNG streams; statistics change no Param."""
    kind = nnx.Not(nnx.RngState)
    before = _values(nnx.state(trial.module, kind))
    module = trial.copy()
    module(trial.used, trial.x)
    assert_close("variables after a call", before, _values(nnx.state(module, kind)))
    unrolled, after = trial.unroll(trial.done)
    assert_close("variables after unroll", before, _values(nnx.filter_state(after, kind)))
    module.update_statistics(unrolled.rollout_extras)
    params = _values(nnx.state(trial.module, nnx.Param))
    updated = _values(nnx.state(module, nnx.Param))
    assert_close("parameters after update_statistics", params, updated)
    module(trial.used, trial.x)


def _values(state: Any) -> Any:
    """The values of variables by path, without the variables."""
    return nnx.to_pure_dict(state)
