"""Signals to runs of the command line in processes of their own, and the lock on their folder."""

import shutil
import signal
from pathlib import Path

import pytest
from nnx_ppo_train._json_lines import read_metrics
from nnx_ppo_train.cli import main
from nnx_ppo_train.cli._errors import UsageError
from nnx_ppo_train.cli._lock import RunLock

from ._cli import GRAPH, ITERATION, check_usage_error, child, wait_for

pytestmark = pytest.mark.usefixtures("command_line", "no_pictures")
ENDLESS = [*GRAPH, "--total-steps", "100000000", "--run-dir", "run"]


def n_lines(run="run"):
    return len(read_metrics(Path(run) / "metrics.jsonl"))


def newest_step(run):
    return max(int(path.name[5:]) for path in Path(run, "checkpoints").glob("step_*"))


def check_resumable(capsys, run):
    """Trains two more iterations from where a run was saved."""
    steps = newest_step(run)
    assert steps == read_metrics(Path(run) / "metrics.jsonl")[-1]["step"]
    assert main(["resume", run, "--total-steps", str(steps + 2 * ITERATION)]) == 0
    assert read_metrics(Path(run) / "metrics.jsonl")[-1]["step"] == steps + 2 * ITERATION
    capsys.readouterr()


def test_interrupted_run_leaves_a_checkpoint_and_goes_on(folder, capsys):
    with child(ENDLESS) as process:
        wait_for(lambda: n_lines() > 2, process)
        before = n_lines()
        words = ("run: expected a run folder that no process works in", f"process {process.pid} on")
        check_usage_error(capsys, ["resume", "run"], *words)
        check_usage_error(capsys, [*ENDLESS, "--resume-if-exists"], *words)
        wait_for(lambda: n_lines() > before, process)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "nnx-ppo resume run" in said
    assert "Traceback" not in said
    assert Path("run/learning_curve.png").exists()
    check_resumable(capsys, "run")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="a system without SIGUSR1")
def test_batch_systems_signal_saves_and_ends_soon_with_its_code(folder, capsys):
    with child(ENDLESS) as process:
        wait_for(lambda: n_lines() > 2, process)
        process.send_signal(signal.SIGUSR1)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 138, said
    assert "Stopped by SIGUSR1 at" in said
    assert "go on:  nnx-ppo resume run" in said
    assert "Traceback" not in said
    assert not list(Path("run").glob("*.png"))  # no time for pictures
    check_resumable(capsys, "run")


@pytest.mark.slow
def test_sigterm_saves_every_seed_and_locks_keep_others_out(folder, capsys):
    with child([*ENDLESS, "--seeds", "2", "--seed", "3"]) as process:
        wait_for(lambda: n_lines("run/seed_4") > 2, process)
        check_usage_error(capsys, ["resume", "run/seed_4"], "run/seed_4: expected a run folder")
        process.terminate()
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 143, said
    assert "Stopped by SIGTERM at" in said
    assert "Traceback" not in said
    assert newest_step("run/seed_3") == newest_step("run/seed_4")
    check_resumable(capsys, "run/seed_4")


@pytest.mark.slow
def test_closed_pipe_does_not_end_a_run_and_a_killed_one_leaves_no_lock(folder, capsys):
    with child(ENDLESS) as process:
        assert "Training graph on cartpole" in process.stdout.readline()
        process.stdout.close()  # as `| head -1` does
        wait_for(lambda: n_lines() > 20, process)
        process.kill()
        process.wait()
    assert Path("run/.lock").exists()
    assert main(["resume", "run", "--total-steps", str(newest_step("run") + ITERATION)]) == 0


def test_lock_is_refused_within_one_process_and_free_afterwards(tmp_path):
    refused = pytest.raises(UsageError, match="expected a run folder that no process works in")
    with RunLock(tmp_path), refused, RunLock(tmp_path):
        pass
    with RunLock(tmp_path) as lock:
        lock.release()
        with RunLock(tmp_path):
            pass


def test_file_system_without_locks_is_used_without_one(tmp_path, monkeypatch):
    def unsupported(descriptor):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("nnx_ppo_train.cli._lock._lock", unsupported)
    with RunLock(tmp_path), RunLock(tmp_path):
        assert (tmp_path / ".lock").exists()


def test_folder_that_cannot_be_written_is_told(tmp_path):
    told = pytest.raises(UsageError, match="absent: expected a run folder that can be written")
    with told, RunLock(tmp_path / "absent"):
        pass


def test_evaluation_needs_no_lock(finished, folder, capsys):
    shutil.copytree(finished.path, "run")
    with RunLock(Path("run")):
        assert main(["eval", "run", "--episodes", "2"]) == 0
