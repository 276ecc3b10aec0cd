"""Callbacks: functions that see the metrics and may steer the training."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ._validate import check_instance, check_number, shown

EVALUATION_RETURN = "eval/episode_reward/mean"


@dataclasses.dataclass(frozen=True)
class Stop:
    """Ends the training after the iteration that is under way; nothing is lost.

    Attributes:
      reason: why, for whoever reads the result.
    """

    reason: str = "a callback asked for it"

    def __post_init__(self) -> None:
        check_instance(self.reason, "Stop.reason", str, "'the loss is NaN'")


@dataclasses.dataclass(frozen=True)
class ScaleLearningRate:
    """Multiplies the learning rate, whatever schedule it follows.

    It acts after exactly one more iteration, which may be under way when the callback is called.

    Attributes:
      factor: by what, above 0.
    """

    factor: float

    def __post_init__(self) -> None:
        check_number(self.factor, "ScaleLearningRate.factor", above=0.0)


Action = Stop | ScaleLearningRate | None
Callback = Callable[[Mapping[str, Any], int], Action]
"""``callback(metrics, steps)``: sees what ``log_fn`` sees and returns what is to be done, or None.

Metrics are Python floats; of many trainings at once arrays (members,). A callback with a memory may
have ``state_dict()``, which returns what JSON can hold, and ``load_state_dict(state)``: checkpoints
keep that state, and a run that goes on gives it back.
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
    check_instance(metric, "stop_at_return: metric", str, repr(EVALUATION_RETURN))

    def callback(metrics: Mapping[str, Any], steps: int) -> Action:
        del steps
        reached = metric in metrics and bool(np.all(np.asarray(metrics[metric]) >= target))
        return Stop(f"{metric} reached {target:g}") if reached else None

    return callback


def callback_states(callbacks: Sequence[Callback]) -> tuple[Any, ...]:
    """Returns the state of every callback, None for those without one.

    Raises:
      TypeError: if JSON cannot hold a state.
    """
    states = tuple(
        callback.state_dict() if _has_state(callback) else None  # type: ignore[attr-defined]
        for callback in callbacks
    )
    for callback, state in zip(callbacks, states, strict=True):
        try:
            json.dumps(state)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"callback {_name(callback)}: expected a state_dict() of dicts, lists, strings, "
                f"numbers and None, got {state!r}: {error}"
            ) from error
    return states


def restore_callbacks(callbacks: Sequence[Callback], states: Sequence[Any]) -> None:
    """Gives callbacks the states that :func:`callback_states` returned.

    Raises:
      ValueError: if there are states, but for other callbacks.
    """
    given = [state is not None for state in states]
    wanted = [_has_state(callback) for callback in callbacks]
    if not any(given):
        return  # a run without such callbacks, or an older checkpoint
    if given != wanted:
        raise ValueError(
            f"callbacks: expected {len(given)} as in the run that goes on, with a state for "
            f"{given}, got {len(wanted)} of which these have a state_dict: {wanted}; pass the "
            "same callbacks in the same order"
        )
    for callback, state in zip(callbacks, states, strict=True):
        if state is not None:
            callback.load_state_dict(state)  # type: ignore[attr-defined]


def _has_state(callback: Callback) -> bool:
    return callable(getattr(callback, "state_dict", None)) and callable(
        getattr(callback, "load_state_dict", None)
    )


def _name(callback: Callback) -> str:
    return getattr(callback, "__qualname__", repr(callback))


def check_callbacks(callbacks: Any) -> None:
    """Raises TypeError unless it is a list or tuple of functions."""
    if not isinstance(callbacks, list | tuple) or not all(map(callable, callbacks)):
        raise TypeError(
            "callbacks: expected a list of functions (metrics, steps) -> Stop, ScaleLearningRate "
            f"or None, got {shown(callbacks)}"
        )


def check_action(action: Any, callback: Callback) -> None:
    """Raises TypeError unless a callback returned what can be done."""
    if action is not None and not isinstance(action, Stop | ScaleLearningRate):
        raise TypeError(
            f"callback {_name(callback)}: expected Stop(...), ScaleLearningRate(...) or None, got "
            f"{shown(action)}"
        )
