"""How a config checks itself: each rule once, each error with field, value, rule and remedy."""

import math
from collections.abc import Collection
from typing import Any


def whole_number(config: Any, name: str, *, at_least: int) -> None:
    """Raises unless the field is an int (not a bool) of at least ``at_least``."""
    value = getattr(config, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{_where(config, name)}: expected a whole number, got {value!r}")
    if value < at_least:
        raise ValueError(
            f"{_where(config, name)}: expected a whole number of at least {at_least}, "
            f"got {value}; the nearest legal value is {at_least}"
        )


def number(
    config: Any,
    name: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> None:
    """Raises unless the field is a finite number within the bounds that are given."""
    value = getattr(config, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{_where(config, name)}: expected a number, got {value!r}")
    bounds = [
        *([f"above {above}"] if above is not None else []),
        *([f"at least {at_least}"] if at_least is not None else []),
        *([f"at most {at_most}"] if at_most is not None else []),
    ]
    rule = " and ".join(bounds)
    if not math.isfinite(value):
        raise ValueError(f"{_where(config, name)}: expected a finite number {rule}, got {value}")
    low = at_least if at_least is not None else above
    if (above is not None and value <= above) or (at_least is not None and value < at_least):
        nearest = f"the nearest legal value is {low}" if above is None else f"use one above {low}"
        raise ValueError(f"{_where(config, name)}: expected a number {rule}, got {value}; {nearest}")
    if at_most is not None and value > at_most:
        raise ValueError(
            f"{_where(config, name)}: expected a number {rule}, got {value}; "
            f"the nearest legal value is {at_most}"
        )


def one_of(config: Any, name: str, choices: Collection[str]) -> None:
    """Raises unless the field is one of ``choices``."""
    value = getattr(config, name)
    if value not in choices:
        raise ValueError(
            f"{_where(config, name)}: expected one of {', '.join(map(repr, choices))}, "
            f"got {value!r}"
        )


def percentiles(config: Any, name: str) -> None:
    """Raises unless the field is None or a tuple of numbers from 0 to 100."""
    value = getattr(config, name)
    if value is None:
        return
    if not isinstance(value, tuple) or not all(
        isinstance(entry, int | float) and 0 <= entry <= 100 for entry in value
    ):
        raise ValueError(
            f"{_where(config, name)}: expected None or a tuple of numbers from 0 to 100, "
            f"got {value!r}"
        )


def _where(config: Any, name: str) -> str:
    return f"{type(config).__name__}.{name}"
