"""Law 7: who may write which variables."""

from typing import Any

from flax import nnx

from ._compare import assert_close
from ._compiled import CompiledModule
from ._trial import Trial


def calls_write_nothing(trial: Trial) -> None:
    """Calls and unrolls change no variable but RNG streams; statistics change no Param."""
    module = trial.copy()
    before = _lasting(module.variables)
    module(trial.used, trial.x)
    assert_close("variables after a call", before, _lasting(module.variables))
    unrolled = module.unroll(trial.start, trial.xs, trial.done)
    assert_close("variables after unroll", before, _lasting(module.variables))
    updated = nnx.clone(trial.module)
    updated.update_statistics(unrolled.rollout_extras)
    before, after = (nnx.to_pure_dict(nnx.state(m, nnx.Param)) for m in (trial.module, updated))
    assert_close("parameters after update_statistics", before, after)
    CompiledModule(trial.functions, nnx.state(updated))(trial.used, trial.x)


def _lasting(variables: Any) -> Any:
    """The values of all variables but RNG streams, by path."""
    return nnx.to_pure_dict(nnx.filter_state(variables, nnx.Not(nnx.RngState)))
