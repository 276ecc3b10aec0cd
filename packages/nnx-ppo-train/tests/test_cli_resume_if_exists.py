"""``nnx-ppo train --run-dir R --resume-if-exists``, and run folders made at the same time."""

import json
import shutil
import threading
from pathlib import Path

import pytest
from nnx_ppo_train._json_lines import read_metrics
from nnx_ppo_train.cli import main
from nnx_ppo_train.cli._run_folder import make_run_folder

from ._cli import FINISHED, GRAPH, check_usage_error

pytestmark = pytest.mark.usefixtures("command_line", "no_pictures")
JOB = [*FINISHED, "--run-dir", "run", "--resume-if-exists"]


def test_absent_run_is_started_and_one_that_was_killed_goes_on(finished, folder, capsys):
    Path("run").mkdir()
    Path("run/.lock").touch()  # killed at once
    assert main(JOB) == 0
    assert "Training graph on cartpole" in capsys.readouterr().out
    shutil.rmtree("run/checkpoints/step_0000000064")
    assert main(JOB) == 0
    assert "Resuming graph on cartpole at 48 of 64 steps" in capsys.readouterr().out
    assert [line["step"] for line in read_metrics(Path("run/metrics.jsonl"))] == [0, 16, 32, 48, 64]
    shutil.rmtree("run/checkpoints")
    assert main(JOB) == 0
    assert "Training graph on cartpole" in capsys.readouterr().out


def test_finished_run_ends_at_once(finished, folder, capsys, monkeypatch):
    shutil.copytree(finished.path, "run")
    monkeypatch.setattr("nnx_ppo_train.cli._train.make_run", None)  # nothing is built
    monkeypatch.setattr("nnx_ppo_train.cli._resume.make_run", None)
    assert main(JOB) == 0
    assert capsys.readouterr().out == "run: all 64 steps are done.\n"


def test_run_that_reached_its_target_has_finished(folder, capsys):
    words = [*GRAPH, "--run-dir", "run", "--target-return", "1", "--total-steps", "64"]
    assert main([*words, "--resume-if-exists"]) == 0
    steps = read_metrics(Path("run/metrics.jsonl"))[-1]["step"]
    assert steps < 64
    capsys.readouterr()
    assert main([*words, "--resume-if-exists"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        f"run: it ended at {steps} of 64 steps: eval/episode_reward/mean reached"
    )
    assert said.count("\n") == 1


def test_other_settings_are_refused_by_name(finished, folder, capsys):
    shutil.copytree(finished.path, "run")
    words = ["--ppo.clip-range", "0.3", "--net.hidden-size", "5", "--env", "recall"]
    parts = ("--env (the run has 'cartpole'", "--net.hidden-size (the run has 4, got 5)")
    check_usage_error(capsys, [*JOB, *words], "--ppo.clip-range (the run has 0.2, got 0.3)", *parts)


def test_steps_and_logging_may_differ(finished, folder, capsys):
    shutil.copytree(finished.path, "run")
    words = ["--total-steps", "80", "--ppo.logging-level", "LOSSES"]
    assert main([*JOB, *words]) == 0
    lines = read_metrics(Path("run/metrics.jsonl"))
    assert lines[-1]["step"] == 80
    assert not any(name.startswith("throughput/") for name in lines[-1])
    train = json.loads(Path("run/config.json").read_text())["train"]
    assert (train["ppo"]["total_steps"], train["ppo"]["logging_level"]) == (80, "LOSSES")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--resume-if-exists"], "--resume-if-exists: expected --run-dir beside it"),
        (["--resume-if-exists", "--run-dir", "full"], "expected a run folder, an empty folder"),
        (["--resume-if-exists", "--run-dir", "full/file"], "expected a run folder, an empty"),
        (["--resume-if-exists", "--run-dir", "new", "--seeds", "2"], "expected one seed, got"),
    ],
)
def test_flag_that_cannot_be_followed_is_refused(folder, capsys, words, part):
    Path("full").mkdir()
    Path("full/file").touch()
    check_usage_error(capsys, [*FINISHED, *words], part)
    assert not Path("new").exists()


def test_folders_made_in_the_same_second_differ(tmp_path, monkeypatch):
    """Five runs started together: today three die of "File exists"."""
    monkeypatch.chdir(tmp_path)
    start, made = threading.Barrier(5), []

    def make():
        start.wait()
        made.append(make_run_folder(None, "env", "network", 0).path)

    threads = [threading.Thread(target=make) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({path.name for path in made}) == 5
    assert all(path.is_dir() for path in made)
