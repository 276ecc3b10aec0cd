"""What error messages say of a value, and of names that are not known."""

import difflib
import reprlib
from collections.abc import Collection
from typing import Any

_LONGEST = 200
"""Characters of a value in a message."""
_MOST_NAMES = 20
"""Names in a message."""
_DIGITS = 40


class _Short(reprlib.Repr):
    """Short forms of values, also of those whose ``repr`` is long, deep or fails."""

    def repr_int(self, x: int, level: int) -> str:  # Python's own refuses more than 4,300 digits
        del level
        if abs(x) < 10**_DIGITS:
            return repr(x)
        return f"{'-' if x < 0 else ''}about 10**{int(x.bit_length() * 0.30103)}"

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, int) and not isinstance(x, bool) and type(x).__repr__ is int.__repr__:
            return self.repr_int(x, level)
        if isinstance(x, str | bytes | bytearray | list | tuple | dict | set | frozenset):
            return super().repr1(x, level)
        try:
            text = repr(x)
        except Exception:  # of whatever kind: it is only for a message
            return f"<{type(x).__name__}>"
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = _LONGEST
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = 8


def shown(value: Any) -> str:
    """Returns the repr of a value, cut where it is long, for a message.

    Example:
      >>> shown([1, "a"]), shown(-(10**5000))
      ("[1, 'a']", '-about 10**5000')
    """
    return _SHORT.repr(value)


def shown_as_str(value: Any) -> str:
    """Returns what a value would be as a str, quoted, for a message."""
    try:
        return shown(str(value))
    except ValueError:  # an int of more than 4,300 digits
        return shown(shown(value))


def near_names(name: Any, known: Collection[str]) -> str:
    """Returns a question that names the nearest ones, or "" if none is near.

    Example:
      >>> near_names("tahn", ["relu", "tanh"])
      "did you mean 'tanh'?"
    """
    if not isinstance(name, str):
        name = shown(name)
    near = difflib.get_close_matches(name[:_LONGEST], known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""


def which_name(name: Any, known: Collection[str]) -> str:
    """Returns the nearest names as a question, or else a list of all of them.

    Example:
      >>> which_name("cosine", ["relu", "tanh"])
      "there are 'relu', 'tanh'"
      >>> which_name("cosine", [])
      'there are none'
    """
    near = near_names(name, known)
    if near or not known:
        return near or "there are none"
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return f"there are {', '.join(map(repr, list(known)[:_MOST_NAMES]))}{more}"
