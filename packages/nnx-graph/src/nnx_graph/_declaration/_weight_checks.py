"""What is asked of weights: connectivity, sign, frozen and shared ones, and what they go with."""

from typing import get_args

from ._connectivity import Connectivity, LowRank, mask_of
from ._spec import Connection, GraphSpec, Population, Sign

_OWNER = "PopulationGraph.finalize"
_SIGNS = get_args(Sign)


def check_weights(spec: GraphSpec) -> None:
    """Raises unless the weights of all connections can be as they are declared.

    Raises:
      ValueError: if connectivity, sign or sharing do not fit the sizes or each other.
      TypeError: if one of them is of another kind.
    """
    populations = {population.name: population for population in spec.populations}
    for population in spec.populations:
        _check_sign(population, spec)
    shared: dict[str, Connection] = {}
    for connection in spec.connections:
        source, destination = populations[connection.src], populations[connection.dst]
        _check_kind(connection)
        if connection.connectivity is not None:
            try:
                mask_of(connection.connectivity, connection.name, source.size, destination.size)
            except ValueError as error:
                raise ValueError(f"{_OWNER}: connection {connection.name!r}: {error}") from error
        if connection.share is not None:
            first = shared.setdefault(connection.share, connection)
            sizes = source.size, destination.size
            wanted = populations[first.src].size, populations[first.dst].size
            if sizes != wanted:
                raise ValueError(
                    f"{_OWNER}: connection {connection.name!r}: expected sizes {wanted} as of "
                    f"{first.name!r}, with which it shares the weights {connection.share!r}, got "
                    f"{sizes}; share under another name"
                )


def _check_sign(population: Population, spec: GraphSpec) -> None:
    if population.sign is None:
        return
    if population.sign not in _SIGNS:
        raise ValueError(
            f"{_OWNER}: population {population.name!r}: expected the sign "
            f"{' or '.join(map(repr, _SIGNS))}, or None, got {population.sign!r}; choose one"
        )
    for connection in spec.connections:
        if connection.src == population.name and connection.has_transform:
            raise ValueError(
                f"{_OWNER}: connection {connection.name!r}: expected a linear map from the "
                f"{population.sign} population {population.name!r}, got a transform, whose weights "
                "have no sign; leave the transform out, or the sign"
            )
        if connection.src == population.name and isinstance(connection.connectivity, LowRank):
            raise ValueError(
                f"{_OWNER}: connection {connection.name!r}: expected a full kernel from the "
                f"{population.sign} population {population.name!r}, got {connection.connectivity!r}"
                ", whose rank a sign would not leave as it is; leave one of them out"
            )


def _check_kind(connection: Connection) -> None:
    where = f"{_OWNER}: connection {connection.name!r}"
    connectivity, share = connection.connectivity, connection.share
    if connectivity is not None and not isinstance(connectivity, Connectivity):
        raise TypeError(
            f"{where}: expected connectivity such as OneToOne() or FixedProbability(0.1), got "
            f"{connectivity!r} of type {type(connectivity).__name__}; pass one of the records"
        )
    if not isinstance(connection.frozen, bool):
        raise TypeError(f"{where}: expected frozen=True or False, got {connection.frozen!r}")
    if share is not None and (not isinstance(share, str) or not share):
        raise TypeError(
            f"{where}: expected share to be a name, got {share!r}; use a str, the same for all "
            "connections that share their weights"
        )
    asked = {
        "connectivity": connectivity is not None,
        "frozen": connection.frozen,
        "share": share is not None,
    }
    used = [name for name, is_used in asked.items() if is_used]
    if used and connection.has_transform:
        raise ValueError(
            f"{where}: expected a linear map for {' and '.join(used)}, got a transform; leave one "
            "of them out"
        )
    elsewhere = share is not None or isinstance(connectivity, LowRank)
    if elsewhere and connection.frozen:
        raise ValueError(
            f"{where}: expected weights of its own to freeze, got shared ones or those of low rank;"
            " leave frozen out"
        )
    if share is not None and isinstance(connectivity, LowRank):
        raise ValueError(
            f"{where}: expected a full kernel to share, got connectivity={connectivity!r}; leave "
            "one of them out"
        )
