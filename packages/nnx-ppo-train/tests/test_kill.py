"""A run with everything that is killed at random moments ends as if nobody had touched it."""

import sys
from pathlib import Path

from ._killed_run import CHECKPOINT, ITERATION
from ._kills import ITERATIONS, MARKS, Run, cached, check_killed_equals_undisturbed

pytestmark = MARKS


def script(folder, cache):
    words = (str(Path(__file__).with_name("_killed_run.py")), str(folder), str(ITERATIONS))
    return Run((sys.executable, *words), folder, ITERATIONS, ITERATION, cached(cache))


def test_killed_run_equals_the_undisturbed_one(tmp_path):
    killed, whole = (script(tmp_path / name, tmp_path / "cache") for name in ("killed", "whole"))
    check_killed_equals_undisturbed(killed, whole, CHECKPOINT)
