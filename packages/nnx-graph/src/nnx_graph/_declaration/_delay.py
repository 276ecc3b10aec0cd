"""Delays: how many steps lie between leaving a population and arriving at another.

A connection carries weighted outputs of one or several steps, its *taps*. A delay of whole steps
is one tap of weight 1. Between two steps lie two taps, whose weights interpolate. A learnable delay
has a tap for every step of its range, so that its weights are all that training changes.
"""

import dataclasses
import math
from typing import Any

from ._hints import shown
from ._numbers import whole_number

Run = tuple[int, int, int]
"""(steps, first unit, number of units): units side by side that are read with one delay."""

_HINT = "a delay counts steps; 0 reads the output of the same step"


@dataclasses.dataclass(frozen=True)
class LearnableDelay:
    """A delay that training changes, between two bounds that it never leaves.

    It is ``minimum + (maximum - minimum) * sigmoid(parameter)``. The output of k steps ago counts
    with the weight ``max(0, 1 - |delay - k| / spread)``, divided by the sum over all k from the
    minimum to the maximum. With a spread of 1 that interpolates between the two nearest steps, and
    the gradient compares those alone. A wider spread looks further: begin with one about as wide as
    the range, and narrow it to 1 while training (Hammouamri et al. 2023, "Learning Delays in
    Spiking Neural Networks using Dilated Convolutions with Learnable Spacings", do so with a
    Gaussian). Every step of the range costs a product as wide as the source.

    Args:
      minimum: steps, at least 0; with 0 the destination waits for the source within a step.
      maximum: steps, more than the minimum.
      initial: where training begins, at least a hundredth of a step within the bounds; None for the
        middle.
      per_unit: whether each unit of the source has a delay of its own.
      spread: in steps, at least 1; the connection's view changes it, and what is less acts as 1.

    Raises:
      TypeError: if a bound is no int, ``per_unit`` no bool, or another value no number.
      ValueError: if a value is out of its range.

    Example:
      >>> LearnableDelay(1, 8)
      LearnableDelay(minimum=1, maximum=8, initial=None, per_unit=False, spread=1.0)
    """

    minimum: int
    maximum: int
    initial: float | None = None
    per_unit: bool = False
    spread: float = 1.0

    def __post_init__(self):
        minimum = whole_number("LearnableDelay: minimum", self.minimum, 0, _HINT)
        hint = "the maximum is a step beyond the minimum, or more"
        maximum = whole_number("LearnableDelay: maximum", self.maximum, minimum + 1, hint)
        if not isinstance(self.per_unit, bool):
            raise TypeError(
                f"LearnableDelay: per_unit: expected True or False, got {shown(self.per_unit)}"
            )
        initial = self.initial
        if initial is not None:
            initial = real_number("LearnableDelay: initial", initial)
            if not minimum <= initial <= maximum:
                raise ValueError(
                    f"LearnableDelay: initial: expected a delay from {minimum} to {maximum}, got "
                    f"{initial}; widen the range, or begin within it"
                )
        spread = real_number("LearnableDelay: spread", self.spread)
        if spread < 1:
            raise ValueError(
                f"LearnableDelay: spread: expected at least 1 step, got {spread}; 1 interpolates "
                "between the two nearest steps"
            )
        own = minimum, maximum, initial, self.per_unit, spread
        for field, value in zip(dataclasses.fields(self), own, strict=True):
            object.__setattr__(self, field.name, value)


Delay = int | float | tuple[float, ...] | LearnableDelay
"""Steps, fractions of steps included: of all units of the source, or of each; or learnable."""


def plain_delay(delay: Any) -> Any:
    """A delay as a Connection has it: whole numbers as ints, lists and arrays as tuples.

    What is none is returned as it is.

    Example:
      >>> plain_delay(2.0), plain_delay([1, 2.5])
      (2, (1, 2.5))
    """
    if hasattr(delay, "tolist"):
        delay = delay.tolist()
    if isinstance(delay, list | tuple):
        return tuple(map(_plain_number, delay))
    return _plain_number(delay)


