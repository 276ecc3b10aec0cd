"""Declarations from adjacency matrices and lists of edges."""

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .._declaration._check_spec import check_spec
from .._declaration._connectivity import Connectivity
from .._declaration._delay import checked_delay
from .._declaration._hints import shown, which_name
from .._declaration._limits import Limits, check_limits, checked_limits
from .._declaration._registry import aggregation_called
from .._declaration._spec import Connection, GraphSpec, Population
from .._declaration._validation import check_population_name, checked_activation
from .._declaration._weight_checks import connectivity_called

Entries = Mapping[Any, str] | Iterable[Any] | None
"""Entries of the observation or output by population; of a list, each is named as its population"""

_OWNER = "spec_from_edges"


def spec_from_edges(
    edges: Any,
    sizes: Any,
    *,
    names: Sequence[str] | None = None,
    delay: Any = 0,
    activation: Any = None,
    aggregate: Any = None,
    sign: Any = None,
    connectivity: Connectivity | str | None = None,
    frozen: bool = False,
    share: str | None = None,
    inputs: Entries = None,
    outputs: Entries = None,
    limits: Limits | None = None,
) -> GraphSpec:
    """Returns a declaration of N populations from an adjacency matrix or a list of edges.

    A population is referred to by its name or by its number, from 0.

    Args:
      edges: an array (N, N), whose row is the source and whose column the destination: where it is
        not zero there is a connection. Or a list, in the order of declaration, of pairs (source,
        destination) or triples (source, destination, delay); what is listed several times is as
        many connections in parallel, as with a MultiDiGraph of networkx. What has a shape is a
        matrix, also a sparse one of SciPy's.
      sizes: numbers of units: an int for all, a sequence (N,), or a dict by population.
      names: of the populations. By default those that ``sizes`` or all edges mention, in the order
        in which they do, or the numbers, "0", "1", ...
      delay: in steps, that of all connections, as ``connect`` takes it; or an array (N, N) that is
        read where there is a connection. A triple has its own.
      activation: that of all populations, as a function or name, or a dict by population.
      aggregate: how populations join their messages, as a name or record, or a dict by population;
        those that no edge reaches have nothing to join.
      sign: that of all populations, or a dict by population.
      connectivity: that of all connections, a record or the name of one, as ``connect`` takes it.
      frozen: whether all connections keep their initial weights.
      share: name under which all connections share their weights, which then are of equal sizes.
      inputs: entries of the observation by population, or a list of populations, which read the
        entries of their names.
      outputs: entries of the output, likewise.
      limits: see :class:`Limits`; None for the default ones.

    Returns:
      The declaration; of a matrix, the connections row by row.

    Raises:
      TypeError: if an argument is of another kind.
      ValueError: if shapes disagree, a population is unknown, has no size or is named twice in a
        dict, or a name, size, delay or another option is not one that calls could give.

    Example:
      >>> import numpy as np
      >>> adjacency = np.array([[0, 1], [1, 0]])
      >>> spec = spec_from_edges(
      ...     adjacency, 8, names=["eye", "arm"], delay=np.array([[0, 0], [2, 0]]), outputs=["arm"]
      ... )
      >>> [(c.name, c.delay) for c in spec.connections]
      [('eye->arm', 0), ('arm->eye', 2)]
    """
    limits = checked_limits(_OWNER, limits)
    matrix = _matrix("edges", edges, limits) if hasattr(edges, "shape") else None
    listed = [] if matrix is not None else _edge_list(edges, limits)
    found = _names(matrix, listed, sizes, names, limits)
    has_shape = getattr(delay, "shape", ()) != ()
    delays = _matrix("delay", delay, limits, len(found)) if has_shape else None
    places = {name: place for place, name in enumerate(found)}

    def number(end: Any, where: str) -> int:
        return _number(end, places, found, where)

    if matrix is not None:
        limits.check(f"{_OWNER}: edges", "max_connections", int(np.count_nonzero(matrix)))
        rows, columns = np.nonzero(matrix)
        listed = list(zip(rows.tolist(), columns.tolist(), strict=True))
        wheres = [f"{_OWNER}: edges[{row}, {column}]" for row, column in listed]
    else:
        wheres = [f"{_OWNER}: edges[{place}]" for place in range(len(listed))]
    bound = {
        "connectivity": connectivity_called(f"{_OWNER}: connectivity", connectivity),
        "frozen": frozen,
        "share": share,
    }
    connections = []
    parallel: dict[tuple[int, int], int] = {}
    for edge, where in zip(listed, wheres, strict=True):
        src, dst = (number(end, where) for end in edge[:2])
        own = edge[2] if len(edge) == 3 else delay if delays is None else delays[src, dst].item()
        index = parallel.setdefault((src, dst), 0)
        connections.append(
            Connection(
                src=found[src],
                dst=found[dst],
                delay=checked_delay(f"{where}.delay", own),
                index=index,
                **bound,
            )
        )
        parallel[src, dst] += 1
    size_of = _by_name("sizes", sizes, found, number)
    activations = _by_name("activation", activation, found, number)
    aggregates = _by_name("aggregate", aggregate, found, number)
    reached = {connection.dst for connection in connections}
    signs = _by_name("sign", sign, found, number)
    read = entries_by_name(f"{_OWNER}: inputs", inputs, lambda p, where: found[number(p, where)])
    put = entries_by_name(f"{_OWNER}: outputs", outputs, lambda p, where: found[number(p, where)])
    populations = tuple(
        Population(
            name=name,
            size=size_of[name],
            activation=checked_activation(name, activations.get(name)),
            aggregate=aggregation_called(
                aggregates.get(name) if name in reached else None,
                f"{_OWNER}: aggregate of {shown(name)}",
            ),
            input_from=read.get(name),
            output_to=put.get(name),
            sign=signs.get(name),
        )
        for name in found
    )
    spec = GraphSpec(populations, tuple(connections))
    check_spec(spec, [f"{_OWNER}: {shown(name)}" for name in found], wheres)
    check_limits(_OWNER, spec, limits)
    return spec


