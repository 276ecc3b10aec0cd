"""Laws 1 and 2: what the carry state looks like, and how it is reset."""

import jax
import jax.numpy as jnp

from .._output import PyTree
from .._protocol import StatefulModule
from .._state import initial_state, select_rows
from ._compare import BrokenLawError, assert_close, assert_same_types, without_noise
from ._trial import Trial


def next_state_keeps_its_form(trial: Trial) -> None:
    """next_state has the tree, shapes and dtypes of the state; everything leads with B."""
    state = trial.start
    out = trial.copy()(state, trial.x)
    assert_same_types("next_state", state, out.next_state)
    for path, leaf in jax.tree_util.tree_leaves_with_path(out.output):
        if jnp.shape(leaf)[:1] != (trial.batch_size,):
            raise BrokenLawError(
                f"output{jax.tree_util.keystr(path)}: expected to lead with the batch axis "
                f"({trial.batch_size}, ...), got shape {jnp.shape(leaf)}"
            )
    loss = jnp.shape(out.regularization_loss)
    if loss not in ((), (trial.batch_size,)):
        raise BrokenLawError(
            f"regularization_loss: expected a scalar or shape ({trial.batch_size},), got {loss}"
        )


def reset_makes_rows_fresh(trial: Trial) -> None:
    """Resetting all rows gives the initial state, none changes nothing, a mask mixes."""
    module, state, size = trial.copy(), trial.used, trial.batch_size
    start = trial.start
    again = initial_state(trial.module, size)
    assert_close("initialize_state, called twice", start, again)
    everything = module.reset_rows(state, jnp.ones(size, bool))
    _assert_fresh(trial.module, "state after reset_state", (start, state), everything)
    nothing = module.reset_rows(state, jnp.zeros(size, bool))
    assert_close("state after resetting no row", state, nothing)
    mask = jnp.arange(size) % 2 == 0
    mixed = module.reset_rows(state, mask)
    assert_close("state after resetting some", select_rows(mask, everything, state), mixed)


def _assert_fresh(module: StatefulModule, what: str, before: tuple, after: PyTree) -> None:
    """Compares a reset state with a fresh one, except where a class keeps it on purpose.

    Args:
      module: the module, which may be a container of others.
      what: name of the state in messages.
      before: the fresh state, and the state as it was before the reset.
      after: the state after the reset of all rows.
    """
    start, used = before
    if module.keeps_state_on_reset:
        assert_close(f"{what} of {type(module).__name__}, which keeps it", used, after)
        return
    children = getattr(module, "children", None)
    if type(children) is dict and isinstance(after, dict) and set(children) == set(after):
        for name, child in children.items():
            _assert_fresh(child, f"{what}[{name!r}]", (start[name], used[name]), after[name])
        return
    try:
        assert_close(what, without_noise(start), without_noise(after))
    except BrokenLawError as violation:
        raise BrokenLawError(
            f"{violation}; expected what initialize_state gives. Implement reset_state, or set "
            f"{type(module).__name__}.keeps_state_on_reset = True if the carry outlives episodes"
        ) from violation
