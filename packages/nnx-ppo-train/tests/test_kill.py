"""Runs that are killed at random moments end as if nobody had touched them.

Three kills each, or NNX_KILLS; NNX_KILLS_SEED chooses other moments. With NNX_KILLS_LOG each kill
is noted in that file.
"""

import os
import sys
from pathlib import Path

import pytest

from ._cli import GRAPH
from ._cli import ITERATION as COMMAND_LINE_ITERATION
from ._killed_run import CHECKPOINT, ITERATION
from ._kills import (
    Run,
    cached,
    check_same_metrics,
    check_same_state,
    kill_repeatedly,
    script,
)

KILLS = int(os.environ.get("NNX_KILLS", "3"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL"),
    pytest.mark.timeout(600 + 120 * KILLS),
]
SEED = int(os.environ.get("NNX_KILLS_SEED", "0"))
ITERATIONS = 12 * (KILLS + 1)


def check_kills(found, checkpoint):
    """At most the work since the last checkpoint is lost, and some kills fell into saves."""
    if log := os.environ.get("NNX_KILLS_LOG"):
        with Path(log).open("a") as file:
            file.writelines(f"{killed}\n" for killed in found)
    for killed in found:
        # The save of the checkpoint before may still have been under way.
        assert killed.logged - killed.saved <= 2 * checkpoint, killed
    assert any(killed.in_save for killed in found)


def test_a_run_with_everything_that_is_killed_equals_the_undisturbed_one(tmp_path):
    disturbed, undisturbed = (
        script(tmp_path / name, ITERATIONS, ITERATION, tmp_path / "cache")
        for name in ("disturbed", "undisturbed")
    )
    undisturbed.finish()
    check_kills(kill_repeatedly(disturbed, KILLS, SEED), CHECKPOINT)
    check_same_state(disturbed.folder, undisturbed.folder)
    check_same_metrics(*(run.folder / "metrics.jsonl" for run in (disturbed, undisturbed)))


def command_line(folder: Path, cache: Path) -> Run:
    words = [*GRAPH, "--total-steps", str(ITERATIONS * COMMAND_LINE_ITERATION)]
    words += ["--run-dir", str(folder), "--resume-if-exists"]
    command = (sys.executable, "-m", "nnx_ppo_train.cli", *words)
    return Run(command, folder, ITERATIONS, COMMAND_LINE_ITERATION, cached(cache))


def test_the_command_line_goes_on_after_kills(tmp_path):
    disturbed, undisturbed = (
        command_line(tmp_path / name, tmp_path / "cache") for name in ("disturbed", "undisturbed")
    )
    undisturbed.finish()
    check_kills(kill_repeatedly(disturbed, KILLS, SEED + 1), COMMAND_LINE_ITERATION)
    check_same_state(disturbed.folder, undisturbed.folder)
    check_same_metrics(*(run.folder / "metrics.jsonl" for run in (disturbed, undisturbed)))
