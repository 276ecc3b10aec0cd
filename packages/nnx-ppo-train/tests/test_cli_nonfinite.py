"""Runs with values that are not finite: shown, counted, and never a success."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from nnx_ppo_train._json_lines import read_metrics
from nnx_ppo_train.cli import main
from nnx_ppo_train.cli._pictures import _over_runs
from nnx_ppo_train.cli._progress import Latest
from nnx_ppo_train.cli._run_config import RunConfig
from nnx_ppo_train.cli._seed_returns import median_return, median_seed, not_finite, of_all_seeds
from nnx_ppo_train.cli._summary import nonfinite_lines, result_line, time_lines

from ._cli import TINY

pytestmark = pytest.mark.usefixtures("command_line", "no_pictures")
NAN = float("nan")
OWN_CODE = """
import jax.numpy as jnp
from nnx_ppo_train.envs import CartPole


class SometimesBad(CartPole):
    def step(self, state, action):
        state = super().step(state, action)
        return state.replace(reward=jnp.where(state.obs[0] > 0, jnp.nan, state.reward))


class AlwaysBad(CartPole):
    def step(self, state, action):
        state = super().step(state, action)
        return state.replace(reward=jnp.nan * state.reward)
"""


@pytest.fixture
def words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = f"bad_{tmp_path.name}"
    Path(f"{module}.py").write_text(OWN_CODE)
    options = ["--net.hidden-size", "4", "--total-steps", "64", *TINY, "--eval.n-envs", "16"]
    names = ["--env", f"{module}:SometimesBad", "--network", "mlp"]
    return ["train", *names, "--run-dir", "run", *options]


def test_bad_samples_are_counted_and_said(words, capsys):
    assert main(words) == 0
    said = capsys.readouterr().out
    lines = read_metrics(Path("run/metrics.jsonl"))
    count = sum(line.get("nonfinite/samples", 0) for line in lines)
    assert count > 0
    assert f"Left out, not finite: {count:,.0f} samples ({count / 64:.2g} of all)" in said
    assert f"not finite: {count:,.0f} samples" in said.split("Finished")[0]
    assert "of its episodes were left out, not finite" in said
    assert all(math.isfinite(line["losses/total"]) for line in lines if "losses/total" in line)


@pytest.mark.slow
def test_error_of_the_first_bad_value_is_a_failure(words, capsys):
    assert main([*words, "--ppo.nonfinite", "raise"]) == 1
    said = capsys.readouterr()
    (line,) = [line for line in said.err.splitlines() if line.startswith("nnx-ppo: ")]
    assert "reward" in line
    assert "Traceback" not in said.err
    assert "Finished" not in said.out
    assert "Failed at" in said.out
    assert "last finite one" in said.out
    assert "nnx-ppo eval run" in said.out


@pytest.mark.slow
def test_ignored_bad_values_are_shown_as_nan(words, capsys):
    assert main([*words, "--ppo.nonfinite", "ignore"]) == 1
    said = capsys.readouterr().out
    assert "critic nan" in said
    assert "Failed at 64 of 64 steps" in said
    last = json.loads(Path("run/metrics.jsonl").read_text().splitlines()[-1])
    assert last["losses/critic"] is None
    assert math.isnan(read_metrics(Path("run/metrics.jsonl"))[-1]["losses/critic"])


def test_run_that_learns_nothing_fails(words, capsys):
    words = [word.replace("SometimesBad", "AlwaysBad") for word in words]
    assert main([*words, "--total-steps", str(20 * 16)]) == 1
    said = capsys.readouterr()
    assert "10 iterations in a row without an applied update or without any finite" in said.err
    assert "Failed at 160 of 320 steps" in said.out
    assert "Finished" not in said.out


@pytest.mark.slow
def test_seed_without_a_finite_return_is_shown_and_reaches_no_target(words, capsys):
    words = [word.replace("SometimesBad", "AlwaysBad") for word in words]
    more = ["--seeds", "2", "--ppo.nonfinite", "ignore", "--target-return", "-1"]
    assert main([*words, *more]) == 1
    said = capsys.readouterr().out
    assert "not finite in 2 of 2 seeds" in said
    assert "Failed at 64 of 64 steps of each seed" in said  # the target return was not reached
    assert "median of the seeds: nan\nby seed: 17: nan  18: nan" in said
    assert "Not finite, and counted as the worst: seed 17, 18" in said


# ---- parts -------------------------------------------------------------------------------------


def test_progress_shows_nan_and_keeps_what_is_absent():
    latest = Latest()
    assert latest.text() == ""
    latest.update({"train/episode_reward": 5.0, "losses/actor/a": 0.25, "losses/actor/b": 0.5})
    assert latest.text() == "return 5.0  actor 0.750"
    latest.update({"losses/actor/a": NAN, "losses/actor/b": 0.5, "nonfinite/samples": 3.0})
    assert latest.text() == "return 5.0  actor nan  not finite: 3 samples"
    latest.update({"train/episode_reward": NAN, "nonfinite/samples": 0.0, "nonfinite/updates": 2.0})
    assert latest.text() == "return nan  actor nan  not finite: 3 samples, 2 updates"


def test_summary_quotes_the_last_value_even_if_it_is_not_finite():
    evaluation = "eval/episode_reward/mean"
    lines = [{"step": 0, evaluation: 5.0}, {"step": 16, evaluation: NAN}, {"step": 32}]
    assert result_line(lines, None) == "Deterministic evaluation return: nan at step 16"
    lines = [{"step": 0, evaluation: 5.0, "eval/nonfinite": 0.25}]
    assert result_line(lines, None).endswith("at step 0; 25.00% of its episodes were left out, "
                                             "not finite")  # fmt: skip
    assert nonfinite_lines([[{"step": 64, "nonfinite/samples": 0.0}]]) == []


def test_price_of_a_run_and_a_warning_when_evaluation_is_dear():
    run = RunConfig(env="cartpole", network="mlp")
    assert time_lines([[{"step": 0}]], run) == []
    lines = [{"step": 16, "time/train": 60.0, "time/evaluation": 20.0},
             {"step": 32, "time/evaluation": 5.0, "time/host": 15.0}]  # fmt: skip
    assert time_lines([lines], run) == ["Time: training 60%, evaluation 25%, host 15%"]
    said, warning = time_lines([[{**lines[0], "time/evaluation": 40.0}]], run)
    assert said == "Time: training 60%, evaluation 40%"
    assert warning.startswith("Warning: evaluation takes 40% of the time; raise --eval.every-steps")
    assert len(time_lines([[{"step": 0, "time/train": 1.0, "time/evaluation": 4.0}]], run)) == 1


def test_seed_that_is_not_finite_is_the_worst():
    assert median_seed({1: NAN, 2: 3.0, 3: 9.0}) == 2
    assert median_return({1: NAN, 2: 3.0, 3: 9.0}) == 3.0
    assert median_return({1: 4.0, 2: 3.0}) == 3.5
    assert math.isnan(median_return({1: NAN, 2: 3.0}))
    assert median_seed({1: NAN, 2: NAN, 3: NAN}) == 1
    every = {
        "losses/actor": np.array([NAN, 1.0, 2.0]),
        "eval/episode_reward/mean": np.array([NAN, 1.0, 2.0]),
        "train/episode_reward": np.array([NAN, 1.0, 2.0]),  # absent: no episode of it ended
        "nonfinite/samples": np.array([1.0, 2.0, 3.0]),
        "losses/critic": np.array([NAN, NAN, 2.0]),
    }
    said = of_all_seeds(every)
    assert said["losses/actor"] == 2.0
    assert said["eval/episode_reward/mean"] == 1.0
    assert said["train/episode_reward"] == 1.5
    assert said["nonfinite/samples"] == 6.0
    assert math.isnan(said["losses/critic"])
    assert not_finite(every) == 2


def test_curve_has_a_gap_where_a_percentile_is_not_finite():
    name = "eval/episode_reward/mean"
    runs = [[{"step": 0, name: value}] for value in (NAN, 1.0, 2.0, 5.0, 9.0)]
    for percentile, expected in ((0, NAN), (25, 1.0), (50, 2.0), (80, 5.8), (100, 9.0)):
        _, drawn = _over_runs(runs, name, percentile)
        np.testing.assert_allclose(drawn, [expected])
