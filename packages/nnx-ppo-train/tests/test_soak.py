"""A minute of training with many checkpoints: no memory, open file or thread is left behind.

The script of the benchmark runs in a process of its own. The slope of its memory must stay below a
third of what one state kept for each checkpoint would give; that a run which keeps them is found is
tested as well. The C library is kept from giving each thread memory of its own, which fills up over
the first dozens of saves and says nothing about leaks.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.skipif(not BENCHMARKS.exists(), reason="the package alone"),
]
LEAK = """
import numpy as np
from nnx_ppo_train import _checkpoint_saver

write, kept = _checkpoint_saver.write_checkpoint, []

def keep_and_write(path, snapshot):
    kept.append([np.array(array) for array in snapshot.arrays.values()])
    write(path, snapshot)

_checkpoint_saver.write_checkpoint = keep_and_write
"""


def soak(folder, minutes, before=""):
    """The report of a soak with a checkpoint of 6 MB every three seconds."""
    words = ["--minutes", str(minutes), "--checkpoint-seconds", "3"]
    code = f"{before}\nimport soak\nsoak.main({words!r})"
    env = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "MALLOC_ARENA_MAX": "1",
        "PYTHONPATH": os.pathsep.join([str(BENCHMARKS), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def bound(report):
    return report["leak_mib_per_hour"] / 3


def test_memory_files_and_threads_stay_as_they_are(tmp_path):
    report = soak(tmp_path, minutes=1)
    assert report["checkpoints"] >= 10
    assert report["evaluations"] >= 2
    assert report["kept"] == 3
    assert report["slope_mib_per_hour"] < bound(report), report
    for name in ("open_files", "threads"):
        early, late = report[name]
        assert late <= early + 2, report


def test_a_leak_of_one_state_for_each_checkpoint_is_found(tmp_path):
    report = soak(tmp_path, minutes=0.5, before=LEAK)
    assert report["slope_mib_per_hour"] > 2 * bound(report), report
