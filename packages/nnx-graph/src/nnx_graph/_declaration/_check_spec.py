"""What a declaration must be like that no calls have made, which would have checked it."""

from collections.abc import Sequence

from ._spec import GraphSpec
from ._validation import (
    check_entry,
    check_known,
    check_name,
    check_population_name,
    checked_delay,
    checked_size,
)


def check_spec(spec: GraphSpec, populations: Sequence[str], connections: Sequence[str]) -> None:
    """Raises unless a declaration is one that calls could have made.

    Args:
      spec: built by hand, or read from somewhere.
      populations: the place of each population, for errors.
      connections: the place of each connection.
    """
    names: dict[str, None] = {}
    taken: dict[str, str] = {}
    for where, p in zip(populations, spec.populations, strict=True):
        check_population_name(f"{where}.name", p.name, names)
        names[p.name] = None
        checked_size(f"{where}.size", p.size)
        if p.input_from is not None:
            check_name(f"{where}.input_from", "the name of an entry", p.input_from)
        if p.output_to is not None:
            check_entry(f"{where}.output_to", "the name of an entry", p.output_to, taken)
            taken[p.output_to] = p.name
    parallel: dict[tuple[str, str], int] = {}
    for where, c in zip(connections, spec.connections, strict=True):
        check_known(f"{where}.src", "source", c.src, names)
        check_known(f"{where}.dst", "destination", c.dst, names)
        checked_delay(f"{where}.delay", c.delay)
        before = parallel.setdefault((c.src, c.dst), 0)
        if c.index != before:
            raise ValueError(
                f"{where}.index: expected {before}, the number of connections from {c.src!r} to "
                f"{c.dst!r} before, got {c.index!r}; correct it, or remove the connection"
            )
        parallel[c.src, c.dst] += 1
