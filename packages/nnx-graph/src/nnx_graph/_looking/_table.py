"""Tables as plain lines of text, and for rich, which only the method that needs it imports."""

import dataclasses
import unicodedata
from typing import Any

from ._text import printable

Cell = str | int | None
"""None is left empty."""


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows under titles; columns without any entry are not shown, numbers are flush right.

    Attributes:
      titles: of the columns.
      rows: cells in the order of the titles.

    Example:
      >>> print(
      ...     *Table(("name", "note", "size"), (("a", None, 12000), ("bcd", None, 7))).lines(),
      ...     sep="|",
      ... )
      name    size|a     12,000|bcd        7
    """

    titles: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def lines(self) -> list[str]:
        """One line for the titles and one for each row, aligned for a font of fixed width."""
        columns = []
        for title, cells, numeric in self._columns():
            width = max(map(_width, (title, *cells)))
            columns.append([_padded(cell, width, numeric) for cell in (title, *cells)])
        return ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]

    def for_rich(self) -> Any:
        """The same as a ``rich.table.Table``."""
        from rich import box
        from rich import table as rich_table
        from rich.text import Text

        columns = self._columns()
        table = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for title, _, numeric in columns:
            table.add_column(
                title, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold"
            )
        for row in zip(*(cells for _, cells, _ in columns), strict=True):
            table.add_row(*map(Text, row))  # names are no markup
        return table

    def _columns(self) -> list[tuple[str, list[str], bool]]:
        """Title, cells as text and whether they are numbers, of each column with an entry."""
        columns = []
        for place, title in enumerate(self.titles):
            cells = [row[place] for row in self.rows]
            numeric = not any(isinstance(cell, str) for cell in cells)
            if any(cell is not None for cell in cells) or place == 0:
                columns.append((title, list(map(_text, cells)), numeric and place > 0))
        return columns


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:,}" if isinstance(cell, int) else printable(cell)


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def _width(text: str) -> int:
    """Columns of a terminal: two for wide East Asian characters, none for combining ones."""
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )
