"""Which connections are multiplied together, and how their blocks lie."""

import itertools
from collections.abc import Sequence
from typing import Any

from .._declaration._spec import Connection
from ._arrangement import Arrangement
from ._batching import batched
from ._packing import Block, Locate
from ._selection import Piece, Selection


class BlockBuilder:
    """Builds the blocks of a graph.

    Args:
      arrangement: where everything lies.

    Attributes:
      blocks: those that were built so far.
    """

    def __init__(self, arrangement: Arrangement):
        self._at = arrangement
        self.blocks: list[Block] = []

    def family(
        self, slots: list[str], inner: bool, in_cycle: Locate | None
    ) -> tuple[tuple[int, ...], Selection | None, tuple[Selection, ...]]:
        """Blocks of the connections into slots of a level from within its unit, or from without.

        Returns:
          Their indices, their sums in the order of the slots, and for each of them the columns of
          the intake in the order of its sums.
        """
        products: dict[Any, list[str]] = {}
        for slot in slots:
            if signature := self._at.signature(slot, inner):
                products.setdefault(signature, []).append(slot)
        if not products:
            return (), None, ()
        shapes = [
            (
                sum(self._at.rows(c) for c in self._at.incoming(destinations[0], inner)),
                sum(self._at.sizes[slot] for slot in destinations),
            )
            for destinations in products.values()
        ]
        indices, found, into = [], {}, []
        for batch in batched(shapes):
            members = [list(products.values())[place] for place in batch]
            block = self._block(members, inner, in_cycle)
            indices.append(len(self.blocks))
            computed: list[Piece] = []
            for product, destinations in enumerate(block.destinations):
                column = product * block.columns
                for slot in destinations:
                    found[slot] = (("block", indices[-1]), column)
                    column += self._at.sizes[slot]
                    computed.append(self._at.in_intake(slot))
                computed.append((None, 0, (product + 1) * block.columns - column))
            into.append(Selection.of(piece for piece in computed if piece[2]))
            self.blocks.append(block)

        def piece(slot: str) -> Piece:
            key, start = found.get(slot, (None, 0))
            return key, start, self._at.sizes[slot]

        return tuple(indices), Selection.of(map(piece, slots)), tuple(into)

    def _block(self, batch: list[list[str]], inner: bool, in_cycle: Locate | None) -> Block:
        sorted_reads = [
            sorted(self._at.incoming(destinations[0], inner), key=self._read_order)
            for destinations in batch
        ]
        heights = [sum(map(self._at.rows, reads)) for reads in sorted_reads]
        rows = heights[0] if len(batch) == 1 else max(heights)
        connections = {}
        for product, (destinations, reads) in enumerate(zip(batch, sorted_reads, strict=True)):
            column = 0
            for slot in destinations:
                row = 0
                own = sorted(self._at.incoming(slot, inner), key=self._read_order)
                for place, connection in enumerate(own):
                    connections[connection.name] = (product, row, place, column)
                    row += self._at.rows(connection)
                column += self._at.sizes[slot]
            assert len(reads) == len(own)
        return Block(
            reads=tuple(tuple((c.name, self._at.rows(c)) for c in reads) for reads in sorted_reads),
            destinations=tuple(map(tuple, batch)),
            rows=rows,
            columns=max(sum(self._at.sizes[slot] for slot in slots) for slots in batch),
            connections=tuple(connections.items()),
            sources=self._selection(sorted_reads, rows, self._at.locate),
            cycle_sources=in_cycle and self._selection(sorted_reads, rows, in_cycle),
            cycle_reads=self._reads_by_delay(sorted_reads, rows) if in_cycle else (),
        )

    def _reads_by_delay(
        self, batch: Sequence[Sequence[Connection]], rows: int
    ) -> tuple[tuple[int, Selection], ...]:
        """For each delay the unit's columns that are read with it, zeros between them.

        It takes time in proportion to the number of taps: trying each tap for each delay took 7 s
        for 36 connections with learnable delays of 1,000 steps.
        """
        found: dict[int, list[tuple[int, int, int]]] = {}  # (place, column, width)
        place = 0
        for number, reads in enumerate(batch):
            place = number * rows
            for connection in reads:
                column = self._at.unit_columns[connection.src]
                for steps, first, count in itertools.chain(*self._at.taps[connection.name]):
                    found.setdefault(steps, []).append((place, column + first, count))
                    place += count
        width = len(batch) * rows
        return tuple((k, _spread(found[k], width)) for k in sorted(found))

    def _read_order(self, connection: Connection) -> tuple[Any, ...]:
        level, column, _ = self._at.places[connection.src]
        own = self._at.taps[connection.name], connection.index
        return connection.shortest_delay, level, column, *own

    def _selection(
        self, batch: Sequence[Sequence[Connection]], rows: int, locate: Locate
    ) -> Selection:
        pieces: list[Piece] = []
        for reads in batch:
            for connection in reads:
                pieces += self._at.pieces(connection, locate)
            filled = sum(map(self._at.rows, reads))
            if filled < rows:
                pieces.append((None, 0, rows - filled))
        return Selection.of(pieces)


def _spread(found: Sequence[tuple[int, int, int]], width: int) -> Selection:
    """Selects columns of a unit, each from a place on, and zeros everywhere else."""
    pieces: list[Piece] = []
    end = 0
    for place, column, count in found:
        if place > end:
            pieces.append((None, 0, place - end))
        pieces.append(("unit", column, count))
        end = place + count
    if end < width:
        pieces.append((None, 0, width - end))
    return Selection.of(pieces)
