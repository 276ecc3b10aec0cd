"""What interventions must be like, and how they are made from what a user passes."""

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array

from .._declaration._arrays import as_array
from .._declaration._hints import near_names, shown, which_name
from .._declaration._spec import Connection, GraphSpec
from ._interventions import VALUES, Intervention, Kind, Schedule

Target = str | tuple[str, str] | tuple[str, str, int]
"""The name of a population or connection, or source, destination and index of a connection."""
Steps = range | slice | ArrayLike | None
"""Steps of an episode: those in a range or slice, those where an array is true, or all of them."""

_OWNER = "PopulationGraph"


def make_intervention(
    spec: GraphSpec, kind: Kind, target: Any, value: Any, rows: Any, steps: Any
) -> Intervention:
    """Returns an intervention, checked.

    Args:
      spec: the declaration of the graph.
      kind: what is done.
      target: a connection only for lesions.
      value: strength, value or current.
      rows: (B,) bool, or None.
      steps: see :data:`Steps`.

    Raises:
      ValueError: if there is no such target, or a number or shape that fits nothing.
      TypeError: if an argument is of another kind.
    """
    where = f"{_OWNER}.{kind}"
    name, size = _target(where, spec, target, kind)
    where = f"{where}({shown(name)})"
    complete = kind == "lesion" and type(value) in (int, float) and value == 1
    return Intervention(
        kind,
        name,
        None if complete else _numbers(where, VALUES[kind], value, size),
        None if rows is None else _rows(where, rows),
        None if steps is None else _steps(where, steps),
    )


def checked_populations(spec: GraphSpec, populations: Any) -> tuple[str, ...]:
    """Returns names of populations in the order of the declaration; one or several are given."""
    where = f"{_OWNER}.record"
    if isinstance(populations, str):
        populations = (populations,)
    if not isinstance(populations, Iterable) or getattr(populations, "shape", None) == ():
        raise TypeError(
            f"{where}: expected names of populations, got {shown(populations)} of type "
            f"{type(populations).__name__}; pass a list"
        )
    wanted = {_target(where, spec, name, "record")[0] for name in populations}
    return tuple(name for name in spec.names if name in wanted)


def _target(where: str, spec: GraphSpec, target: Any, kind: str) -> tuple[str, int]:
    """The name of a population or connection, and the size of what it puts out."""
    sizes = {p.name: p.size for p in spec.populations}
    what = "a population"
    if kind == "lesion":
        what = "a population or connection"
        sizes |= {c.name: sizes[c.dst] for c in spec.connections}
        if isinstance(target, tuple) and len(target) in (2, 3):
            src, dst, *index = target
            target = Connection(src=src, dst=dst, index=index[0] if index else 0).name
    if not isinstance(target, str):
        raise TypeError(
            f"{where}: expected the name of {what}, got {shown(target)} of type "
            f"{type(target).__name__}; pass {'a' if kind == 'record' else 'one'} str"
        )
    if target not in sizes:
        hint = near_names(target, sizes) or which_name(target, spec.names)
        raise ValueError(f"{where}: expected the name of {what}, got {shown(target)}; {hint}")
    return target, sizes[target]


def _numbers(where: str, what: str, given: Any, size: int) -> Array:
    array = _array(where, what, given, "iuf", "numbers")
    fitting = array.shape in ((), (size,)) or (array.ndim == 2 and array.shape[1] in (1, size))
    if not fitting:
        raise ValueError(
            f"{where}: expected {what} of shape (), ({size},), (B, 1) or (B, {size}), got "
            f"{array.shape}; write one number for each row as (B, 1)"
        )
    if not isinstance(array, Tracer):
        _check_range(where, what, np.asarray(array, float))
    with np.errstate(over="ignore"):  # what is too large for float32 is inf there
        return jnp.array(array, float)


def _check_range(where: str, what: str, array: np.ndarray) -> None:
    outside = array[~((array >= 0) & (array <= 1))]
    if what == "strength" and outside.size:
        raise ValueError(
            f"{where}: expected a strength from 0 (intact) to 1 (complete), got "
            f"{outside.flat[0]}; pass the share that is lost"
        )
    if np.isnan(array).any():
        raise ValueError(
            f"{where}: expected {what} to be numbers, got nan; where nothing is to be changed, say "
            "so with rows or steps"
        )


def _rows(where: str, given: Any) -> Array:
    array = _array(where, "rows", given, "b", "booleans of shape (B,)")
    if array.ndim != 1:
        raise ValueError(
            f"{where}: expected rows of shape (B,), one boolean for each row, got {array.shape}"
        )
    return jnp.array(array)


def _steps(where: str, given: Any) -> Schedule | Array:
    if isinstance(given, range | slice):
        return _schedule(where, given)
    array = _array(where, "steps", given, "b", "a range, a slice or booleans")
    if array.ndim not in (1, 2) or 0 in array.shape:
        raise ValueError(
            f"{where}: expected steps of shape (N,) or (B, N), one boolean for each of the first N "
            f"steps, got {array.shape}; pass a range for steps in a row"
        )
    return jnp.array(array)


def _schedule(where: str, given: range | slice) -> Schedule:
    start = 0 if given.start is None else given.start
    every = 1 if given.step is None else given.step
    stop = given.stop
    whole = all(isinstance(number, int | np.integer) for number in (start, every, stop or 0))
    if not whole or start < 0 or every < 1 or (stop is not None and stop <= start):
        raise ValueError(
            f"{where}: expected steps that begin at 0 or later and hold at least one, in ascending "
            f"order, got {shown(given)}; steps count from 0 in each episode, as in range(100, 150)"
        )
    return int(start), None if stop is None else int(stop), int(every)


def _array(where: str, what: str, given: Any, kinds: str, wanted: str) -> Any:
    """The array, traced or as NumPy has it, of one of some kinds of numbers."""
    array = as_array(where, f"{what} to be {wanted}", given)
    # bfloat16 is a kind of its own to NumPy
    kind = "f" if jnp.issubdtype(array.dtype, jnp.floating) else array.dtype.kind
    if kind not in kinds:
        described = f"{type(given).__name__} of {array.dtype}" if array.ndim else shown(given)
        raise TypeError(
            f"{where}: expected {what} to be {wanted}, got {described}; pass an array of them"
        )
    return array
