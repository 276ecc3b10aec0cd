"""Bad values at every public function: a documented exception, or a valid result."""

import os
import warnings

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("networkx")
pytest.importorskip("matplotlib")

from ._fuzz import entry_points

pytestmark = pytest.mark.usefixtures("whole_tracebacks")

AT_ONCE = 50  # values in one example of Hypothesis, of which each takes its time
MANY = settings(
    max_examples=2_000 // AT_ONCE,
    phases=[Phase.generate],  # to shrink that many values takes minutes
    suppress_health_check=list(HealthCheck),
)
POINTS = entry_points()
DOCUMENTED = (TypeError, ValueError, FileNotFoundError)
RAW = ("object is not", "unsupported operand", "has no attribute", "not supported between")
"""Parts of messages with which Python itself refuses something."""


def check(name, call):
    """Calls an entry point; fails on an exception that is not documented, or has no place."""
    __tracebackhide__ = True
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Data type alias")  # NumPy's, of letters for types
            warnings.filterwarnings("ignore", "PopulationGraph.finalize: a sign")
            call()
    except DOCUMENTED as error:
        message = str(error)
        if len(message) > 5_000 or any(part in message for part in RAW):
            pytest.fail(f"{name}: a message of Python's, or too long a one: {message[:300]}")
    except Exception as error:
        raise AssertionError(f"{name}: undocumented {type(error).__name__}: {error}") from error


@settings(max_examples=100, derandomize=True)
@given(data=st.data())
def test_bad_value_anywhere_raises_a_documented_exception(data):
    name = data.draw(st.sampled_from(sorted(POINTS)))
    check(name, data.draw(POINTS[name]))


@pytest.mark.slow
@pytest.mark.skipif("NNX_FUZZ" not in os.environ, reason="set NNX_FUZZ=1 for thousands of examples")
@pytest.mark.parametrize("name", sorted(POINTS))
def test_many_bad_values_raise_documented_exceptions(name):
    @MANY
    @given(data=st.data())
    def run(data):
        for _ in range(AT_ONCE):
            check(name, data.draw(POINTS[name]))

    run()
