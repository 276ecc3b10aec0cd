"""Test helpers: the laws of stateful modules, probes, a table of modules, random networks.

Only the Hypothesis strategies need hypothesis (``pip install nnx-stateful[testing]``).
"""

from typing import TYPE_CHECKING, Any

from ._check import LAWS, check_stateful_module
from ._compare import BrokenLawError, assert_close
from ._float64 import to_float64
from ._probes import (
    CounterProbe,
    EmittingProbe,
    KeepingProbe,
    MetricsProbe,
    RowLossProbe,
    ScalarLossProbe,
    StatisticsProbe,
    StreamProbe,
)
from ._stepping import step_through
from ._table import ModuleCase, shipped_modules

if TYPE_CHECKING:
    from ._strategies import ModuleDescription, done_masks, input_arrays, module_descriptions

__all__ = [
    "LAWS",
    "BrokenLawError",
    "CounterProbe",
    "EmittingProbe",
    "KeepingProbe",
    "MetricsProbe",
    "ModuleCase",
    "ModuleDescription",
    "RowLossProbe",
    "ScalarLossProbe",
    "StatisticsProbe",
    "StreamProbe",
    "assert_close",
    "check_stateful_module",
    "done_masks",
    "input_arrays",
    "module_descriptions",
    "shipped_modules",
    "step_through",
    "to_float64",
]

_NEED_HYPOTHESIS = ("ModuleDescription", "done_masks", "input_arrays", "module_descriptions")


def __getattr__(name: str) -> Any:
    if name in _NEED_HYPOTHESIS:
        from . import _strategies

        return getattr(_strategies, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
