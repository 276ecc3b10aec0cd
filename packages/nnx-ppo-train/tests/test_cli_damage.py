"""Damaged files, odd names and full disks: one line each, and no traceback."""

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nnx_ppo_train import _checkpoint_writing
from nnx_ppo_train._json_lines import JSONLinesLogger, read_metrics
from nnx_ppo_train.cli import main
from nnx_ppo_train.cli._arguments import parse
from nnx_ppo_train.cli._compilation_cache import cache_folder, use_compilation_cache
from nnx_ppo_train.cli._run_folder import RunFolder

from ._cli import GRAPH, TINY, check_usage_error

pytestmark = pytest.mark.usefixtures("command_line", "no_pictures")
MLP = ["train", "--env", "cartpole", "--network", "mlp", *TINY]


def changed(record, path, value):
    """A config with one entry replaced."""
    *groups, name = path.split(".")
    record = json.loads(json.dumps(record))
    place = record
    for group in groups:
        place = place[group]
    place[name] = value
    return json.dumps(record)


@pytest.mark.parametrize(
    "damage",
    [
        b"\xff\xfe\x00binary",
        b'{"format": "nnx-ppo run", "version"',
        b'{"format": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' * 100_000 + b"1" + b"}" * 100_000,
        ("version", 99),
        ("version", [1]),
        ("train.ppo.n_envs", 10**400),
        ("train.ppo.clip_range", 10**400),
        ("train.ppo.clip_range", 1e999),
        ("train.ppo.learning_rate", {"schedule": "mine"}),
        ("train.ppo.logging_level", 5),
        ("train.ppo", None),
        ("train", []),
        ("train.eval.group_names", [1]),
        ("train.checkpoint_every_minutes", "often"),
        ("net", 5),
        ("net.hidden_size", 10**30),
        ("network", ["mlp"]),
        ("network", "mlpp"),
        ("import_path", 5),
        ("import_path", [5]),
        ("init_freeze", "abc"),
    ],
)
def test_damaged_config_is_told_in_one_line(finished, folder, capsys, damage):
    Path("run").mkdir()
    if not isinstance(damage, bytes):
        record = json.loads(finished.config.read_text())
        damage = changed(record, *damage).replace("Infinity", "1e999").encode()
    Path("run/config.json").write_bytes(damage)
    for command in ("resume", "eval"):
        check_usage_error(capsys, [command, "run"])


def test_damaged_metrics_do_not_end_a_run(finished, folder, capsys):
    shutil.copytree(finished.path, "run")
    with Path("run/metrics.jsonl").open("ab") as file:
        file.write(b"\x00\xff\n[1]\n{}\n" + b"[" * 100_000 + b'\n{"step": "x"}\n{"step": 72')
    assert main(["resume", "run", "--total-steps", "80"]) == 0
    lines = read_metrics(Path("run/metrics.jsonl"))
    assert [line["step"] for line in lines] == [0, 16, 32, 48, 64, 80]
    Path("run/metrics.jsonl").write_bytes(b"\x00\xff")
    assert main(["resume", "run"]) == 0
    assert "No episode has ended yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (
            ["--seed", "4294967296"],
            "--seed: expected a whole number of at least 0 and at most",
        ),
        (["--seed", "-1"], "--seed: expected a whole number"),
        (["--episodes", str(10**30)], "--episodes: expected a whole number"),
        (["--max-episode-length", str(10**12)], "--max-episode-length: expected a whole number"),
    ],
)
def test_numbers_out_of_range_are_refused(finished, capsys, words, part):
    check_usage_error(capsys, ["eval", str(finished.path), *words], part)


@pytest.mark.parametrize(
    ("flag", "value", "part"),
    [
        ("--ppo.learning-rate", "1e39", "give a finite one, of at most 3.402823e+38"),
        ("--ppo.learning-rate", "1e-40", "float32 would make it 0"),
        ("--ppo.total-steps", str(10**17), "of at most 9007199254740992"),
        ("--ppo.weight-decay-mask", "some", "kernels"),
    ],
)
def test_flags_that_float32_cannot_hold_are_refused(capsys, flag, value, part):
    with pytest.raises(SystemExit, match="2"):
        main(["train", flag, value])
    said = capsys.readouterr()
    assert part in " ".join((said.out + said.err).replace("│", " ").split())


def test_decay_mask_is_one_of_the_names():
    assert parse(["train"]).ppo.weight_decay_mask == "kernels"
    assert parse(["train", "--ppo.weight-decay-mask", "all"]).ppo.weight_decay_mask == "all"


