"""The command line: run folders, resuming, own code, and what it says about mistakes."""

import dataclasses
import json
import os
import shutil
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import jax
import numpy as np
import pytest
from nnx_ppo_train import LoggingLevel
from nnx_ppo_train._json_lines import read_metrics
from nnx_ppo_train.cli import main
from nnx_ppo_train.cli._arguments import parse
from nnx_ppo_train.cli._compilation_cache import cache_folder, use_compilation_cache
from nnx_ppo_train.cli._metrics_file import MetricsFile
from nnx_ppo_train.cli._pictures import draw_learning_curve
from nnx_ppo_train.cli._recommended import ROWS, recommended
from nnx_ppo_train.cli._rendering import draw_frames, save_gif, thin
from nnx_ppo_train.cli._run_config import read_run_config
from nnx_ppo_train.cli._run_folder import make_run_folder
from nnx_ppo_train.envs import list_envs, make_env
from nnx_ppo_train.presets import list_networks
from PIL import Image

from ._cli import GRAPH, ITERATION, TINY, check_usage_error

pytestmark = pytest.mark.usefixtures("command_line")


def is_timing(name):
    """Whether a number says how fast it went, and not what happened."""
    return name == "wall_time" or name.startswith(("throughput/", "time/"))


# ---- train -----------------------------------------------------------------------------------


def test_run_folder_holds_everything(finished):
    assert sorted(path.name for path in finished.path.iterdir()) == [
        ".lock", "checkpoints", "config.json", "episode.gif", "graph.png", "learning_curve.png",
        "metrics.jsonl",
    ]  # fmt: skip
    names = sorted(path.name for path in finished.checkpoints.iterdir())
    assert names[-3:] == [f"step_{step:010d}" for step in (32, 48, 64)]
    assert len(names) <= 4  # the one with the best evaluation stays as well


def test_pictures_are_pictures(finished):
    for path in (finished.graph, finished.learning_curve):
        with Image.open(path) as image:
            assert image.width > 300
            assert len(image.convert("RGB").getcolors(1 << 20)) > 3
    with Image.open(finished.episode) as image:
        assert image.size == (320, 240)
        assert 2 <= image.n_frames <= 9


def test_metrics_have_one_line_per_iteration(finished):
    lines = [json.loads(line) for line in finished.metrics.read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 16, 32, 48, 64]
    assert all(line["wall_time"] >= 0 for line in lines)
    assert all("losses/total" in line for line in lines[1:])
    assert [line["step"] for line in lines if "eval/episode_reward/mean" in line] == [0, 32, 64]
    assert "NaN" not in finished.metrics.read_text()


def test_config_file_says_what_was_run(finished):
    run = read_run_config(finished.config)
    assert (run.env, run.network, run.net.hidden_size) == ("cartpole", "graph", 4)
    assert (run.train.seed, run.train.ppo.total_steps, run.train.ppo.n_envs) == (5, 64, 4)
    record = json.loads(finished.config.read_text())
    assert record["command"][:4] == ["nnx-ppo", "train", "--env", "cartpole"]
    assert set(record["versions"]) >= {"jax", "flax", "nnx-ppo-train"}


def test_own_environment_and_network_are_trained(folder, capsys):
    words = ["train", "--env", f"{folder}:make_env", "--network", f"{folder}:make_network", *TINY]
    assert main([*words, "--total-steps", "16", "--video.enabled"]) == 0
    (run,) = Path("runs").iterdir()
    assert run.name.startswith(f"{folder}_make_env-{folder}_make_network-17-")
    assert sorted(path.name for path in (run / "videos").iterdir()) == [
        "step_0000000000.gif",
        "step_0000000016.gif",
    ]
    assert not (run / "graph.png").exists()
    said = capsys.readouterr().out
    assert f"Run folder: {run}" in said
    assert "% of the maximum" in said
    for name in ("config.json", "metrics.jsonl", "learning_curve.png", "episode.gif"):
        assert f"{run}/{name}" in said
    assert f"nnx-ppo eval {run}" in said
    assert main(["eval", str(run), "--episodes", "3", "--no-deterministic"]) == 0
    assert "3 sampled episodes from seed 0, mean return" in capsys.readouterr().out


