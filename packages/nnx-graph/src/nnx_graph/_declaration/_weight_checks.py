"""What is asked of weights: connectivity, sign, frozen and shared ones, and what they go with."""

import warnings
from collections.abc import Mapping
from typing import Any, get_args

from ._connectivity import Connectivity, LowRank
from ._hints import shown, which_name
from ._kinds import KINDS, needs_fields
from ._registry import name_of_activation
from ._spec import Connection, GraphSpec, Named, Population, Sign, Unnamed

_SIGNS = get_args(Sign)
_NEGATIVE = ("identity", "tanh", "hard_tanh", "soft_sign", "log_sigmoid", "elu", "celu", "selu")
"""Activations whose outputs are far from non-negative."""


def connectivity_called(where: str, given: Any) -> Any:
    """Returns the record that the name of a kind stands for; what is no str as it is.

    Raises:
      ValueError: if no kind has the name, or a record of that kind needs more than its name.

    Example:
      >>> connectivity_called("here", "one-to-one")
      OneToOne()
    """
    if not isinstance(given, str):
        return given
    kinds = {name: kind for name, kind in KINDS.items() if issubclass(kind, Connectivity)}
    kind: Any = kinds.get(given)
    if kind is None:
        raise ValueError(
            f"{where}: expected a connectivity, or the name of one, got {shown(given)}; "
            f"{which_name(given, kinds)}"
        )
    if needs_fields(kind):
        alone = [repr(name) for name, other in kinds.items() if not needs_fields(other)]
        raise ValueError(
            f"{where}: expected a connectivity that needs no numbers where there is but its name "
            f"({', '.join(alone)}), got {shown(given)}; pass {kind.__name__}(...)"
        )
    return kind()


def check_sign(where: str, sign: Any) -> None:
    """Raises ValueError unless it is one of the signs, or None."""
    if sign is not None and not (isinstance(sign, str) and sign in _SIGNS):
        raise ValueError(
            f"{where}: expected the sign {' or '.join(map(repr, _SIGNS))}, or None, got "
            f"{shown(sign)}; choose one"
        )


def warn_of_signs(spec: GraphSpec) -> None:
    """Warns of populations with a sign whose outputs may be negative, which turns the sign around.

    Functions of the user's, and what a module puts out, are not judged; nor is an input that only
    passes the observation on.
    """
    sending = {c.src for c in spec.connections if not c.has_transform}
    found = []
    for p in spec.populations:
        name = "identity" if p.activation is None else name_of_activation(p.activation)
        judged = name in _NEGATIVE and not (name == "identity" and (p.input_from or p.has_compute))
        if p.sign is not None and p.name in sending and judged:
            found.append(f"{p.name!r} ({p.sign}, {name})")
    if found:
        warnings.warn(
            f"PopulationGraph.finalize: a sign is that of weights, and what a population sends has "
            f"the other sign wherever its output is negative: {', '.join(found)}; use an "
            "activation without negative values, for example relu or softplus",
            UserWarning,
            stacklevel=4,
        )


def check_options(where: str, connection: Connection) -> None:
    """Raises unless what is asked of the weights of a connection is of the right kinds.

    Raises:
      TypeError: if it is not.
    """
    connectivity, share = connection.connectivity, connection.share
    if connectivity is not None and not isinstance(connectivity, Connectivity):
        raise TypeError(
            f"{where}: expected connectivity such as OneToOne() or FixedProbability(0.1), got "
            f"{shown(connectivity)} of type {type(connectivity).__name__}; pass one of the records"
        )
    if not isinstance(connection.frozen, bool):
        raise TypeError(
            f"{where}: expected frozen=True or False, got {shown(connection.frozen)} of type "
            f"{type(connection.frozen).__name__}; pass a bool"
        )
    if share is not None and (not isinstance(share, str) or not share):
        raise TypeError(
            f"{where}: expected share to be a name, got {shown(share)}; use a str, the same for "
            "all connections that share their weights"
        )


def check_binding(
    where: str,
    connection: Connection,
    populations: Mapping[str, Population],
    first: Connection | None = None,
) -> None:
    """Raises unless what is asked of the weights of a connection can be had at once, and there.

    Args:
      where: the connection, for errors.
      connection: whose options are of the right kinds, see :func:`check_options`.
      populations: by name.
      first: of those that share its weights; None if it is that itself.

    Raises:
      ValueError: if options exclude each other, or do not fit the populations.
    """
    source, destination = populations[connection.src], populations[connection.dst]
    _check_combination(where, connection)
    _check_signed(where, connection, source)
    if connection.connectivity is not None:
        try:
            connection.connectivity.check_sizes(source.size, destination.size)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
    if first is None or connection.share is None:
        return
    sizes = source.size, destination.size
    wanted = populations[first.src].size, populations[first.dst].size
    if sizes != wanted:
        raise ValueError(
            f"{where}: expected sizes {wanted} as of {shown(first.name)}, with which it shares the "
            f"weights {shown(connection.share)}, got {sizes}; share under another name"
        )
    if connection.transform != first.transform:
        raise ValueError(
            f"{where}: expected {_described(first)} as of {shown(first.name)}, with which it "
            "shares the "
            f"weights {shown(connection.share)}, got {_described(connection)}; share under "
            "another name"
        )


def _check_combination(where: str, connection: Connection) -> None:
    connectivity, share = connection.connectivity, connection.share
    asked = {"connectivity": connectivity is not None, "frozen": connection.frozen}
    used = [name for name, is_used in asked.items() if is_used]
    if used and connection.has_transform:
        raise ValueError(
            f"{where}: expected a linear map for {' and '.join(used)}, got a transform; leave one "
            "of them out"
        )
    if share is not None and isinstance(connection.transform, Unnamed):
        raise ValueError(
            f"{where}: expected a linear map or a module by name to share as {shown(share)}, got "
            "an "
            f"instance of {connection.transform.class_name}; leave share out, and pass the same "
            "instance wherever it is shared"
        )
    elsewhere = share is not None or isinstance(connectivity, LowRank)
    if elsewhere and connection.frozen:
        raise ValueError(
            f"{where}: expected weights of its own to freeze, got shared ones or those of low rank;"
            " leave frozen out"
        )
    if share is not None and isinstance(connectivity, LowRank):
        raise ValueError(
            f"{where}: expected a full kernel to share, got connectivity={shown(connectivity)}; "
            "leave one of them out"
        )


def _check_signed(where: str, connection: Connection, source: Population) -> None:
    if source.sign is None:
        return
    if connection.has_transform:
        raise ValueError(
            f"{where}: expected a linear map from the {source.sign} population "
            f"{shown(source.name)}, "
            "got a transform, whose weights have no sign; leave the transform out, or the sign"
        )
    if isinstance(connection.connectivity, LowRank):
        raise ValueError(
            f"{where}: expected a full kernel from the {source.sign} population "
            f"{shown(source.name)}, "
            f"got {shown(connection.connectivity)}, whose rank a sign would not leave as it is; "
            "leave one of them out"
        )


def _described(connection: Connection) -> str:
    transform = connection.transform
    return repr(transform) if isinstance(transform, Named) else "a linear map"