def entries_by_name(
    where: str, given: Entries, name_of: Callable[[Any, str], str]
) -> dict[str, str]:
    """Returns entries by population, of a dict or a list of populations.

    Args:
      where: the place of what was given, for errors.
      given: see :data:`Entries`.
      name_of: turns whatever refers to a population into its name.

    Raises:
      TypeError: if it is neither.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return _once(where, ((name_of(key, where), entry) for key, entry in given.items()))
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(
            f"{where}: expected a list of populations, or a dict of entries by population, got "
            f"{shown(given)} of type {type(given).__name__}; write [{shown(given)}]"
        )
    names = (name_of(population, where) for population in given)
    return _once(where, ((name, name) for name in names))


def _once(where: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Values by name; raises where a population is there twice, by name and number for example."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(
                f"{where}: expected each population once, got {shown(name)} twice; remove one of "
                "them"
            )
        found[name] = value
    return found


def _matrix(what: str, given: Any, limits: Limits, count: int | None = None) -> np.ndarray:
    height = given.shape[0] if getattr(given, "shape", None) else 0
    if isinstance(height, int):  # before a sparse matrix becomes a full one
        limits.check(f"{_OWNER}: {what}", "max_populations", height)
    array = np.asarray(given.toarray() if hasattr(given, "toarray") else given)
    wanted = "(N, N)" if count is None else f"{(count, count)}"
    square = array.ndim == 2 and array.shape[0] == array.shape[1]
    if not square or (count is not None and len(array) != count):
        raise ValueError(
            f"{_OWNER}: {what}: expected an array of shape {wanted}, source by destination, got "
            f"{array.shape}; for a list of edges, pass a list of pairs"
        )
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{_OWNER}: {what}: expected an array of numbers, got {array.dtype}; convert it"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0].tolist()
        raise ValueError(
            f"{_OWNER}: {what}[{row}, {column}]: expected a finite number, got "
            f"{array[row, column]}; write 0 where there is no connection"
        )
    return array


def _edge_list(edges: Any, limits: Limits) -> list[Any]:
    if not isinstance(edges, Iterable) or isinstance(edges, str | Mapping):
        raise TypeError(
            f"{_OWNER}: edges: expected an array (N, N) or a list of pairs, got {shown(edges)} of "
            f"type {type(edges).__name__}"
        )
    listed = list(itertools.islice(edges, limits.max_connections + 1))
    limits.check(f"{_OWNER}: edges", "max_connections", len(listed), " or more")
    for place, edge in enumerate(listed):
        if not isinstance(edge, Sequence) or isinstance(edge, str) or len(edge) not in (2, 3):
            raise TypeError(
                f"{_OWNER}: edges[{place}]: expected (source, destination) or (source, "
                f"destination, delay), got {shown(edge)}; for a matrix, pass an array"
            )
    return listed


def _names(
    matrix: np.ndarray | None,
    edges: list[Any],
    sizes: Any,
    names: Sequence[str] | None,
    limits: Limits,
) -> list[str]:
    """The names of the populations, and whether there are as many as other arguments say."""
    counted = None if isinstance(sizes, Mapping) or np.ndim(sizes) == 0 else len(sizes)
    ends = [end for edge in edges for end in edge[:2]]
    if names is not None:
        if isinstance(names, str):
            raise TypeError(f"{_OWNER}: names: expected a list of names, got {shown(names)}")
        if not isinstance(names, Iterable):
            raise TypeError(
                f"{_OWNER}: names: expected a list of names, got {shown(names)} of type "
                f"{type(names).__name__}; write [{shown(names)}]"
            )
        found = list(itertools.islice(names, limits.max_populations + 1))
    elif isinstance(sizes, Mapping) and not _are_numbers(sizes):
        found = list(sizes)
    elif ends and all(isinstance(end, str) for end in ends):
        found = list(dict.fromkeys(ends))
    elif matrix is not None:
        found = [str(number) for number in range(len(matrix))]
    elif counted is not None:
        found = [str(number) for number in range(counted)]
    else:
        numbers = [_index(end, f"{_OWNER}: edges") for end in ends]
        numbers += map(int, sizes) if isinstance(sizes, Mapping) else []
        count = max(numbers, default=-1) + 1
        limits.check(f"{_OWNER}: edges", "max_populations", count)
        found = [str(number) for number in range(count)]
    limits.check(f"{_OWNER}: names", "max_populations", len(found))
    known: dict[str, None] = {}
    for place, name in enumerate(found):
        check_population_name(f"{_OWNER}: names[{place}]", name, known)
        known[name] = None
    for what, count in (("edges", None if matrix is None else len(matrix)), ("sizes", counted)):
        if count is not None and count != len(found):
            raise ValueError(
                f"{_OWNER}: {what}: expected {len(found)} populations, those of names, got "
                f"{count}; name each one"
            )
    return found


def _by_name(
    what: str, given: Any, names: list[str], number: Callable[[Any, str], int]
) -> dict[str, Any]:
    """One value for all populations, one for each, or a dict, as a dict by name."""
    where = f"{_OWNER}: {what}"
    if isinstance(given, Mapping):
        values = _once(where, ((names[number(k, where)], value) for k, value in given.items()))
        missing = [name for name in names if name not in values]
        if what == "sizes" and missing:
            raise ValueError(
                f"{where}: expected a size of each population, got none of {shown(missing[0])}; "
                "add it"
            )
        return values
    if what == "sizes" and np.ndim(given):
        return dict(zip(names, np.asarray(given).tolist(), strict=True))
    return dict.fromkeys(names, given)


def _are_numbers(keys: Iterable[Any]) -> bool:
    """Whether populations are referred to by numbers alone."""
    return all(hasattr(key, "__index__") and not isinstance(key, bool) for key in keys)


def _number(end: Any, places: Mapping[str, int], names: Sequence[str], where: str) -> int:
    if isinstance(end, str):
        if end not in places:
            raise ValueError(
                f"{where}: expected the name of a population, got {shown(end)}; "
                f"{which_name(end, names)}"
            )
        return places[end]
    number = _index(end, where)
    if number >= len(names):
        raise ValueError(
            f"{where}: expected the number of a population, below {len(names)}, got {number}"
        )
    if places.get(str(number), number) != number:
        raise ValueError(
            f"{where}: expected the name of a population, got the number {number}, which is that "
            f"of {shown(names[number])} and the name of another; write names as str"
        )
    return number


def _index(end: Any, where: str) -> int:
    try:
        number = operator.index(end)
    except TypeError:
        raise TypeError(
            f"{where}: expected the name or number of a population, got {shown(end)} of type "
            f"{type(end).__name__}; if some have names, give all of them in names="
        ) from None
    if number < 0:
        raise ValueError(
            f"{where}: expected the number of a population, at least 0, got {number}; count from 0"
        )
    return number
