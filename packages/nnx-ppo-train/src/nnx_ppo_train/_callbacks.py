"""Callbacks: functions that see the metrics and may steer the training."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ._validate import check_number

EVALUATION_RETURN = "eval/episode_reward/mean"


@dataclasses.dataclass(frozen=True)
class Stop:
    """Ends the training after the iteration that is under way; nothing is lost.

    Attributes:
      reason: why, for whoever reads the result.
    """

    reason: str = "a callback asked for it"


@dataclasses.dataclass(frozen=True)
class ScaleLearningRate:
    """Multiplies the learning rate from here on, whatever schedule it follows.

    Attributes:
      factor: by what, above 0.
    """

    factor: float

    def __post_init__(self) -> None:
        check_number(self.factor, "ScaleLearningRate.factor", above=0.0)


Action = Stop | ScaleLearningRate | None
Callback = Callable[[Mapping[str, Any], int], Action]
"""``callback(metrics, steps)``: sees what ``log_fn`` sees and returns what is to be done, or None.

Metrics are Python floats; of many trainings at once arrays (members,).
"""


def stop_at_return(target: float, metric: str = EVALUATION_RETURN) -> Callback:
    """Returns a callback that stops when a metric reaches a target.

    Args:
      target: the value to reach; of many trainings at once all must.
      metric: which metric; lines that lack it are passed over.

    Example:
      >>> callback = stop_at_return(450.0)
      >>> callback({"eval/episode_reward/mean": 480.0}, 100_000)
      Stop(reason='eval/episode_reward/mean reached 450')
      >>> callback({"losses/actor": 0.1}, 100_000) is None
      True
    """
    check_number(target, "stop_at_return: target")

    def callback(metrics: Mapping[str, Any], steps: int) -> Action:
        del steps
        reached = metric in metrics and bool(np.all(np.asarray(metrics[metric]) >= target))
        return Stop(f"{metric} reached {target:g}") if reached else None

    return callback


def check_callbacks(callbacks: Any) -> None:
    """Raises TypeError unless it is a list or tuple of functions."""
    if not isinstance(callbacks, list | tuple) or not all(map(callable, callbacks)):
        raise TypeError(
            "callbacks: expected a list of functions (metrics, steps) -> Stop, ScaleLearningRate "
            f"or None, got {callbacks!r}"
        )


def check_action(action: Any, callback: Callback) -> None:
    """Raises TypeError unless a callback returned what can be done."""
    if action is not None and not isinstance(action, Stop | ScaleLearningRate):
        name = getattr(callback, "__qualname__", repr(callback))
        raise TypeError(
            f"callback {name}: expected Stop(...), ScaleLearningRate(...) or None, got {action!r}"
        )
