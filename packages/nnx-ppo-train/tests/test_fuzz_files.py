"""Damaged files and random words: a documented error, or one line and exit code 2."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ._fuzz import AT_ONCE, MANY, problem
from ._fuzz_files import Files, nothing_runs

NAMES = [
    *(f"{name} of a damaged record" for name in (
        "load_network", "load_network in part", "load_checkpoint", "load_config",
        "latest_checkpoint", "best_checkpoint", "init_from",
    )),
    *(f"{name} of a damaged {file}" for name in ("eval", "resume") for file in (
        "config", "record",
    )),
    "JSONLinesLogger of damaged lines", "words of the command line", "save_checkpoint",
    "make_checkpoint_fn", "load_checkpoint", "load_network", "load_config", "latest_checkpoint",
    "best_checkpoint", "init_from", "JSONLinesLogger",
]  # fmt: skip

pytestmark = pytest.mark.usefixtures("whole_tracebacks")


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """Strategies of what to throw, and what to throw it at, by name."""
    folder = tmp_path_factory.mktemp("files")
    files = Files(folder)
    found = {name: (entry.changes(), entry.run) for name, entry in files.entries().items()}
    found |= files.points()
    with nothing_runs(folder):
        yield found


def check(name, act, thrown):
    __tracebackhide__ = True
    found = problem(lambda: act(thrown))
    if found is not None:
        pytest.fail(f"{name} with {thrown!a}: {found}", pytrace=False)


def test_every_entry_point_has_a_name(points):
    assert sorted(points) == sorted(NAMES)


@settings(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data(), name=st.sampled_from(NAMES))
def test_damage_raises_a_documented_error(points, data, name):
    thrown, act = points[name]
    check(name, act, data.draw(thrown))


@pytest.mark.slow
@pytest.mark.skipif("NNX_FUZZ" not in os.environ, reason="set NNX_FUZZ=1 for thousands of examples")
@pytest.mark.parametrize("name", NAMES)
def test_much_damage_raises_documented_errors(points, name):
    thrown, act = points[name]

    @MANY
    @given(data=st.data())
    def run(data):
        for _ in range(AT_ONCE):
            check(name, act, data.draw(thrown))

    run()
