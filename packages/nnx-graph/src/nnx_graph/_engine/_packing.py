"""Packing: a declared graph as few dense operations on arrays that hold many populations.

Populations are evaluated in *units*: all strongly connected components of one depth, those without
a cycle in one unit and those with one in another. Within a unit they lie side by side in *levels*,
each of which depends through delay-0 connections on the levels before it alone. Connections into a
level are computed in *blocks*. A block has one matrix product for all populations that read the
same; where a level would need many of these, those of equal shape are batched. What arrives at a
level makes up its *intake*: a slot of columns for each population, where everything adds up; of a
population with an aggregation, a slot for each of its connections comes before.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxtyping import Array

from .._declaration._spec import Activation, Connection, Named
from ._plan import Plan
from ._selection import Piece, Selection

Locate = Callable[[str, int], tuple[Any, int]]
"""Where the output of a population of so many steps ago is found: the array's key, first column."""


@dataclasses.dataclass(frozen=True)
class Block:
    """Connections that are computed as one, possibly batched, matrix product.

    Attributes:
      reads: for each of the n products of the batch, its connections' names and numbers of rows in
        the order in which the sources are concatenated; rows are the units of the source, as often
        as the connection has taps.
      destinations: for each product, the slots that its columns belong to, side by side.
      rows: height of each kernel; sources that are narrower are padded with zeros.
      columns: width of each kernel.
      connections: for each connection its product, first row, place among the reads, first column.
      sources: selects what is read from the arrays of one step or sequence, (..., n * rows).
      cycle_sources: the same within the scan of a unit with a cycle; None elsewhere.
      cycle_reads: for each delay of its connections, the unit's columns that are read with it, in
        their place among the sources; of a unit with a cycle.
    """

    reads: tuple[tuple[tuple[str, int], ...], ...]
    destinations: tuple[tuple[str, ...], ...]
    rows: int
    columns: int
    connections: tuple[tuple[str, tuple[int, int, int, int]], ...]
    sources: Selection
    cycle_sources: Selection | None = None
    cycle_reads: tuple[tuple[int, Selection], ...] = ()


@dataclasses.dataclass(frozen=True)
class Response:
    """Populations side by side that turn their sums into outputs in the same way.

    Attributes:
      activation: of one population, or None.
      size: of each population; of all together where the activation treats every number by itself.
      count: number of populations that the activation sees one by one.
      elementwise: whether the activation treats every number by itself, and nothing comes first.
      aggregate: how messages are joined; None where everything adds up.
      messages: number of messages that are joined, for each population.
      population: name of the population, where it has modules of its own.
      has_compute: whether one of them comes before the activation.
    """

    activation: Activation | None
    size: int
    count: int
    elementwise: bool = False
    aggregate: Named | None = None
    messages: int = 0
    population: str | None = None
    has_compute: bool = False

    @property
    def width(self) -> int:
        """Number of columns of the outputs."""
        return self.size * self.count

    @property
    def intake(self) -> int:
        """Number of columns of what is responded to: for each population messages, and the rest."""
        return self.width * (self.messages + 1)


@dataclasses.dataclass(frozen=True)
class Transfer:
    """Connections from equal sizes to equal sizes with one module, which is called once.

    Attributes:
      name: of the first connection; the module goes by it.
      connections: whose messages the module computes side by side.
      columns: for each connection, the first column of its slot in the intake of the level.
      taps: number of taps of each.
      sources: selects what they read from the arrays of one step or sequence, tap by tap.
      cycle_sources: the same within the scan of a unit with a cycle; None elsewhere.
    """

    name: str
    connections: tuple[Connection, ...]
    columns: tuple[int, ...]
    taps: tuple[int, ...]
    sources: Selection
    cycle_sources: Selection | None


