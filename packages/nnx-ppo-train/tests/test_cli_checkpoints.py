"""Checkpoints at the command line: the best one, those of Python, and other runs' parameters."""

import json
import shutil
from pathlib import Path

import pytest
from flax import nnx
from nnx_ppo_train import (
    EvalConfig,
    PPOConfig,
    TrainConfig,
    best_checkpoint,
    latest_checkpoint,
    make_checkpoint_fn,
    make_env,
    parameter_paths,
    train_ppo,
)
from nnx_ppo_train.cli import main
from nnx_ppo_train.presets import NetworkOptions, make_network

from ._cli import TINY, check_usage_error

pytestmark = pytest.mark.usefixtures("command_line", "no_pictures")
NAMED = ["--env", "cartpole", "--network", "mlp"]
MLP = ["train", *NAMED, "--net.hidden-size", "4", *TINY, "--total-steps", "32"]


@pytest.fixture(scope="module")
def of_python(tmp_path_factory):
    """A folder of checkpoints that Python wrote, of an MLP with 4 hidden units."""
    env = make_env("cartpole")
    network = make_network("mlp", env, nnx.Rngs(0), NetworkOptions(hidden_size=4))
    config = TrainConfig(
        ppo=PPOConfig(n_envs=4, rollout_length=4, total_steps=32, n_minibatches=2, n_epochs=1),
        eval=EvalConfig(n_envs=2, max_episode_length=8, every_steps=16),
        checkpoint_every_steps=16,
    )
    place = tmp_path_factory.mktemp("of_python")
    train_ppo(env, network, config, checkpoint_fn=make_checkpoint_fn(place / "saved", config))
    return place / "saved"


def test_checkpoints_of_python_are_evaluated(of_python, folder, capsys):
    words = [*NAMED, "--net.hidden-size", "4", "--episodes", "2"]
    for path, name in (
        (of_python, "step_0000000032"),
        (of_python / "step_0000000016", "step_0000000016"),
    ):
        assert main(["eval", str(path), *words]) == 0
        said = capsys.readouterr().out
        assert f"mlp on cartpole, {of_python / name}" in said
        assert "2 deterministic episodes from seed 0" in said
    assert main(["eval", str(of_python), *words, "--best"]) == 0
    assert str(best_checkpoint(of_python)) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "expected --env and --network beside a checkpoint that is in no run folder"),
        (["--env", "cartpole"], "--env, --network: expected both"),
        (["--env", "cartpol", "--network", "mlp"], "Did you mean 'cartpole'"),
        (NAMED, "does not fit the network"),
    ],
)
def test_checkpoint_of_python_with_a_mistake_is_told(of_python, folder, capsys, words, part):
    check_usage_error(capsys, ["eval", str(of_python), *words], part)


def test_checkpoint_inside_a_run_is_evaluated_by_its_path(finished, folder, capsys):
    checkpoint = finished.checkpoints / "step_0000000048"
    for path, name in ((checkpoint, checkpoint), (finished.checkpoints, finished.checkpoints)):
        assert main(["eval", str(path), "--episodes", "2"]) == 0
        assert f"graph on cartpole, {name}" in capsys.readouterr().out
    parts = ("expected no --env and --network beside a run folder",)
    check_usage_error(capsys, ["eval", str(finished.path), *NAMED], *parts)


def test_best_checkpoint_is_kept_named_and_evaluated(finished, folder, capsys):
    shutil.copytree(finished.path, "run")
    assert main(["resume", "run"]) == 0
    best = best_checkpoint("run/checkpoints")
    assert f"best checkpoint {best}" in capsys.readouterr().out
    assert main(["eval", "run", "--best", "--episodes", "2"]) == 0
    assert str(best) in capsys.readouterr().out


@pytest.mark.slow
def test_run_begins_with_the_parameters_of_another_and_keeps_some_frozen(folder, capsys):
    assert main([*MLP, "--run-dir", "first"]) == 0
    env = make_env("cartpole")
    network = make_network("mlp", env, nnx.Rngs(0), NetworkOptions(hidden_size=4))
    kernel = next(path for path in parameter_paths(network) if path.endswith("kernel"))
    words = ["--init-from", "first", "--init-freeze", kernel, "--seed", "3"]
    assert main([*MLP, "--run-dir", "second", *words]) == 0
    record = json.loads(Path("second/config.json").read_text())
    assert record["init_from"] == str(latest_checkpoint("first/checkpoints").absolute())
    assert (record["init_take"], record["init_freeze"]) == (["*"], [kernel])
    begun, first = (arrays(path) for path in ("second/checkpoints/step_0000000000",
                                              latest_checkpoint("first/checkpoints")))  # fmt: skip
    trained = arrays("second/checkpoints/step_0000000032")
    shutil.rmtree("first")  # only the beginning needs it
    assert main(["resume", "second", "--total-steps", "48"]) == 0
    assert main(["eval", "second", "--episodes", "2"]) == 0
    further = arrays("second/checkpoints/step_0000000048")
    frozen = f"{kernel}/value"
    assert first[frozen] == begun[frozen] == trained[frozen] == further[frozen]
    learned = frozen.replace("kernel", "bias")
    assert first[learned] == begun[learned] != trained[learned]


def arrays(path):
    """Checksums of a checkpoint's leaves of the network, by their path in it."""
    record = json.loads((Path(path) / "checkpoint.json").read_text())
    return {
        name.partition("/")[2]: leaf["checksum"]
        for name, leaf in record["leaves"].items()
        if name.startswith(("params", "variables"))
    }


def test_flags_of_other_runs_that_cannot_be_followed_are_told(folder, capsys):
    check_usage_error(capsys, [*MLP, "--init-take", "a"], "--init-take: expected --init-from")
    check_usage_error(capsys, [*MLP, "--init-from", "absent"], "absent: expected a directory of")
    check_usage_error(capsys, [*MLP, "--init-freeze", "nothing"], "freeze: patterns: expected a")


@pytest.mark.slow
def test_partly_fitting_checkpoint_goes_on_by_request(finished, folder, capsys):
    shutil.copytree(finished.path, "run")
    record = json.loads(Path("run/config.json").read_text())
    record["net"]["hidden_size"] = 5
    Path("run/config.json").write_text(json.dumps(record))
    words = ["resume", "run", "--total-steps", "80"]
    check_usage_error(capsys, words, "does not fit the network")
    assert main([*words, "--allow-partial"]) == 0
