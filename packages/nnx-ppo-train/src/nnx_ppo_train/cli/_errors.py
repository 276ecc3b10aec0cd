"""Mistakes of the user: told in one line, without a traceback."""

import contextlib
import sys
from collections.abc import Iterator


class UsageError(Exception):
    """Something that the user can put right; its message says how."""


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Context in which what validation raises counts as the user's mistake."""
    try:
        yield
    except (OSError, OverflowError, TypeError, ValueError) as error:
        raise UsageError(one_line(error)) from error


def one_line(error: BaseException) -> str:
    """The message of an error on one line; its kind where it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def reason(error: OSError) -> str:
    """The system's word for an error, such as "No space left on device"."""
    return error.strerror or one_line(error)


def complain(text: str) -> None:
    """Prints a line to stderr, as far as there is one."""
    with contextlib.suppress(OSError, ValueError):
        print(f"nnx-ppo: {text}", file=sys.stderr, flush=True)
