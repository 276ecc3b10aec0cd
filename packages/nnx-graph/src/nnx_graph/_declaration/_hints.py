"""What to say where a name is not among those that there are."""

import difflib
from collections.abc import Collection


def near_names(name: str, known: Collection[str]) -> str:
    """Returns a question that names the nearest ones, or "" if none is near.

    Example:
      >>> near_names("tahn", ["relu", "tanh"])
      "did you mean 'tanh'?"
    """
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""


def which_name(name: str, known: Collection[str]) -> str:
    """Returns the nearest names as a question, or else a list of all of them.

    Example:
      >>> which_name("cosine", ["relu", "tanh"])
      "there are 'relu', 'tanh'"
      >>> which_name("cosine", [])
      'there are none'
    """
    return near_names(name, known) or f"there are {', '.join(map(repr, known)) or 'none'}"
