"""What a declaration must be like that no calls have made, which would have checked it."""

from collections.abc import Mapping, Sequence
from typing import Any

from ._delay import check_delay_of, checked_delay
from ._hints import shown
from ._registry import aggregation_called, check_module_name
from ._spec import Connection, GraphSpec, Named, Population, Unnamed
from ._validation import (
    check_entry,
    check_known,
    check_name,
    check_population_name,
    checked_size,
)
from ._weight_checks import check_binding, check_options, check_sign


def check_is_spec(owner: str, spec: Any) -> None:
    """Raises TypeError, with the way from there, unless it is a declaration."""
    if not isinstance(spec, GraphSpec):
        hint = "pass the spec of a graph, or build one from populations and connections"
        if isinstance(getattr(spec, "spec", None), GraphSpec):
            hint = "pass its spec"
        elif isinstance(spec, Mapping):
            hint = "for what to_dict returned, use from_dict, or spec_from_dict before"
        elif isinstance(spec, str):
            hint = "for JSON, use from_json, or spec_from_json before"
        raise TypeError(
            f"{owner}: expected a declaration, a GraphSpec, got {type(spec).__name__}; {hint}"
        )
    parts = (
        ("populations", spec.populations, Population),
        ("connections", spec.connections, Connection),
    )
    for name, records, kind in parts:
        for place, record in enumerate(records):
            if not isinstance(record, kind):
                raise TypeError(
                    f"{owner}: {name}[{place}]: expected a {kind.__name__}, got {shown(record)} "
                    f"of type {type(record).__name__}; build one from it"
                )
    for place, c in enumerate(spec.connections):  # of which the name of a connection is made
        for field, value, kind in (
            ("src", c.src, str),
            ("dst", c.dst, str),
            ("index", c.index, int),
        ):
            if not isinstance(value, kind) or isinstance(value, bool):
                raise TypeError(
                    f"{owner}: connections[{place}].{field}: expected {field} of type "
                    f"{kind.__name__}, got {shown(value)} of type {type(value).__name__}; change it"
                )


def check_spec(spec: GraphSpec, populations: Sequence[str], connections: Sequence[str]) -> None:
    """Raises unless a declaration is one that calls could have made.

    Args:
      spec: built by hand, or read from somewhere.
      populations: the place of each population, for errors.
      connections: the place of each connection.
    """
    names: dict[str, Population] = {}
    taken: dict[str, str] = {}
    for where, p in zip(populations, spec.populations, strict=True):
        check_population_name(f"{where}.name", p.name, names)
        names[p.name] = p
        checked_size(f"{where}.size", p.size)
        if p.input_from is not None:
            check_name(f"{where}.input_from", "the name of an entry", p.input_from)
        if p.output_to is not None:
            check_entry(f"{where}.output_to", "the name of an entry", p.output_to, taken)
            taken[p.output_to] = p.name
        check_sign(f"{where}.sign", p.sign)
        _check_known_module(f"{where}.compute", p.compute)
        aggregation_called(p.aggregate, f"{where}.aggregate")
    shares: dict[str, Connection] = {}
    parallel: dict[tuple[str, str], int] = {}
    for where, c in zip(connections, spec.connections, strict=True):
        check_known(f"{where}.src", "source", c.src, names)
        check_known(f"{where}.dst", "destination", c.dst, names)
        checked_delay(f"{where}.delay", c.delay)
        check_delay_of(f"{where}.delay", c.delay, names[c.src].size)
        before = parallel.setdefault((c.src, c.dst), 0)
        if c.index != before:
            raise ValueError(
                f"{where}.index: expected {before}, the number of connections from {shown(c.src)} "
                "to "
                f"{shown(c.dst)} before, got {shown(c.index)}; correct it, or remove the connection"
            )
        parallel[c.src, c.dst] += 1
        _check_known_module(f"{where}.transform", c.transform)
        check_options(where, c)
        check_binding(where, c, names, shares.get(c.share or ""))
        if c.share is not None:
            shares.setdefault(c.share, c)


def _check_known_module(where: str, reference: Named | Unnamed | None) -> None:
    """Raises if a module goes by a name under which none is registered."""
    if isinstance(reference, Named):
        check_module_name(reference.name, where)
