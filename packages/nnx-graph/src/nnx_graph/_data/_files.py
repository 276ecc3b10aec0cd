"""Files of unknown origin: read up to a limit, and checked before a library parses them."""

import bz2
import gzip
import os
import zlib
from typing import Any, NoReturn
from xml.parsers import expat

from .._declaration._hints import shown
from .._declaration._limits import Limits

_OPEN: dict[str, Any] = {".gz": gzip.open, ".gzip": gzip.open, ".bz2": bz2.open}
_MAX_DEPTH = 100
"""Elements within each other; a graph has five."""


def read_file(owner: str, path: Any, limits: Limits) -> bytes:
    """Returns what a file holds, decompressed; reads no more than the limit.

    Args:
      owner: the function that reads, for errors.
      path: of the file.
      limits: of which ``max_file_bytes`` counts.

    Raises:
      TypeError: if it is no path.
      OSError: if there is no such file, or it cannot be read.
      ValueError: if it is longer, or not what its ending says.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"{owner}: expected the path of a file, got {shown(path)} of type "
            f"{type(path).__name__}; pass a str or a pathlib.Path"
        )
    name = os.fspath(path)
    if "\0" in name:
        raise ValueError(
            f"{owner}: expected the path of a file, got {shown(name)} with a character that no "
            "path has; correct it"
        )
    opened = _OPEN.get(os.path.splitext(name)[1], open)
    try:
        with opened(name, "rb") as file:
            content = file.read(limits.max_file_bytes + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        _not_compressed(owner, name, error)
    except OSError as error:
        if error.errno is None:  # what bz2 raises for other data
            _not_compressed(owner, name, error)
        raise
    limits.check(f"{owner}: {shown(name)}", "max_file_bytes", len(content), " or more")
    return content


def _not_compressed(owner: str, name: str, error: Exception) -> NoReturn:
    raise ValueError(
        f"{owner}: expected a whole compressed file, as its ending says, got {shown(name)}: "
        f"{error}; rename it, or copy it anew"
    ) from error


def check_graphml(owner: str, content: bytes, limits: Limits) -> None:
    """Raises unless a file is well-formed XML that a library can parse without harm.

    Args:
      owner: the function that reads, for errors.
      content: of the file.
      limits: of the numbers of populations and connections.

    Raises:
      ValueError: if it is no XML, declares entities, whose text can grow without end, has elements
        too deep within each other, an id twice, an edge without its nodes, or too many of
        these.
    """
    parser = expat.ParserCreate()
    check = _Elements(owner, limits)
    parser.StartElementHandler = check.start
    parser.EndElementHandler = check.end
    parser.EntityDeclHandler = check.entity
    try:
        parser.Parse(content, True)
        check.check_ends()
    except expat.ExpatError as error:
        raise ValueError(
            f"{owner}: expected GraphML, got {shown(content[:40])}: {error}; export the graph anew"
        ) from error
    except (LookupError, UnicodeError) as error:  # of the encoding that the file names
        raise ValueError(
            f"{owner}: expected GraphML in an encoding that XML has, got {shown(content[:60])}: "
            f"{error}; save it as UTF-8"
        ) from error


class _Elements:
    """Counts elements, and looks for ids that are there twice."""

    def __init__(self, owner: str, limits: Limits):
        self._owner = owner
        self._limits = limits
        self._depth = 0
        self._seen: dict[str, set[str]] = {"node": set(), "edge": set(), "key": set()}
        self._counts = {"node": 0, "edge": 0}
        self._data: list[set[str]] = []  # keys of the data of each open element
        self._ends: dict[str, str] = {}  # of edges: what the first with such an end says of it

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError(
                f"{self._owner}: expected at most {_MAX_DEPTH} elements within each other, got "
                "more; GraphML has five"
            )
        kind = name.rpartition(":")[2]
        if kind == "data" and self._data:
            self._once("the data of an element", attributes.get("key"), self._data[-1])
        if kind in self._seen:
            self._once(f"a {kind}", attributes.get("id"), self._seen[kind])
        if kind == "edge":
            self._note_ends(attributes)
        if kind in self._counts:
            self._counts[kind] += 1
            limit = "max_populations" if kind == "node" else "max_connections"
            self._limits.check(self._owner, limit, self._counts[kind], " or more")
        self._data.append(set())

    def end(self, name: str) -> None:
        del name
        self._depth -= 1
        self._data.pop()

    def check_ends(self) -> None:
        """Raises ValueError unless edges begin and end at nodes of the file."""
        for end, what in self._ends.items():
            if end not in self._seen["node"]:
                raise ValueError(
                    f"{self._owner}: expected the id of a node as {what}, got {shown(end)}; add "
                    "the node, or remove the edge"
                )

    def _note_ends(self, attributes: dict[str, str]) -> None:
        for what in ("source", "target"):
            if what not in attributes:
                raise ValueError(
                    f"{self._owner}: expected edges with a source and a target, got one with "
                    f"{shown(sorted(attributes))}; add the {what}"
                )
            self._ends.setdefault(attributes[what], f"{what} of an edge")

    def entity(self, name: str, *_: Any) -> None:
        raise ValueError(
            f"{self._owner}: expected GraphML without entities of its own, got {shown(name)}, "
            "whose text may grow without end; write the text itself"
        )

    def _once(self, what: str, identifier: str | None, seen: set[str]) -> None:
        if identifier is None:
            return
        if identifier in seen:
            raise ValueError(
                f"{self._owner}: expected {what} once for each id or key, got "
                f"{shown(identifier)} twice; remove one of them"
            )
        seen.add(identifier)
