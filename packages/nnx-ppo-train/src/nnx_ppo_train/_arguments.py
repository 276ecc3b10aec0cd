"""Checks of what public functions are given: networks, functions, arrays, keys and paths."""

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from nnx_stateful import PyTree, StatefulModule

from ._validate import MOST_SHOWN, shown


def as_path(value: Any, where: str) -> Path:
    """Returns a path, absolute; raises unless the system could have a file of that name."""
    try:
        path = Path(value)
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except (OSError, TypeError, ValueError) as error:  # ValueError: also what cannot be encoded
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{where}: expected a path, got {shown(value)}: {error}") from error
    return path.absolute()


def check_network(networks: Any, where: str) -> None:
    """Raises TypeError unless it is a StatefulModule."""
    if not isinstance(networks, StatefulModule):
        raise TypeError(
            f"{where}: expected a network that is a StatefulModule, got "
            f"{type(networks).__name__}; wrap an nnx layer in a StatefulModule subclass, a pure "
            "function in Apply"
        )


def check_function(value: Any, where: str, *arguments: str) -> None:
    """Raises TypeError unless it is a function that can be called with these arguments."""
    names = ", ".join(arguments)
    if not callable(value) or isinstance(value, StatefulModule):
        raise TypeError(f"{where}: expected a function of ({names}), got {shown(value)}")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return  # of a built-in function, which cannot be inspected
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise TypeError(
            f"{where}: expected a function of ({names}), got one of {signature}"
        ) from error


def check_arrays(tree: PyTree, where: str) -> None:
    """Raises TypeError unless it is a tree whose leaves are real numbers or arrays of them."""
    with refused(where, "a tree of arrays", tree, TypeError):
        leaves = jax.tree.leaves(tree)
        kinds = [np.result_type(getattr(leaf, "dtype", leaf)) for leaf in leaves]
        if not all(kind.kind in "biufV" for kind in kinds):
            raise TypeError(f"leaves of {', '.join(map(str, kinds))}")


def check_one_array(value: Any, where: str) -> None:
    """Raises TypeError unless it is a real number or an array of them, and no tree."""
    if not jax.tree_util.all_leaves([value]):
        raise TypeError(f"{where}: expected a number or an array, got {shown(value)}")
    check_arrays(value, where)


def check_same_shapes(
    arrays: Mapping[str, Any], where: str, axes: str, kind: type | None = None
) -> None:
    """Raises unless all are arrays of real numbers of one shape, with axes such as "(T, B)"."""
    first, *_ = arrays
    for name, array in arrays.items():
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            raise TypeError(f"{where}: {name}: expected an array {axes}, got {shown(array)}")
        check_arrays(array, f"{where}: {name}")
        if kind is not None and array.dtype != kind:
            raise TypeError(
                f"{where}: {name}: expected an array of {kind.__name__}, got {array.dtype}"
            )
        shape, wanted = tuple(array.shape), tuple(arrays[first].shape)
        if len(shape) != axes.count(",") + 1 or 0 in shape or shape != wanted:
            raise ValueError(
                f"{where}: {name}: expected an array {axes} of the shape of {first}, {wanted}, got "
                f"{shape}; give arrays of one shape"
            )


def check_key(key: Any, where: str) -> None:
    """Raises TypeError unless it is one random key."""
    dtype = key.dtype if isinstance(key, jax.Array | np.ndarray) else None
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    old = dtype == np.uint32 and getattr(key, "shape", None) == (2,)
    if not (typed and key.shape == ()) and not old:
        raise TypeError(
            f"{where}: key: expected a random key, such as jax.random.key(0), got {shown(key)}"
        )


def tells(error: BaseException) -> bool:
    """Returns whether a message says what would have been right, as this project's do."""
    text = str(error)
    if "must have equal" in text and "xpected" not in text:  # JAX, of a cond or a scan
        return False
    return any(part in text for part in ("xpected", "must ", " wants ", "do not match"))


@contextlib.contextmanager
def explained(check: Callable[[], Any]) -> Iterator[None]:
    """Context in which an error makes ``check`` look for what is at fault.

    A call that works pays nothing, where checks would evaluate an environment's shapes again:
    seconds, with a physics engine. An error that says itself what was expected stays as it is.
    """
    try:
        yield
    except Exception as error:
        if not tells(error):
            check()
        raise


@contextlib.contextmanager
def refused(where: str, expected: str, value: Any, kind: type[Exception]) -> Iterator[None]:
    """Context in which whatever a value of the user's makes fail is an error about that value."""
    try:
        yield
    except Exception as error:
        if isinstance(error, RuntimeError | TypeError | ValueError) and tells(error):
            raise
        raise kind(
            f"{where}: expected {expected}, got {shown(value)}, with which it failed: "
            f"{type(error).__name__}: {str(error)[:MOST_SHOWN]}"
        ) from error
