"""Mistakes of the user: told in one line, without a traceback."""

import contextlib
from collections.abc import Iterator


class UsageError(Exception):
    """Something that the user can put right; its message says how."""


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Context in which what validation raises counts as the user's mistake."""
    try:
        yield
    except (FileNotFoundError, TypeError, ValueError) as error:
        raise UsageError(" ".join(str(error).split())) from error