def checked_delay(where: str, delay: Any) -> Delay:
    """Returns a delay in the form that a Connection has; raises unless it is one."""
    delay = plain_delay(delay)
    if isinstance(delay, LearnableDelay):
        return delay
    if isinstance(delay, tuple):
        if not delay:
            raise ValueError(f"{where}: expected a delay for each unit, got none; give as many")
        return tuple(_checked_steps(f"{where}[{unit}]", own) for unit, own in enumerate(delay))
    return _checked_steps(where, delay)


def check_delay_of(where: str, delay: Delay, size: int) -> None:
    """Raises unless a delay has as many numbers as the source has units, or one for all."""
    if isinstance(delay, tuple) and len(delay) != size:
        raise ValueError(
            f"{where}: expected {size} delays, one for each unit of the source, got {len(delay)}; "
            "give as many, or one number for all"
        )


def shortest(delay: Delay) -> int:
    """The least number of steps after which anything arrives; 0 if it may be within a step."""
    if isinstance(delay, LearnableDelay):
        return delay.minimum
    return min(map(math.floor, delay if isinstance(delay, tuple) else (delay,)))


def longest(delay: Delay) -> int:
    """The number of steps after which everything has arrived."""
    if isinstance(delay, LearnableDelay):
        return delay.maximum
    return max(map(math.ceil, delay if isinstance(delay, tuple) else (delay,)))


def label(delay: Delay) -> str:
    """A delay in few characters, for pictures and tables.

    Example:
      >>> label(2), label(2.5), label((1, 4, 2)), label(LearnableDelay(1, 8))
      ('2', '2.5', '1-4', '1..8')
    """
    if isinstance(delay, LearnableDelay):
        return f"{delay.minimum}..{delay.maximum}"
    if isinstance(delay, tuple) and min(delay) != max(delay):
        return f"{min(delay):g}-{max(delay):g}"
    return f"{delay[0] if isinstance(delay, tuple) else delay:g}"


def taps(delay: Delay, size: int) -> tuple[tuple[Run, ...], ...]:
    """What a connection reads: for each tap the units of the source, in order.

    Args:
      delay: of the connection.
      size: number of units of its source.

    Example:
      >>> taps((1, 1, 2), 3), taps(1.5, 3)
      ((((1, 0, 2), (2, 2, 1)),), (((1, 0, 3),), ((2, 0, 3),)))
    """
    if isinstance(delay, LearnableDelay):
        return tuple(((steps, 0, size),) for steps in range(delay.minimum, delay.maximum + 1))
    each = delay if isinstance(delay, tuple) else (delay,) * size
    below, above = _runs(list(map(math.floor, each))), _runs(list(map(math.ceil, each)))
    return (below,) if below == above else (below, above)


def is_weighted(delay: Delay) -> bool:
    """Whether a connection carries several taps, with weights."""
    if isinstance(delay, LearnableDelay):
        return True
    return any(steps != int(steps) for steps in (delay if isinstance(delay, tuple) else (delay,)))


def _plain_number(value: Any) -> Any:
    """A number as Python has it, a whole one as an int; anything else as it is."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _runs(delays: list[int]) -> tuple[Run, ...]:
    runs: list[Run] = []
    for unit, steps in enumerate(delays):
        if runs and runs[-1][0] == steps:
            runs[-1] = (steps, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((steps, unit, 1))
    return tuple(runs)


def real_number(where: str, value: Any) -> float:
    """Returns a finite number as a float; raises unless it is one that a float can hold."""
    number = _number(where, _plain_number(value))
    try:
        return float(number)
    except OverflowError:
        raise ValueError(
            f"{where}: expected a number that a float can hold, got {shown(number)}; {_HINT}"
        ) from None


def _checked_steps(where: str, delay: Any) -> int | float:
    number = _number(where, delay)
    if number < 0:
        raise ValueError(f"{where}: expected at least 0, got {shown(number)}; {_HINT}")
    return number


def _number(where: str, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(
            f"{where}: expected a number, a list with one for each unit, or a LearnableDelay, got "
            f"{shown(value)} of type {type(value).__name__}; {_HINT}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where}: expected a finite number, got {value}; {_HINT}")
    return value
