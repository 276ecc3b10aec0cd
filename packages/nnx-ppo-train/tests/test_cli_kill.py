"""The command line goes on with a run that was killed as if nobody had touched it."""

import sys

from ._cli import GRAPH, ITERATION
from ._kills import ITERATIONS, MARKS, Run, cached, check_killed_equals_undisturbed

pytestmark = MARKS


def command_line(folder, cache):
    words = [*GRAPH, "--total-steps", str(ITERATIONS * ITERATION)]
    words += ["--run-dir", str(folder), "--resume-if-exists"]
    command = (sys.executable, "-m", "nnx_ppo_train.cli", *words)
    return Run(command, folder, ITERATIONS, ITERATION, cached(cache))


def test_killed_run_equals_the_undisturbed_one(tmp_path):
    killed, whole = (
        command_line(tmp_path / name, tmp_path / "cache") for name in ("killed", "whole")
    )
    check_killed_equals_undisturbed(killed, whole, ITERATION)
