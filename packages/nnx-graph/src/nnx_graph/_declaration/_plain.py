"""Plain data: what attributes and options may hold, so that they can be hashed and written down."""

import math
from typing import Any

from ._hints import shown, shown_as_str

Plain = None | bool | int | float | str | tuple[Any, ...]
"""None, a bool, an int, a finite float, a str, or a tuple of these."""

MAX_DEPTH = 100
"""Tuples within tuples that plain data may have."""

Items = tuple[tuple[str, Plain], ...]
"""Names and values, in order; the hashable form of a dict of plain data."""


def plain(value: Any, where: str, depth: int = 0) -> Plain:
    """Returns a value as plain data; lists and arrays become tuples, NumPy scalars Python's.

    Args:
      value: what was given.
      where: its place, for the error.
      depth: number of tuples that it is within.

    Raises:
      TypeError: if it has parts of another kind.
      ValueError: if it has a float that is not finite, or tuples within more than a hundred.

    Example:
      >>> import numpy as np
      >>> plain([np.float32(0.5), "x", (True, None)], "position")
      (0.5, 'x', (True, None))
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        if depth == MAX_DEPTH:
            raise ValueError(
                f"{where[:200]}...: expected lists that are at most {MAX_DEPTH} deep, got a deeper "
                "one; make it flat"
            )
        return tuple(
            plain(part, f"{where}[{place}]", depth + 1) for place, part in enumerate(value)
        )
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(
                f"{where}: expected a finite number, got {shown(value)}; leave it out, or use None"
            )
        return float(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)  # of an enum's member too, its value
    raise TypeError(
        f"{where}: expected None, a bool, int, float or str, or a tuple of these, got "
        f"{shown(value)} of type {type(value).__name__}; convert it, or leave it out"
    )


def plain_items(items: Any, where: str) -> Items:
    """Returns names and values, given as a dict or as pairs, as plain data.

    Raises:
      TypeError: if it is neither, a name is no str, or a value no plain data.
      ValueError: if a name is there twice, or a float not finite.

    Example:
      >>> plain_items({"region": "V1", "layers": [2, 3]}, "attributes")
      (('region', 'V1'), ('layers', (2, 3)))
    """
    pairs = tuple(items.items()) if isinstance(items, dict) else items
    paired = isinstance(pairs, tuple | list) and all(
        isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs
    )
    if not paired:
        raise TypeError(
            f"{where}: expected a dict, got {shown(items)} of type {type(items).__name__}; give "
            "values by name"
        )
    found: dict[str, Plain] = {}
    for name, value in pairs:
        if not isinstance(name, str):
            raise TypeError(
                f"{where}: expected names of type str, got {shown(name)} of type "
                f"{type(name).__name__}; use {shown_as_str(name)}"
            )
        if name in found:
            raise ValueError(
                f"{where}: expected each name once, got {shown(name)} twice; remove one of them"
            )
        found[name] = plain(value, f"{where}[{shown(name)}]")
    return tuple(found.items())
