"""Explanations of calls that failed for what they were given: looked for once they have failed."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from ._output import PyTree
from ._state import check_same_state

_active = threading.local()

_SAID = ("expected", "has no entry", "has no part")
"""Words of errors that say themselves what was wrong."""

_UNKNOWN = object()

_HINT = "start from initialize_state(batch_size) and pass on next_state"


@contextlib.contextmanager
def explained(module: Any, arguments: dict[str, PyTree], lead: int) -> Iterator[None]:
    """Replaces an error from inside by one about the arguments, if one of them is at fault.

    Nothing is checked unless the outermost call fails, so a call that works pays nothing. An error
    that says itself what was expected stays as it is, and so does one that no argument explains.

    Args:
      module: the module that is called.
      arguments: what it is given: ``state``, ``x`` and maybe ``done`` and ``rollout_extras``.
      lead: number of leading axes of the input: 1 for a step, 2 for a sequence.
    """
    if getattr(_active, "inside", False):
        yield
        return
    _active.inside = True
    try:
        yield
    except Exception as error:
        said = any(words in str(error) for words in _SAID)
        if not said and not isinstance(error, RuntimeError):
            explain(module, arguments, lead, error)
        raise
    finally:
        _active.inside = False


def explain(module: Any, arguments: dict[str, PyTree], lead: int, error: Exception) -> None:
    """Raises TypeError or ValueError from ``error`` if an argument is of the wrong form."""
    kind = type(module).__name__
    done = arguments.get("done")
    if done is not None and not _is_array(done):
        raise TypeError(
            f"{kind}: done: expected an array (T, B), or None, got {type(done).__name__}"
        ) from error
    if not jax.tree.leaves(arguments.get("x")):
        got = type(arguments.get("x")).__name__
        raise TypeError(
            f"{kind}: x: expected an array or a tree of arrays, got {got} without any"
        ) from error
    for name, count in (("x", lead), ("done", 2), ("rollout_extras", lead)):
        for path, leaf in jax.tree_util.tree_leaves_with_path(arguments.get(name)):
            where = f"{kind}: {name}{jax.tree_util.keystr(path)}"
            axes = ("B", "T, B")[count - 1]
            expected = f"expected an array of numbers that leads with ({axes}, ...)"
            if not _is_numeric(leaf):
                got = getattr(leaf, "dtype", type(leaf).__name__)
                raise TypeError(f"{where}: {expected}, got {got}") from error
            if len(leaf.shape) < count:
                raise ValueError(f"{where}: {expected}, got shape {leaf.shape}") from error
    rows = {
        leaf.shape[lead - 1]
        for leaf in jax.tree.leaves((arguments.get("x"), arguments.get("rollout_extras")))
    }
    if len(rows) > 1:
        raise ValueError(
            f"{kind}: expected inputs and rollout_extras of one batch size B, got {sorted(rows)}"
        ) from error
    for size in rows:
        _compare(module, arguments, size, lead, error)


def _compare(
    module: Any, arguments: dict[str, PyTree], size: int, lead: int, error: Exception
) -> None:
    """Raises ValueError if the carry or the extras are not what the module itself makes."""
    kind, state, x = type(module).__name__, arguments.get("state"), arguments.get("x")
    extras, copy = arguments.get("rollout_extras"), nnx.clone(module)  # keeps its RNG streams

    def emitted() -> PyTree:
        run = copy if lead == 1 else copy.unroll
        return run(copy.initialize_state(size), x).rollout_extras

    def wanted(make: Callable[[], PyTree]) -> PyTree:
        with contextlib.suppress(Exception):
            return jax.eval_shape(make)
        return _UNKNOWN

    pairs = [("carry state", state, wanted(lambda: copy.initialize_state(size)), _HINT)]
    if extras is not None:
        hint = "replay those that a rollout emitted"
        pairs.append(("rollout_extras", extras, wanted(emitted), hint))
    for what, given, expected, hint in pairs:
        if expected is _UNKNOWN:
            continue
        for path, leaf in jax.tree_util.tree_leaves_with_path(given):
            if not _is_array(leaf):
                raise TypeError(
                    f"{kind}: {what}{jax.tree_util.keystr(path)}: expected an array, got "
                    f"{type(leaf).__name__}; {hint}"
                ) from error
        try:
            check_same_state(expected, given, f"{kind}: {what}", hint)
        except ValueError as difference:
            raise difference from error


def _is_array(leaf: Any) -> bool:
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        return False
    return jnp.issubdtype(leaf.dtype, jax.dtypes.extended) or _is_numeric(leaf)


def _is_numeric(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    if dtype is None or not hasattr(leaf, "shape"):
        return False
    return any(jnp.issubdtype(dtype, kind) for kind in (np.number, np.bool_))
