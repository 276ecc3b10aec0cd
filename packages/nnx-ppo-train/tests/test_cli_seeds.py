"""``nnx-ppo train --seeds``: a run folder for each seed, and what they have in common."""

import json

import numpy as np
import pytest
from nnx_ppo_train.cli import main
from nnx_ppo_train.cli._pictures import _over_runs, draw_learning_curve
from nnx_ppo_train.cli._run_config import read_run_config
from nnx_ppo_train.cli._run_folder import RunFolder
from PIL import Image

TINY = [
    "--env", "cartpole", "--network", "mlp", "--net.hidden-size", "4", "--total-steps", "48",
    "--ppo.n-envs", "4", "--ppo.rollout-length", "4", "--ppo.n-minibatches", "2",
    "--ppo.n-epochs", "1", "--eval.n-envs", "2", "--eval.max-episode-length", "8",
    "--eval.every-steps", "32", "--checkpoint-every-steps", "32",
    "--ppo.learning-rate-schedule", "constant",
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("command_line")


@pytest.fixture(scope="module")
def place(tmp_path_factory, command_line):
    """Where two seeds ran together, and the second of them alone."""
    place = tmp_path_factory.mktemp("seeds")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        words = ["train", *TINY]
        assert main([*words, "--seed", "5", "--seeds", "2", "--run-dir", "both"]) == 0
        assert main([*words, "--seed", "6", "--run-dir", "alone"]) == 0
    return place


def lines_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_every_seed_has_a_run_folder_and_all_share_the_pictures(place):
    both = place / "both"
    assert sorted(path.name for path in both.iterdir()) == [
        ".lock", "episode.gif", "learning_curve.png", "seed_5", "seed_6",
    ]  # fmt: skip
    for seed in (5, 6):
        folder = RunFolder(both / f"seed_{seed}")
        assert read_run_config(folder.config).train.seed == seed
        saved = sorted(path.name for path in folder.checkpoints.iterdir())
        assert saved == ["step_0000000000", "step_0000000032", "step_0000000048"]
    with Image.open(both / "learning_curve.png") as image:
        assert image.width > 300


def test_a_seed_logs_what_it_logs_alone(place):
    together, alone = lines_of(place / "both" / "seed_6"), lines_of(place / "alone")
    assert [line["step"] for line in together] == [0, 16, 32, 48]
    for first, second in zip(together, alone, strict=True):
        assert first.keys() == second.keys()
        timings = {"wall_time"} | {
            name for name in first if name.startswith(("throughput/", "time/"))
        }
        for name in first.keys() - timings:
            if first[name] is None:
                assert second[name] is None
            else:
                assert first[name] == pytest.approx(second[name], abs=1e-3), name
    assert lines_of(place / "both" / "seed_5")[1] != together[1]


def test_one_seed_is_evaluated_and_trained_on(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    assert main(["eval", "both/seed_6", "--episodes", "2"]) == 0
    assert main(["resume", "both/seed_6", "--total-steps", "64"]) == 0
    assert [line["step"] for line in lines_of(place / "both" / "seed_6")][-1] == 64
    capsys.readouterr()
    assert main(["eval", "both"]) == 2
    assert "run folders nearby, newest first: both/seed_" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["--seeds", "0"],
            "--seeds: expected a whole number of at least 1 and at most 10000, got 0",
        ),
        (["--seeds", "2", "--seed", "4294967295"], "--seed (the last of --seeds): expected"),
        (["--seeds", "2", "--video.enabled"], "--video.enabled: expected no videos with several"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_made(
    words, problem, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *TINY, *words]) == 2
    assert problem in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def write_run(path, values):
    path.write_text(
        "".join(
            json.dumps({"step": step, "eval/episode_reward/mean": value}) + "\n"
            for step, value in values.items()
        )
    )
    return path


def test_curve_of_several_seeds_is_their_median_and_middle_half(tmp_path):
    values = np.array([[0.0, 1.0], [1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [10.0, 100.0]])
    files = [
        write_run(tmp_path / f"{i}.jsonl", {0: first, 8: last})
        for i, (first, last) in enumerate(values)
    ]
    runs = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    for percentile in (25, 50, 75):
        steps, drawn = _over_runs(runs, "eval/episode_reward/mean", percentile)
        assert steps == [0, 8]
        np.testing.assert_allclose(drawn, np.percentile(values, percentile, axis=0))
    draw_learning_curve(tmp_path / "curve.png", files, "five seeds", 120.0)
    with Image.open(tmp_path / "curve.png") as image:
        assert len(image.convert("RGB").getcolors(1 << 20)) > 3
