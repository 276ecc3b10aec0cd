"""check_stateful_module: all laws on one module."""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp

from .._check_report import CheckReport
from .._output import PyTree
from .._protocol import StatefulModule
from .._state import initial_state
from ._compare import BrokenLawError
from ._float64 import to_float64, tree_to_float64
from ._laws_batch import rows_are_independent
from ._laws_compile import jit_equals_eager, merging_changes_nothing
from ._laws_finite import bad_values_end_with_their_episode, refuse_nan
from ._laws_names import names_mirror_children
from ._laws_replay import replay_reproduces
from ._laws_state import next_state_keeps_its_form, reset_makes_rows_fresh
from ._laws_time import unroll_equals_stepping
from ._laws_variables import calls_write_nothing
from ._trial import Trial, make_done, make_inputs

LAWS: dict[int, Callable[[Trial], None]] = {
    1: next_state_keeps_its_form,
    2: reset_makes_rows_fresh,
    3: rows_are_independent,
    4: jit_equals_eager,
    5: replay_reproduces,
    6: unroll_equals_stepping,
    7: calls_write_nothing,
    8: names_mirror_children,
    9: merging_changes_nothing,
    10: bad_values_end_with_their_episode,
}
"""The laws by number. Each raises BrokenLawError, or whatever the module raises."""

_ORDER = (1, 4, *(number for number in LAWS if number not in (1, 4)))
"""Law 4 counts traces, which costs no further one if few laws came before it."""


def check_stateful_module(
    module: StatefulModule,
    sample_input: PyTree,
    *,
    batch_size: int | None = None,
    steps: int = 5,
    seed: int = 0,
    float64: bool = False,
    tolerance: tuple[float, float] | None = None,
    laws: Iterable[int] | None = None,
) -> CheckReport:
    """Checks that a module keeps the laws of stateful modules, on which every loop relies.

    1. next_state has the tree, shapes and dtypes of the state; outputs lead with the batch axis.
    2. Resetting all rows gives what initialize_state gives, none changes nothing, a mask mixes
       row by row (noise states excepted, and classes that set ``keeps_state_on_reset``).
    3. Permuting or splitting the batch commutes with the call.
    4. A compiled call equals an eager one and is traced once.
    5. Replaying the emitted rollout_extras reproduces output, next_state and loss.
    6. unroll equals stepping, across resets, metrics included.
    7. A call changes no variable but RNG streams; update_statistics changes no Param.
    8. Metrics and rollout_extras mirror the names of children.
    9. Nothing changes when the module is split and merged, or dict entries change places.
    10. NaN and inf in a row's carry and inputs stay in that row, and end with its episode.

    A module that computes NaN from a clean input, or holds it in a variable, keeps no law: NaN
    equals nothing.

    Args:
      module: the module; it is left as it is.
      sample_input: an input batch, leaves (B, ...), best with rows that differ and B >= 3.
      batch_size: B, needed only where ``sample_input`` has no arrays.
      steps: length T of the sequences.
      seed: of the inputs and of where episodes end.
      float64: check a float64 copy, in which a wrong formula cannot hide behind rounding.
      tolerance: relative and absolute; (1e-4, 1e-5), or (1e-9, 1e-10) in float64, by default.
      laws: numbers of the laws to check; all by default.

    Returns:
      A report that says what was checked.

    Raises:
      AssertionError: where something is NaN, naming the module and the leaf, or at the first law
        broken; names the law, the module and the path of the leaf.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> from nnx_stateful import Dense
      >>> check_stateful_module(Dense(2, 3, nnx.Rngs(0)), jnp.arange(6.0).reshape(3, 2), laws=[1])
      check_stateful_module(Dense): passed
        checked  finite: inputs, variables, carry, output
        checked  law 1: next state keeps its form
    """
    leaves = jax.tree.leaves(sample_input)
    if batch_size is None:
        if not leaves:
            raise ValueError(
                "check_stateful_module: expected batch_size, since sample_input has no arrays"
            )
        batch_size = int(jnp.shape(leaves[0])[0])
    with jax.enable_x64(True) if float64 else contextlib.nullcontext():
        if float64:
            module, sample_input = to_float64(module), tree_to_float64(sample_input)
        trial = Trial(
            module=module,
            xs=make_inputs(sample_input, steps, seed),
            done=make_done(steps, batch_size, seed),
            batch_size=batch_size,
            tolerance=tolerance or ((1e-9, 1e-10) if float64 else (1e-4, 1e-5)),
        )
        _check_finite(trial)
        numbers = tuple(_ORDER if laws is None else laws)
        for number in numbers:
            _check(number, trial)
    checked = [f"law {number}: {_title(number)}" for number in sorted(numbers)]
    return CheckReport(
        f"check_stateful_module({type(module).__name__})",
        ("finite: inputs, variables, carry, output", *checked),
    )


def _check(number: int, trial: Trial) -> None:
    title = f"law {number} ({_title(number)}): {type(trial.module).__name__}"
    try:
        LAWS[number](trial)
    except BrokenLawError as violation:
        raise BrokenLawError(f"{title}: {violation}") from None
    except Exception as error:
        raise BrokenLawError(f"{title}: raised {type(error).__name__}: {error}") from error


def _check_finite(trial: Trial) -> None:
    """Refuses NaN; leaves to the laws whatever else is wrong, as they say it better."""
    try:
        refuse_nan(trial.module, trial.x, initial_state(trial.module, trial.batch_size))
    except BrokenLawError as violation:
        raise BrokenLawError(f"{type(trial.module).__name__}: {violation}") from None
    except Exception:
        return


def _title(number: int) -> str:
    law: Any = LAWS[number]
    return law.__name__.replace("_", " ")