@pytest.mark.usefixtures("no_pictures")
def test_profile_leaves_a_trace_of_an_iteration(folder, capsys):
    words = [*GRAPH, "--run-dir", "run", "--total-steps", str(6 * ITERATION), "--profile"]
    assert main(words) == 0
    assert len(list(Path("run/profile").glob("**/*.trace.json.gz"))) == 1
    assert "profile " in capsys.readouterr().out


def test_profile_of_several_seeds_is_refused(folder, capsys):
    words = [*GRAPH, "--seeds", "2", "--profile"]
    check_usage_error(capsys, words, "--profile: expected one seed, got --seeds 2")


@pytest.mark.fast("make_wrapped")
@pytest.mark.parametrize("factory", ["make_undrawable", "make_wrapped"])
def test_environment_that_cannot_be_drawn_is_trained_all_the_same(folder, capsys, factory):
    words = ["train", "--env", f"{folder}:{factory}", "--network", f"{folder}:make_network"]
    assert main([*words, *TINY, "--total-steps", "16", "--run-dir", "run"]) == 0
    assert "No animation: Undrawable: expected an environment with draw" in capsys.readouterr().out
    assert Path("run/learning_curve.png").exists()


# ---- resume and eval -------------------------------------------------------------------------


@pytest.mark.usefixtures("no_pictures")
def test_resumed_run_equals_an_uninterrupted_one(folder, finished, capsys):
    shutil.copytree(finished.path, "run")
    for step in (48, 64):  # as if it had been killed before they were saved
        shutil.rmtree(f"run/checkpoints/step_{step:010d}")
    assert main(["resume", "run"]) == 0
    assert "Resuming graph on cartpole at 32 of 64 steps" in capsys.readouterr().out
    resumed, straight = read_metrics(Path("run/metrics.jsonl")), read_metrics(finished.metrics)
    untimed = [
        [{name: value for name, value in line.items() if not is_timing(name)} for line in lines]
        for lines in (resumed, straight)
    ]
    assert untimed[0] == untimed[1]


@pytest.mark.usefixtures("no_pictures")
def test_resuming_with_more_steps_trains_on_and_is_noted_in_the_config(finished, folder):
    shutil.copytree(finished.path, "run")
    assert main(["resume", "run", "--total-steps", "80"]) == 0
    assert read_metrics(Path("run/metrics.jsonl"))[-1]["step"] == 80
    assert read_run_config(Path("run/config.json")).train.ppo.total_steps == 80


def test_resuming_a_finished_run_draws_and_summarizes(finished, capsys):
    finished.episode.unlink()
    assert main(["resume", str(finished.path)]) == 0
    said = capsys.readouterr().out
    assert "all 64 steps are done" in said
    assert "Finished 64 steps" in said
    assert finished.episode.exists()
    assert read_metrics(finished.metrics)[-1]["step"] == 64


def test_resuming_to_fewer_steps_fails(finished, capsys):
    words = ["resume", str(finished.path), "--total-steps", "32"]
    check_usage_error(capsys, words, "--total-steps: expected at least 64")


def test_eval_prints_a_table(finished, capsys):
    assert main(["eval", str(finished.path), "--episodes", "4", "--seed", "3"]) == 0
    said = capsys.readouterr().out
    assert "return" in said
    assert "median" in said
    assert "4 deterministic episodes from seed 3, mean return" in said
    assert "of 500" in said


