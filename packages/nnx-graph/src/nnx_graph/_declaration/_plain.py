"""Plain data: what attributes and options may hold, so that they can be hashed and written down."""

import math
from typing import Any

Plain = None | bool | int | float | str | tuple[Any, ...]
"""None, a bool, an int, a finite float, a str, or a tuple of these."""

Items = tuple[tuple[str, Plain], ...]
"""Names and values, in order; the hashable form of a dict of plain data."""


def plain(value: Any, where: str) -> Plain:
    """Returns a value as plain data; lists and arrays become tuples, NumPy scalars Python's.

    Args:
      value: what was given.
      where: its place, for the error.

    Raises:
      TypeError: if it has parts of another kind.
      ValueError: if it has a float that is not finite.

    Example:
      >>> import numpy as np
      >>> plain([np.float32(0.5), "x", (True, None)], "position")
      (0.5, 'x', (True, None))
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(plain(part, f"{where}[{place}]") for place, part in enumerate(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(
                f"{where}: expected a finite number, got {value!r}; leave it out, or use None"
            )
        return float(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)  # of an enum's member too, its value
    raise TypeError(
        f"{where}: expected None, a bool, int, float or str, or a tuple of these, got {value!r} of "
        f"type {type(value).__name__}; convert it, or leave it out"
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
            f"{where}: expected a dict, got {items!r} of type {type(items).__name__}; give values "
            "by name"
        )
    found: dict[str, Plain] = {}
    for name, value in pairs:
        if not isinstance(name, str):
            raise TypeError(
                f"{where}: expected names of type str, got {name!r} of type "
                f"{type(name).__name__}; use {str(name)!r}"
            )
        if name in found:
            raise ValueError(
                f"{where}: expected each name once, got {name!r} twice; remove one of them"
            )
        found[name] = plain(value, f"{where}[{name!r}]")
    return tuple(found.items())
