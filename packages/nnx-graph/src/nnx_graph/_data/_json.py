"""JSON texts of unknown origin, as Python values."""

import json
from typing import Any

from .._declaration._hints import shown

MAX_DIGITS = 1000
"""Digits of a whole number; Python itself refuses more than 4,300."""


def parse_json(where: str, text: str, hint: str) -> Any:
    """Returns what a JSON text says.

    Args:
      where: its place, for errors.
      text: the JSON.
      hint: what to do where it is none.

    Raises:
      ValueError: if it is no JSON, an object has a key twice, a number has too many digits, or
        lists and objects lie too deep within each other.

    Example:
      >>> parse_json("here", '{"a": [1]}', "pass JSON")
      {'a': [1]}
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise ValueError(
                    f"{where}: expected each key of an object once, got {shown(name)} twice, "
                    f"behind {shown(list(found))}; remove one of them"
                )
            found[name] = value
        return found

    def whole(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            raise ValueError(
                f"{where}: expected whole numbers of at most {MAX_DIGITS} digits, got one of "
                f"{len(digits)}; write a smaller number"
            )
        return int(digits)

    try:
        return json.loads(text, object_pairs_hook=unique, parse_int=whole)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{where}: expected JSON, got {shown(text[:40])}: {error}; {hint}"
        ) from error
    except RecursionError:
        raise ValueError(
            f"{where}: expected lists and objects some levels deep, got more levels than Python "
            f"reads; {hint}"
        ) from None