def test_run_interrupted_before_its_first_checkpoint_leaves_no_folder(folder, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("nnx_ppo_train.cli._session.train_ppo", interrupted)
    assert main([*GRAPH, "--run-dir", "run"]) == 130
    assert "Stopped before the first checkpoint; run is removed." in capsys.readouterr().out
    assert not Path("run").exists()


def test_interrupted_pictures_are_left_undrawn(finished, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("nnx_ppo_train.cli._session.draw_pictures", interrupted)
    assert main(["resume", str(finished.path)]) == 0
    said = capsys.readouterr().out
    assert "Pictures left undrawn." in said
    assert "Finished 64 steps" in said


# ---- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--env", "cartpol"], ["'cartpol'", "Did you mean 'cartpole'", "package.module:make_env"]),
        (["--network", "grap"], ["'grap'", "Did you mean 'graph'", "package.module:make_network"]),
        (["--env", "OWN:make_envs"], ["has no function 'make_envs'; it has", "make_env"]),
        (["--env", "OWN:number"], ["expected a function make_env()"]),
        (["--env", "OWN:make_env_of"], ["expected a function make_env(), got make_env_of(length)"]),
        (["--env", "absent_module:make_env"], ["no module 'absent_module' on the import path"]),
        (["--env", "OWN:"], ["expected package.module:factory"]),
        (["--network", "OWN:make_nothing"], ["expected a StatefulModule, got None"]),
        (["--network", "OWN:make_wrong_network"], ["the environment wants 1", "(4, 2)"]),
        (["--network", "OWN:make_network", "--net.delay", "3"], ["--net.delay", "no use for it"]),
        (["--network", "mlp", "--net.delay", "3"], ["delay", "'mlp' has no use for it", "got 3"]),
        (["--network", "graph", "--net.hidden-layers", "1"], ["hidden_layers", "no use for it"]),
        (["--network", "mlp", "--net.actor-obs", "state"], ["NetworkOptions.actor_obs"]),
        (["--total-steps", "0"], ["PPOConfig.total_steps", "at least 1"]),
    ],
)
def test_train_with_a_mistake_says_so_and_leaves_no_folder(folder, capsys, words, parts):
    words = [word.replace("OWN", folder) for word in words]
    defaults = {"--env": "cartpole", "--network": "mlp", "--run-dir": "run"}
    for flag, value in defaults.items():
        words += [] if flag in words else [flag, value]
    check_usage_error(capsys, ["train", *TINY, *words], *parts)
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["train", "--ppo.n-envs", "0"], "PPOConfig.n_envs"),
        (["train", "--ppo.learning-rate", "nan"], "PPOConfig.learning_rate"),
        (["train", "--ppo.n-envs", "6"], "multiple of"),
        (["train", "--ppo.n-env", "6"], "--ppo.n-envs"),
        (["train", "--ppo.logging-level", "LOSS"], "GRAD_NORM"),
        (["resume"], "required"),
        (["trian"], "train"),
    ],
)
def test_flags_that_cannot_be_parsed_end_with_2(capsys, words, part):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    said = capsys.readouterr()
    assert part in said.out + said.err


def test_existing_run_folder_is_refused(folder, finished, capsys):
    before = sorted(finished.path.rglob("*"))
    words = [*GRAPH, "--run-dir", str(finished.path)]
    check_usage_error(capsys, words, "does not exist yet", "nnx-ppo resume", "another --run-dir")
    assert sorted(finished.path.rglob("*")) == before
    Path("empty").mkdir()
    check_usage_error(capsys, [*GRAPH, "--run-dir", "empty"], "choose another --run-dir")


@pytest.mark.parametrize("place", ["file/x", "/proc/absent/x"])
def test_run_folder_that_cannot_be_made_is_refused(folder, capsys, place):
    Path("file").write_text("")
    words = ["train", "--env", "cartpole", "--network", "mlp", *TINY, "--run-dir", place]
    parts = ("expected a folder that can be made, got", "choose another --run-dir")
    check_usage_error(capsys, words, f"--run-dir {place}: ", *parts)


def test_run_folder_with_a_name_that_no_system_has_is_refused(folder, capsys):
    words = ["train", "--env", "cartpole", "--network", "mlp", *TINY, "--run-dir", "a" * 300]
    check_usage_error(capsys, words, "--run-dir: expected a path, got", "File name too long")


@pytest.mark.parametrize("command", ["resume", "eval"])
def test_absent_run_folder_is_refused_and_those_nearby_are_named(command, folder, finished, capsys):
    check_usage_error(capsys, [command, "runs/a"], "no such folder", "there are none nearby")
    check_usage_error(capsys, [command, "of two\nlines"], "of two lines: expected a run folder")
    near = str(finished.path.parent / "rnu")
    check_usage_error(capsys, [command, near], "no such folder", str(finished.path))
    check_usage_error(capsys, [command, "."], "no config.json in it")


