"""Names as they are shown: on one line, whatever characters they have."""

from collections.abc import Callable
from typing import Any

from .._declaration._spec import Named, Population, Unnamed


def printable(text: str) -> str:
    r"""Writes out what would break a line or not be seen.

    Example:
      >>> print(printable("left\nhand é"))
      left\nhand é
    """
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def function_name(function: Callable[..., Any]) -> str:
    """The name of a function, or of the class of another callable.

    Example:
      >>> function_name(abs)
      'abs'
    """
    inner = getattr(function, "func", function)  # of functools.partial
    return getattr(inner, "__name__", type(inner).__name__)


def module_name(module: Named | Unnamed | None) -> str | None:
    """The name of a registered module, or the class of another one; None for None.

    Example:
      >>> module_name(Named("lru", r_max=0.9)), module_name(Unnamed("GRU"))
      ('lru', 'GRU')
    """
    if module is None:
        return None
    return module.class_name if isinstance(module, Unnamed) else module.name


def population_label(population: Population, escaped: Callable[[str], str] = printable) -> str:
    """Name and size, and the aggregation where it is not the sum.

    Args:
      population: to be described.
      escaped: applied to what users name.

    Example:
      >>> population_label(Population(name="hand", size=4, aggregate=Named("max")))
      'hand (4, max)'
    """
    aggregate = module_name(population.aggregate)
    beside = "" if aggregate is None else f", {escaped(aggregate)}"
    return f"{escaped(population.name)} ({population.size}{beside})"


def role_of(population: Population) -> str:
    """``input``, ``output`` or ``internal``.

    Example:
      >>> role_of(Population(name="hand", size=4, input_from="touch"))
      'input'
    """
    if population.input_from is not None:
        return "input"
    return "internal" if population.output_to is None else "output"
