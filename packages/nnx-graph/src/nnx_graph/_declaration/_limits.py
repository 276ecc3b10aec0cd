"""Limits of what a declaration may ask for, so that a small one cannot take all memory or time."""

import dataclasses
import math
from typing import Any

from ._delay import LearnableDelay, is_weighted, longest
from ._hints import shown
from ._numbers import whole_number
from ._spec import Connection, GraphSpec

_WHAT = {
    "max_populations": "populations",
    "max_units": "units in all populations together",
    "max_connections": "connections",
    "max_delay": "steps of delay",
    "max_taps": "steps in the range of a learnable delay",
    "max_parameters": "parameters",
    "max_buffer_bytes": "bytes of ring buffers for each batch row",
    "max_file_bytes": "bytes",
}
_BYTES = 4
"""Of a number in a ring buffer, float32."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a graph and of the text or file that describes one.

    A few characters can ask for terabytes: a size of 10**12, a delay of 10**9, a compressed file
    that expands without end. What exceeds a limit is refused before any memory is taken, with an
    error that names the limit. The defaults are far above graphs that train on one machine; raise
    one where a larger graph is meant.

    Attributes:
      max_populations: number of populations.
      max_units: units of all populations together.
      max_connections: number of connections.
      max_delay: longest delay of any connection, in steps.
      max_taps: steps in the range of one learnable delay, each of which costs a product.
      max_parameters: weights and biases of the connections, those of every step that a connection
        reads, and parameters of modules that are made by name. Building takes about 50 bytes each.
      max_buffer_bytes: memory of the ring buffers for one row of the batch, in bytes.
      max_file_bytes: length of a file after it is decompressed, in bytes, or of a JSON text, in
        characters.

    Raises:
      TypeError: if a limit is not an int.
      ValueError: if a limit is below 1.

    Example:
      >>> from flax import nnx
      >>> from nnx_graph import PopulationGraph
      >>> graph = PopulationGraph(nnx.Rngs(0), limits=Limits(max_delay=10**6))
      >>> graph.add_output("slow", 1)
      >>> graph.connect("slow", "slow", delay=200_000)
      >>> graph.finalize()
    """

    max_populations: int = 10_000
    max_units: int = 1_000_000
    max_connections: int = 100_000
    max_delay: int = 100_000
    max_taps: int = 1_000
    max_parameters: int = 50_000_000
    max_buffer_bytes: int = 1 << 24
    max_file_bytes: int = 1 << 26

    def __post_init__(self):
        for field in dataclasses.fields(self):
            where, given = f"Limits: {field.name}", getattr(self, field.name)
            value = whole_number(where, given, 1, "give the largest number that is accepted")
            object.__setattr__(self, field.name, value)

    def check(self, where: str, name: str, value: int, note: str = "") -> None:
        """Raises ValueError if a value exceeds the limit of the name.

        Args:
          where: what is checked, for the error.
          name: of the limit.
          value: what is asked for.
          note: more about it, for the error.
        """
        limit = getattr(self, name)
        if value > limit:
            raise ValueError(
                f"{where}: expected at most {limit} {_WHAT[name]}, got {shown(value)}{note}; if "
                f"that is meant, raise the limit with limits=Limits({name}=...)"
            )


def checked_limits(owner: str, limits: Any) -> Limits:
    """Returns limits, the default ones for None; raises TypeError for anything else."""
    if limits is None:
        return Limits()
    if not isinstance(limits, Limits):
        raise TypeError(
            f"{owner}: limits: expected a Limits record or None, got {shown(limits)} of type "
            f"{type(limits).__name__}; pass for example Limits(max_delay=10**6)"
        )
    return limits


def check_delay_limits(where: str, delay: Any, limits: Limits) -> None:
    """Raises ValueError if a valid delay reaches back too far, or reads too many steps."""
    limits.check(where, "max_delay", longest(delay))
    if isinstance(delay, LearnableDelay):
        limits.check(where, "max_taps", taps_of(delay))


def check_limits(owner: str, spec: GraphSpec, limits: Limits) -> int:
    """Raises ValueError if a valid declaration exceeds a limit; returns its number of parameters.

    Args:
      owner: the function that checks, for errors.
      spec: the declaration.
      limits: those that hold.
    """
    limits.check(owner, "max_populations", len(spec.populations))
    limits.check(owner, "max_connections", len(spec.connections))
    units = 0
    for population in spec.populations:
        units += population.size
        limits.check(f"{owner}: size of {shown(population.name)}", "max_units", units)
    for connection in spec.connections:
        where = f"{owner}: delay of {shown(connection.name)}"
        check_delay_limits(where, connection.delay, limits)
    sizes = {population.name: population.size for population in spec.populations}
    counts = {c.name: _parameters(c, sizes) for c in spec.connections}
    largest = max(counts, key=counts.__getitem__, default="")
    note = f", of which {counts[largest]} for {shown(largest)}" if largest else ""
    limits.check(f"{owner}: connections", "max_parameters", sum(counts.values()), note)
    _check_buffers(owner, spec, sizes, limits)
    return sum(counts.values())


def _check_buffers(owner: str, spec: GraphSpec, sizes: dict[str, int], limits: Limits) -> None:
    numbers: dict[str, int] = {}
    for c in spec.connections:
        numbers[c.src] = max(numbers.get(c.src, 0), longest(c.delay) * sizes[c.src])
    largest = max(numbers, key=numbers.__getitem__, default="")
    note = f", of which {_BYTES * numbers[largest]} for {shown(largest)}" if largest else ""
    limits.check(f"{owner}: delays", "max_buffer_bytes", _BYTES * sum(numbers.values()), note)


def taps_of(delay: Any) -> int:
    """The number of steps that a connection with this delay reads.

    Example:
      >>> taps_of(3), taps_of(2.5), taps_of(LearnableDelay(1, 8))
      (1, 2, 8)
    """
    if isinstance(delay, LearnableDelay):
        return delay.maximum - delay.minimum + 1
    return 2 if is_weighted(delay) else 1


def _parameters(connection: Connection, sizes: dict[str, int]) -> int:
    """Weights and biases of a linear connection, those of each tap; 0 of one with a module."""
    if connection.has_transform:
        return 0
    height, width = sizes[connection.src], sizes[connection.dst]
    return math.prod((taps_of(connection.delay), height, width)) + width