@pytest.mark.parametrize("command", ["resume", "eval"])
def test_run_without_checkpoint_is_refused(command, folder, finished, capsys):
    Path("run").mkdir()
    Path("run/config.json").write_text(finished.config.read_text())
    check_usage_error(capsys, [command, "run"], "run/checkpoints", "no such directory")
    Path("run/config.json").write_text("{")
    check_usage_error(capsys, [command, "run"], "config.json: expected a JSON object", "restore it")
    Path("run/config.json").write_text("[]")
    check_usage_error(capsys, [command, "run"], "config.json: expected a JSON object, got a list")
    Path("run/config.json").write_text("{}")
    check_usage_error(capsys, [command, "run"], "config.json: expected format 'nnx-ppo run'")
    record = json.loads(finished.config.read_text())
    Path("run/config.json").write_text(json.dumps(record | {"env": 5}))
    check_usage_error(capsys, [command, "run"], "RunConfig.env: expected str", "got 5")


@pytest.mark.fast("eval")
@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("command", ["resume", "eval"])
def test_run_with_a_damaged_checkpoint_names_the_one_before(command, folder, finished, capsys):
    shutil.copytree(finished.path, "run")
    newest = max(Path("run/checkpoints").iterdir())
    shutil.rmtree(newest / "arrays" / "d")
    parts = (f"{newest}: expected a whole checkpoint", "is missing", "is step_0000000048")
    check_usage_error(capsys, [command, "run"], *parts)
    (newest / "checkpoint.json").write_text("[]")
    check_usage_error(capsys, [command, "run"], f"{newest}/checkpoint.json", "step_0000000048")
    shutil.rmtree(newest)
    assert main([command, "run"]) == 0


@pytest.mark.parametrize(
    "words",
    [["--episodes", "0"], ["--max-episode-length", "-1"], ["--max-episode-length", "0"]],
)
def test_eval_of_nothing_is_refused(finished, capsys, words):
    check_usage_error(capsys, ["eval", str(finished.path), *words], words[0], "at least 1")


