"""How a config checks itself: each rule once, each error with field, value, rule and remedy."""

import math
import reprlib
from collections.abc import Collection, Mapping
from typing import Any

LARGEST_FLOAT = (2 - 2**-23) * 2.0**127
"""Largest float32; a larger number is infinite in training."""
SMALLEST_FLOAT = 2.0**-126
"""Smallest normal float32; XLA takes smaller ones as 0."""
LARGEST_WHOLE = 2**53
"""Largest whole number up to which floats, as in schedules and metrics, are exact."""


MOST_SHOWN = 200
"""Characters of a value in a message."""


class _Short(reprlib.Repr):
    """Short forms of values, also of those whose ``repr`` fails."""

    def repr_int(self, x: int, level: int) -> str:
        del level  # Python itself refuses to write more than 4,300 digits
        digits = int(x.bit_length() * math.log10(2))
        return repr(x) if digits < 40 else f"{'-' if x < 0 else ''}about 10**{digits}"

    def repr_instance(self, x: Any, level: int) -> str:
        del level
        try:
            text = repr(x)
        except Exception:  # of whatever kind: it is only for a message
            return f"<{type(x).__name__}>"
        return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."

    repr_float = repr_instance


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = MOST_SHOWN


def shown(value: Any) -> str:
    """Returns the repr of a value for a message, cut where it is long.

    Example:
      >>> shown("text"), shown(10**400)
      ("'text'", 'about 10**400')
    """
    return _SHORT.repr(value)


def whole_number(config: Any, name: str, *, at_least: int, at_most: int | None = None) -> None:
    """Raises unless the field is an int (not a bool) within the bounds."""
    check_whole_number(getattr(config, name), _where(config, name), at_least, at_most)


def check_whole_number(value: Any, where: str, at_least: int, at_most: int | None = None) -> None:
    """Raises unless the value is an int (not a bool) within the bounds; ``where`` names it."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{where}: expected a whole number (a Python int), got {shown(value)}")
    rule = f"of at least {at_least}" + ("" if at_most is None else f" and at most {at_most}")
    if at_most is None and value > LARGEST_WHOLE:
        at_most, rule = LARGEST_WHOLE, f"of at most {LARGEST_WHOLE}"
    nearest = max(at_least, value if at_most is None else min(value, at_most))
    if value != nearest:
        raise ValueError(
            f"{where}: expected a whole number {rule}, got {shown(value)}; "
            f"the nearest legal value is {nearest}"
        )


def number(
    config: Any,
    name: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    optional: bool = False,
) -> None:
    """Raises unless the field is a finite number within the bounds (or None, if optional)."""
    value = getattr(config, name)
    if not (optional and value is None):
        where = _where(config, name)
        check_number(
            value, where, above=above, at_least=at_least, at_most=at_most, optional=optional
        )


def check_number(
    value: Any,
    where: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    optional: bool = False,
) -> None:
    """Raises unless the value is a finite number within the bounds; ``where`` names it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{where}: expected a number (a Python float), got {shown(value)}")
    bounds = {"above": above, "at least": at_least, "at most": at_most}
    rule = " and".join(f" {word} {bound}" for word, bound in bounds.items() if bound is not None)
    remedy = None
    if not abs(value) <= LARGEST_FLOAT:  # NaN included
        remedy = f"give a finite one, of at most {LARGEST_FLOAT:.7g} (float32)"
    elif above == 0 and 0 < value < SMALLEST_FLOAT:
        remedy = f"float32 would make it 0; use one of at least {SMALLEST_FLOAT:.7g}"
    elif above is not None and value <= above:
        remedy = f"use one above {above}"
    elif at_least is not None and value < at_least:
        remedy = f"the nearest legal value is {at_least}"
    elif at_most is not None and value > at_most:
        remedy = f"the nearest legal value is {at_most}"
    if remedy is not None:
        raise ValueError(
            f"{where}: expected a finite number{rule}, got {shown(value)}; {remedy}"
            + (", or None" if optional else "")
        )


def number_or_schedule(
    config: Any, name: str, *, above: float | None = None, at_least: float | None = None
) -> None:
    """Raises unless the field is a schedule (a function), or a number within the bounds."""
    if not callable(getattr(config, name)):
        number(config, name, above=above, at_least=at_least)


def numbers_by_key(config: Any, name: str, *, at_least: float, at_most: float) -> None:
    """Raises unless the field is a number within the bounds, or a dict of them with str keys."""
    value = getattr(config, name)
    if not isinstance(value, Mapping):
        number(config, name, at_least=at_least, at_most=at_most)
        return
    if not value or not all(isinstance(key, str) for key in value):
        raise TypeError(
            f"{_where(config, name)}: expected a number or a dict of numbers by reward key (str), "
            f"got {shown(value)}"
        )
    for key, entry in value.items():
        check_number(entry, f"{_where(config, name)}[{key!r}]", at_least=at_least, at_most=at_most)


def one_of(config: Any, name: str, choices: Collection[str | None]) -> None:
    """Raises unless the field is one of ``choices``."""
    value = getattr(config, name)
    if not (value is None or isinstance(value, str)) or value not in choices:
        raise ValueError(
            f"{_where(config, name)}: expected one of {', '.join(map(repr, choices))}, "
            f"got {shown(value)}"
        )


def instance(config: Any, name: str, kind: type, example: str, *, optional: bool = False) -> None:
    """Raises unless the field is a ``kind``, or None where it is optional; names an example."""
    check_instance(getattr(config, name), _where(config, name), kind, example, optional=optional)


def check_instance(
    value: Any, where: str, kind: type, example: str, *, optional: bool = False
) -> None:
    """Raises unless a value is a ``kind``, or None where it is optional; names an example."""
    if not (isinstance(value, kind) or (optional and value is None)):
        expected = kind.__name__ + (" or None" if optional else "")
        raise TypeError(f"{where}: expected {expected}, such as {example}, got {shown(value)}")


def check_bool(value: Any, where: str) -> None:
    """Raises unless a value is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{where}: expected True or False, got {shown(value)}")


def boolean(config: Any, name: str) -> None:
    """Raises unless the field is True or False."""
    check_bool(getattr(config, name), _where(config, name))


def percentiles(config: Any, name: str) -> None:
    """Raises unless the field is None or a tuple of numbers from 0 to 100."""
    value = getattr(config, name)
    if value is None:
        return
    if not isinstance(value, tuple) or not all(map(_is_number, value)):
        raise TypeError(
            f"{_where(config, name)}: expected None or a tuple of numbers from 0 to 100, "
            f"got {shown(value)}"
        )
    if not all(0 <= entry <= 100 for entry in value):
        raise ValueError(
            f"{_where(config, name)}: expected numbers from 0 to 100, got {shown(value)}; the "
            f"nearest legal value is {tuple(min(max(0, entry), 100) for entry in value)}"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _where(config: Any, name: str) -> str:
    return f"{type(config).__name__}.{name}"
