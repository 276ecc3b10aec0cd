"""What pictures and texts of graphs say of a single connection: a label, and how its arrow ends."""

from collections.abc import Callable
from typing import Literal

from .._declaration._connectivity import (
    BlockSparse,
    Connectivity,
    DistanceDependent,
    FixedProbability,
    LowRank,
)
from .._declaration._delay import label, longest
from .._declaration._kinds import kind_name
from .._declaration._spec import Connection, GraphSpec, Sign
from ._text import printable

Head = Literal["arrow", "bar", "open"]
"""A filled arrow head, a bar across the end, or an arrow head that is an outline."""

_HEADS: dict[Sign | None, Head] = {"excitatory": "arrow", "inhibitory": "bar", None: "open"}


def heads_by_source(spec: GraphSpec) -> dict[str, Head]:
    """How the arrows that leave each population end: by its sign, where any population has one.

    Example:
      >>> from nnx_graph import Population
      >>> signed = Population(name="a", size=1, sign="inhibitory"), Population(name="b", size=1)
      >>> heads_by_source(GraphSpec(signed, ())), heads_by_source(GraphSpec(signed[1:], ()))
      ({'a': 'bar', 'b': 'open'}, {'b': 'arrow'})
    """
    signed = any(population.sign for population in spec.populations)
    return {p.name: _HEADS[p.sign] if signed else "arrow" for p in spec.populations}


def connection_label(connection: Connection, escaped: Callable[[str], str] = printable) -> str:
    """Delay and connectivity, whether weights are frozen, and behind "=" as what they are shared.

    Args:
      connection: to be described; a linear map without delay whose weights are free has "".
      escaped: applied to what users name.

    Example:
      >>> from nnx_graph import OneToOne
      >>> connection_label(
      ...     Connection(src="a", dst="b", delay=2, connectivity=OneToOne(), share="w")
      ... )
      '2, one-to-one, =w'
    """
    parts = [label(connection.delay)] if longest(connection.delay) else []
    if connection.connectivity is not None:
        parts.append(_connectivity_label(connection.connectivity))
    if connection.frozen:
        parts.append("frozen")
    if connection.share is not None:
        parts.append(f"={escaped(connection.share)}")
    return ", ".join(parts)


def _connectivity_label(connectivity: Connectivity) -> str:
    if isinstance(connectivity, FixedProbability):
        return f"p={connectivity.probability:g}"
    if isinstance(connectivity, DistanceDependent):
        return f"distance {connectivity.scale:g}"
    if isinstance(connectivity, BlockSparse):
        return f"{connectivity.blocks} blocks"
    if isinstance(connectivity, LowRank):
        return f"rank {connectivity.rank}"
    return str(kind_name(connectivity))
