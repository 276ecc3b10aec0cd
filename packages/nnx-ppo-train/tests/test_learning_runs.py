"""Slow: what the command line trains by default learns what it is said to learn."""

import json
import math
from pathlib import Path

import pytest
from nnx_ppo_train.cli import main
from nnx_ppo_train.envs import make_env

pytestmark = pytest.mark.slow


def final_evaluation(folder: Path) -> dict[str, float]:
    """The last line of a run's metrics that holds an evaluation."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    return [entry for entry in entries if "eval/episode_reward/mean" in entry][-1]


def train(folder: Path, *arguments: str) -> dict[str, float]:
    assert main(["train", "--run-dir", str(folder), *arguments]) == 0
    return final_evaluation(folder)


def test_default_run_balances_the_pole_that_it_cannot_see_move(tmp_path):
    evaluation = train(tmp_path / "run", "--seed", "0")
    assert evaluation["eval/episode_reward/mean"] >= 0.9 * make_env("cartpole-positions").max_return
    names = {path.name for path in (tmp_path / "run").iterdir()}
    pictures = {"learning_curve.png", "graph.png", "episode.gif"}
    assert names >= {"config.json", "metrics.jsonl", "checkpoints", *pictures}


@pytest.mark.parametrize("network", ["lstm", "graph"])
def test_memory_recalls(tmp_path, network):
    evaluation = train(tmp_path / "run", "--env", "recall", "--network", network)
    assert evaluation["eval/episode_reward/mean"] >= 0.95 * make_env("recall").optimal_return


def test_network_without_memory_stays_at_the_memoryless_bound(tmp_path):
    evaluation = train(tmp_path / "run", "--env", "recall", "--network", "mlp")
    bound = make_env("recall").memoryless_return
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    episodes = config["train"]["eval"]["n_envs"]
    standard_error = math.sqrt(bound * (1 - bound) / episodes)
    assert 0.9 * bound <= evaluation["eval/episode_reward/mean"] <= bound + 2 * standard_error