# ---- names -------------------------------------------------------------------------------------


def test_printed_commands_work_when_pasted(finished, folder, capsys):
    names = ["it's here", 'a "b" $HOME', "-dash", "two words", "plain"]
    for name in names:
        printed = RunFolder(Path(name)).name
        assert [Path(word) for word in shlex.split(printed)] == [Path(name)]
        assert not printed.startswith("-")
    shutil.copytree(finished.path, "it's here")
    check_usage_error(capsys, [*MLP, "--run-dir", "it's here"], "resume 'it'\"'\"'s here'`")
    assert main(["eval", *shlex.split(RunFolder(Path("it's here")).name), "--episodes", "2"]) == 0


def test_folder_name_that_is_not_utf8_is_told(folder, capsys):
    name = os.fsdecode(b"run-\xff")
    check_usage_error(capsys, [*MLP, "--run-dir", name], "expected a path in UTF-8", r"run-\xff")
    check_usage_error(capsys, ["eval", name], "there is no such folder")


def test_null_character_in_a_name_is_told(folder, capsys):
    for words in ([*MLP, "--run-dir", "a\0b"], ["eval", "a\0b"], ["resume", "a\0b"]):
        check_usage_error(capsys, words)


def test_current_folder_that_was_deleted_is_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for words in (MLP, ["eval", "run"], ["resume", "run"]):
        check_usage_error(capsys, words, "expected a current folder that exists")


@pytest.mark.parametrize("error", [RuntimeError, KeyError])
def test_without_a_home_nothing_is_cached(monkeypatch, error):
    def nobody():
        raise error("no home")

    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() is None
    use_compilation_cache()


REWARDS = """
from nnx_ppo_train.envs import CartPole


class Odd(CartPole):
    def reset(self, rng):
        return self.odd(super().reset(rng))

    def step(self, state, action):
        return self.odd(super().step(state.replace(reward=state.reward["plain"]), action))

    def odd(self, state):
        return state.replace(reward={"[/x]": 2 * state.reward, "plain": state.reward})
"""


@pytest.mark.slow
def test_names_of_rewards_are_no_markup(folder, capsys):
    Path("odd_rewards.py").write_text(REWARDS)
    words = ["--env", "odd_rewards:Odd", "--network", "mlp", "--run-dir", "run"]
    assert main(["train", *words, *TINY, "--total-steps", "16", "--ppo.combine-advantages"]) == 0
    assert main(["eval", "run", "--episodes", "2"]) == 0
    assert "return/[/x]" in capsys.readouterr().out


# ---- disks and streams -------------------------------------------------------------------------


def test_full_disk_for_metrics_is_noted_once_and_the_run_goes_on(folder, capsys, monkeypatch):
    def full(self):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(JSONLinesLogger, "_write_pending", full)
    assert main([*GRAPH, "--total-steps", "64", "--run-dir", "run"]) == 0
    said = capsys.readouterr()
    assert said.err.count("cannot be written (No space left on device); the run goes on") == 1
    assert "Finished 64 steps" in said.out


def test_full_disk_for_checkpoints_ends_a_run_that_does_not_look_finished(
    folder, capsys, monkeypatch
):
    check = _checkpoint_writing._check_space

    def full(unfinished, snapshot):
        if snapshot.steps_taken > 16:
            raise OSError(errno.ENOSPC, "No space left on device")
        check(unfinished, snapshot)

    monkeypatch.setattr(_checkpoint_writing, "_check_space", full)
    assert main([*GRAPH, "--total-steps", "64", "--run-dir", "run"]) == 1
    said = capsys.readouterr()
    assert [line for line in said.err.splitlines() if line.startswith("nnx-ppo: ")] == [
        line for line in said.err.splitlines() if "no space left on the device" in line
    ]
    assert "no space left on the device" in said.err
    assert "Traceback" not in said.err
    assert "Finished" not in said.out
    assert "Failed at" in said.out
    assert "run/checkpoints/step_0000000016" in said.out


@pytest.mark.fast(">/dev/full")
@pytest.mark.parametrize("streams", [">&- 2>&- <&-", ">/dev/full"])
def test_closed_and_full_streams_are_survived(tmp_path, streams):
    command = shlex.join([sys.executable, "-m", "nnx_ppo_train.cli", "envs"])
    done = subprocess.run(f"{command} {streams}", shell=True, cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
