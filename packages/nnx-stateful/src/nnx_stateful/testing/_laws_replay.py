"""Law 5: rollout_extras suffice to do the same again."""

import jax

from .._output import PyTree, StatefulModuleOutput
from ._compare import assert_close
from ._trial import Trial

_REPLAYED = ("output", "next_state", "regularization_loss")


def replay_reproduces(trial: Trial) -> None:
    """Given the emitted rollout_extras and the same state, a call and an unroll do the same."""
    module, state = trial.copy(), trial.used
    acted = module(state, trial.x)
    replayed = module(state, trial.x, _emitted(acted))
    _compare(trial, "replayed step", acted, replayed)
    module = trial.copy()
    acted = module.unroll(trial.start, trial.xs, trial.done)
    replayed = module.unroll(trial.start, trial.xs, trial.done, _emitted(acted))
    _compare(trial, "replayed sequence", acted, replayed)


def _emitted(out: StatefulModuleOutput) -> PyTree:
    """Returns the extras, or None where they hold nothing, which saves a trace."""
    return out.rollout_extras if jax.tree.leaves(out.rollout_extras) else None


def _compare(
    trial: Trial, what: str, acted: StatefulModuleOutput, replayed: StatefulModuleOutput
) -> None:
    for field in _REPLAYED:
        assert_close(
            f"{what}: {field}", getattr(acted, field), getattr(replayed, field), trial.tolerance
        )
