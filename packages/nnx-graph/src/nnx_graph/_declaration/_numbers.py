"""Whole numbers, as declarations hold them."""

import operator
from typing import Any

from ._hints import shown


def whole_number(where: str, value: Any, smallest: int, hint: str) -> int:
    """Returns ``value`` as an int; raises unless it is a whole number of at least ``smallest``."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{where}: expected an int, got {shown(value)} of type {type(value).__name__}; {hint}"
        ) from None
    if number < smallest:
        raise ValueError(f"{where}: expected at least {smallest}, got {shown(number)}; {hint}")
    return number