@dataclasses.dataclass(frozen=True)
class Level:
    """Populations side by side that are evaluated together.

    Attributes:
      index: number of the level in the graph.
      start: its first column among those of its unit.
      width: number of columns.
      intake_start: the first column of its intake among those of its unit.
      intake: number of columns of its intake.
      shown: so many columns come first that the rest of the graph, or its user, reads.
      entering: the columns of the intake that anything reaches from outside of the unit.
      entering_start: the first of them among those of the unit.
      responses: from intake to outputs, from the first column to the last.
      blocks: indices of the blocks that enter from other units, or from any in a unit without a
        cycle.
      inner_blocks: indices of those from within the unit.
      from_blocks: selects the sums of ``blocks``; None if there are none.
      from_inner_blocks: selects the sums of ``inner_blocks``.
      into_inner_blocks: for each of ``inner_blocks``, the columns of the intake that it computes.
      transfers: connections from other units, or any in a unit without a cycle, with a module.
      inner_transfers: those from within the unit.
    """

    index: int
    start: int
    width: int
    intake_start: int
    intake: int
    shown: int
    entering: Selection
    entering_start: int
    responses: tuple[Response, ...]
    blocks: tuple[int, ...]
    inner_blocks: tuple[int, ...]
    from_blocks: Selection | None
    from_inner_blocks: Selection | None
    into_inner_blocks: tuple[Selection, ...]
    transfers: tuple[Transfer, ...]
    inner_transfers: tuple[Transfer, ...]

    @property
    def parts(self) -> tuple[Selection, Selection]:
        """The columns of the unit that are shown, and the others of the level."""
        others = self.width - self.shown
        return (
            Selection((("unit", self.start, self.shown),)),
            Selection((("unit", self.start + self.shown, others),)),
        )

    def parted(self, outputs: Array) -> tuple[Array, Array]:
        """Outputs of the level, (*lead, width), as those that are shown and the others."""
        if self.shown == self.width:
            return outputs, outputs[..., :0]
        return outputs[..., : self.shown], outputs[..., self.shown :]


@dataclasses.dataclass(frozen=True)
class Ring:
    """A ring buffer that several populations of one level share.

    Attributes:
      length: steps that it goes back, the longest outgoing delay of each of these populations.
      remembered: selects their outputs.
    """

    length: int
    remembered: Selection


@dataclasses.dataclass(frozen=True)
class Unit:
    """Levels that are evaluated one after the other, at each step or for a whole sequence.

    Attributes:
      levels: in the order of evaluation.
      cyclic: whether outputs come back, so that a sequence has to be scanned.
      width: number of columns of all levels.
      modules: names of the custom modules that take part in the cycle, by kind.
      backs: for each delay within the unit, the columns of the unit that are read with it.
      in_rings: selects the unit's columns from ring buffers, by the names of these; zeros for
        those that none holds.
    """

    levels: tuple[Level, ...]
    cyclic: bool
    width: int
    modules: tuple[tuple[str, tuple[str, ...]], ...]
    backs: tuple[tuple[int, Selection], ...]
    in_rings: Selection

    @property
    def longest_delay(self) -> int:
        """The longest delay within the unit, in steps; 0 without a cycle."""
        return max((delay for delay, _ in self.backs), default=0)


@dataclasses.dataclass(frozen=True)
class Packing:
    """A graph as units, blocks and ring buffers; follows from its declaration.

    Attributes:
      plan: the lowered declaration.
      units: in the order of evaluation.
      blocks: all of them.
      places: where the output of each population is found, once its unit was evaluated: in the
        array ``("level", i)``, or in ``("hidden", i)`` if only the unit with a cycle reads it.
      rings: the ring buffers, by name.
      drives: selects what enters each level from outside, by level; for the input populations.
      arrivals: where what arrives over a connection, or at a population from outside, is added: by
        name the level, and the first column in its intake.
      read: selects what a connection reads, outside the scan of a cycle.
    """

    plan: Plan
    units: tuple[Unit, ...] = dataclasses.field(compare=False, repr=False)
    blocks: tuple[Block, ...] = dataclasses.field(compare=False, repr=False)
    places: Mapping[str, Piece] = dataclasses.field(compare=False, repr=False)
    rings: Mapping[str, Ring] = dataclasses.field(compare=False, repr=False)
    drives: Mapping[int, Selection] = dataclasses.field(compare=False, repr=False)
    arrivals: Mapping[str, tuple[int, int]] = dataclasses.field(compare=False, repr=False)
    read: Callable[[Connection], Selection] = dataclasses.field(compare=False, repr=False)

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """All of them."""
        levels = [level for unit in self.units for level in unit.levels]
        return tuple(t for level in levels for t in (*level.transfers, *level.inner_transfers))
