"""Code that a stranger's run folder names is not imported unasked."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from nnx_ppo_train.cli import main
from nnx_ppo_train.cli._run_config import RunConfig
from nnx_ppo_train.cli._trust import import_folders

from ._cli import TINY, check_usage_error

pytestmark = pytest.mark.usefixtures("command_line")
RAISES = "raise RuntimeError('imported')"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A current folder, and beside it another one that is a stranger's."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    return here, there


def write(path, text=RAISES):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def config(env, import_path=(), network="mlp"):
    return RunConfig(env=env, network=network, import_path=import_path)


@pytest.mark.parametrize("command", ["eval", "resume"])
def test_code_elsewhere_is_neither_imported_nor_run(finished, place, capsys, command):
    _, there = place
    shutil.copytree(finished.path, there / "run")
    write(there / "stranger" / "__init__.py")
    write(there / "stranger" / "code.py")
    record = json.loads((there / "run/config.json").read_text())
    record |= {"env": "stranger.code:make_env", "import_path": [str(there)]}
    write(there / "run/config.json", json.dumps(record))
    before = list(sys.path)
    parts = ("the run's env is 'stranger.code:make_env'", str(there), "--trust")
    check_usage_error(capsys, [command, str(there / "run")], *parts)
    assert "stranger" not in sys.modules
    assert sys.path == before
    with pytest.raises(RuntimeError, match="imported"):
        main([command, str(there / "run"), "--trust"])


def test_network_elsewhere_is_refused_too(place):
    _, there = place
    write(there / "net_of_a_stranger.py")
    run = config("cartpole", (str(there),), "net_of_a_stranger:make")
    with pytest.raises(Exception, match=r"the run's network is 'net_of_a_stranger:make'"):
        import_folders(run, there / "run", trusted=False)


def test_built_in_names_and_code_of_the_current_folder_are_trusted(place):
    here, there = place
    write(here / "mine.py")
    write(here / "package" / "__init__.py")
    write(here / "package" / "part" / "code.py")  # a folder without __init__.py in a package
    write(here / "tasks" / "chase.py")  # and outside one
    for env in (
        "cartpole", "playground/Task", "mine:make", "package:make", "package.part.code:make",
        "tasks.chase:make",
    ):  # fmt: skip
        folders = import_folders(config(env, (str(there),)), here / "runs" / "a", trusted=False)
        assert folders == (str(here),), env
    assert import_folders(config("x:y", (str(there),)), there, trusted=True) == (str(there),)


def test_tricks_are_refused(place):
    here, there = place
    write(there / "elsewhere.py")
    write(here / "runs" / "a" / "inside.py")  # within the run folder
    write(here / "loads" / "x" / "beside.py")  # in one archive with a run
    (here / "linked.py").symlink_to(there / "elsewhere.py")
    (here / "linked_package").symlink_to(there)
    write(here / "json.py")  # a name that is loaded from elsewhere already
    write(here / "math.py")
    for env, folder in (
        ("elsewhere:make", "runs/a"), ("runs.a.inside:make", "runs/a"),
        ("loads.x.beside:make", "loads/y/run"), ("linked:make", "runs/a"),
        ("linked_package.elsewhere:make", "runs/a"), ("json:loads", "runs/a"),
        ("sys:exit", "runs/a"), ("os:abort", "runs/a"), ("absent:make", "runs/a"),
        ("..there.elsewhere:make", "runs/a"), (":make", "runs/a"),
    ):  # fmt: skip
        with pytest.raises(Exception, match="expected code in the current folder or --trust"):
            import_folders(config(env, (str(there),)), here / folder, trusted=False)


def test_folder_of_the_run_as_current_folder_is_not_trusted(place, monkeypatch):
    _, there = place
    write(there / "run" / "code_in_run.py")
    monkeypatch.chdir(there / "run")
    with pytest.raises(Exception, match="expected code in the current folder"):
        import_folders(config("code_in_run:make"), Path(), trusted=False)


def test_own_run_is_evaluated_from_its_folder_and_by_trust_elsewhere(folder, tmp_path, capsys):
    words = ["train", "--env", f"{folder}:make_env", "--network", f"{folder}:make_network", *TINY]
    assert main([*words, "--total-steps", "16", "--run-dir", "run"]) == 0
    record = json.loads(Path("run/config.json").read_text())
    assert "net" not in record  # its own network would ignore the options
    assert main(["eval", "run", "--episodes", "2"]) == 0
    del sys.modules[folder]
    (tmp_path / "other").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path / "other")
        patch.setattr(sys, "path", [p for p in sys.path if p != str(tmp_path)])
        check_usage_error(capsys, ["eval", "../run"], "add --trust")
        assert main(["eval", "../run", "--trust", "--episodes", "2"]) == 0