def test_playground_without_the_extra_says_how_to_install_it(folder, capsys, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")  # so that nothing is set for rendering without one
    monkeypatch.setitem(sys.modules, "mujoco_playground", None)
    monkeypatch.delitem(sys.modules, "nnx_ppo_train.envs._playground", raising=False)
    words = ["train", "--env", "playground/CartpoleBalance"]
    check_usage_error(
        capsys,
        words,
        "uv run --extra playground nnx-ppo",
        "pip install nnx-ppo-train[playground]",
    )


# ---- help, choices and defaults --------------------------------------------------------------


def test_envs_lists_all_environments_and_networks(capsys):
    assert main(["envs"]) == 0
    said = capsys.readouterr().out
    for name in (*list_envs(), *list_networks()):
        assert name in said
    assert "package.module:factory" in said
    assert "playground/CartpoleBalance" in said


def test_envs_gives_most_of_80_columns_to_the_task(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["envs"]) == 0
    said = capsys.readouterr().out
    assert "the same without velocities: needs memory" in said
    assert "observation 4; action 1 continuous" in said
    assert "…" not in said


@pytest.mark.parametrize("command", [[], ["train"], ["eval"], ["resume"], ["envs"]])
def test_help_ends_with_0(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([*command, "--help"])
    assert "usage: nnx-ppo" in capsys.readouterr().out


def test_no_words_at_all_show_help(capsys):
    with pytest.raises(SystemExit, match="0"):
        main([])
    assert "train" in capsys.readouterr().out


def test_train_has_a_flag_for_every_field(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    said = capsys.readouterr().out
    arguments = parse(["train"])
    for group in ("net", "ppo", "eval", "video"):
        for field in dataclasses.fields(getattr(arguments, group)):
            assert f"--{group}.{field.name.replace('_', '-')}" in said
    for flag in ("--env", "--network", "--seed", "--run-dir", "--total-steps"):
        assert flag in said


def test_defaults_are_those_recommended_for_env_and_network():
    for env, network in (("recall", "lstm"), ("recall", "graph"), ("cartpole", "mlp")):
        arguments = parse(["train", "--env", env, f"--network={network}", "--seed", "3"])
        config, options = recommended(env, network)
        assert arguments.config() == dataclasses.replace(config, seed=3)
        assert arguments.net == options
    assert (parse(["train"]).env, parse(["train"]).network) == ("cartpole-positions", "graph")


def test_every_row_of_recommendations_is_legal_and_the_last_that_matches_wins():
    names = [(env.replace("*", "any"), network.replace("*", "any")) for env, network, _ in ROWS]
    names += [(env, network) for env in list_envs() for network in list_networks()]
    for env, network in names:
        config, options = recommended(env, network)
        parts = {"ppo": config.ppo, "eval": config.eval, "video": config.video, "net": options}
        wanted = {}
        for env_pattern, network_pattern, settings in ROWS:
            if fnmatchcase(env, env_pattern) and fnmatchcase(network, network_pattern):
                wanted |= settings
        assert wanted
        for setting, value in wanted.items():
            part, _, field = setting.rpartition(".")
            assert getattr(parts[part] if part else config, field) == value, (env, setting)


def test_newer_fields_are_flags():
    words = ["--checkpoint-every-minutes", "None", "--eval.group-by", "task", "--ppo.nonfinite"]
    config = parse(["train", *words, "raise", "--eval.group-names", "a", "b"]).config()
    assert config.checkpoint_every_minutes is None
    assert (config.eval.group_by, config.eval.group_names) == ("task", ("a", "b"))
    assert config.ppo.nonfinite == "raise"
    assert parse(["train", "--checkpoint-every-minutes", "0.5"]).checkpoint_every_minutes == 0.5


def test_logging_levels_combine():
    arguments = parse(["train", "--ppo.logging-level", "losses,GRAD_NORM"])
    assert arguments.ppo.logging_level == LoggingLevel.LOSSES | LoggingLevel.GRAD_NORM


# ---- parts -----------------------------------------------------------------------------------


def test_default_run_folder_is_free_and_has_no_odd_characters(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = make_run_folder(None, "playground/Task", "my.module:make", 3)
    assert first.path.parent == Path("runs")
    assert first.path.name.startswith("playground_Task-my.module_make-3-2")
    names = {make_run_folder(None, "a", "b", 0).path for _ in range(4)}
    assert len(names) == 4
    assert all(path.is_dir() for path in names)


def test_metrics_file_goes_on_after_the_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path)
    for step in (0, 10, 20, 30):
        first.write({"loss": float("nan") if step == 10 else step / 3}, step)
    first.close()
    with path.open("a") as file:
        file.write('{"step": 40, "cut sho')
    second = MetricsFile(path, start_step=20)
    second.write({"loss": 0.0}, 20)
    second.write({"loss": float("inf")}, 30)
    second.close()
    lines = read_metrics(path)
    assert [line["step"] for line in lines] == [0, 10, 20, 30]
    np.testing.assert_equal([line["loss"] for line in lines], [0.0, np.nan, 20 / 3, np.nan])
    assert [line["wall_time"] for line in lines] == sorted(line["wall_time"] for line in lines)


@pytest.mark.parametrize("name", list(list_envs()))
def test_every_environment_can_be_drawn(name, tmp_path):
    env = make_env(name)
    state = jax.jit(env.reset)(jax.random.key(0))
    frames = draw_frames(env, [state, state], height=120, width=160)
    assert [frame.shape for frame in frames] == [(120, 160, 3)] * 2
    save_gif(tmp_path / "a.gif", frames)
    with Image.open(tmp_path / "a.gif") as image:
        assert image.size == (160, 120)


def test_learning_curve_without_metrics_is_empty_but_valid(tmp_path):
    picture = tmp_path / "learning_curve.png"
    draw_learning_curve(picture, [tmp_path / "metrics.jsonl"], "nothing", None)
    with Image.open(picture) as image:
        assert image.width > 300


@pytest.mark.parametrize("length", [1, 2, 5, 120, 121, 500, 1001])
def test_thinned_trajectories_are_short_and_end_at_the_end(length):
    thinned = thin(list(range(length)), 120)
    assert len(thinned) == min(length, len(thinned)) <= 120
    assert (thinned[0], thinned[-1]) == (0, length - 1)
    assert len(set(thinned)) == len(thinned)


def test_compilation_cache_is_used_unless_it_cannot_be_written(tmp_path, monkeypatch):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir == str(cache_folder())
    jax.config.update("jax_compilation_cache_dir", before)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir == before
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", os.fspath(tmp_path))
    use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir == before
