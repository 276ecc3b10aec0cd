"""Saving beside training: complete or absent, one at a time, with the right ones kept."""

import dataclasses
import errno
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import (
    best_checkpoint,
    latest_checkpoint,
    load_checkpoint,
    make_checkpoint_fn,
    make_env,
    save_checkpoint,
)
from nnx_ppo_train._checkpoint_retention import Retention

from ._checkpoints import at, first_state, make_config, make_network

RETURN = "eval/episode_reward/mean"


@pytest.fixture(scope="module")
def env():
    return make_env("cartpole")


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def steps_in(folder):
    return [int(path.name[5:]) for path in sorted(folder.glob("step_*"))]


def test_checkpoint_fn_keeps_all_unless_told_otherwise(tmp_path):
    save = make_checkpoint_fn(tmp_path)
    for step in (0, 9_999_999_999, 12_345_678_901):
        save(first_state(), step)
    save.wait()
    assert len(list(tmp_path.iterdir())) == 3
    assert latest_checkpoint(tmp_path).name == "step_12345678901"


def test_interrupted_save_leaves_the_older_checkpoint(tmp_path, env, monkeypatch):
    save = make_checkpoint_fn(tmp_path, keep=1)
    save(first_state(), 10)
    save.wait()

    def fail(self, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.PosixPath.rename", fail)
        save(first_state(), 20)
        with pytest.raises(KeyboardInterrupt):
            save.wait()
    assert latest_checkpoint(tmp_path).name == "step_0000000010"
    load_checkpoint(latest_checkpoint(tmp_path), make_network(), env, make_config())
    save(first_state(), 20)
    save.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["step_0000000020"]


def test_saving_the_same_state_again_changes_nothing(tmp_path):
    save = make_checkpoint_fn(tmp_path)
    save(first_state(), 0)
    file = latest_checkpoint(tmp_path) / "checkpoint.json"
    before = file.stat().st_mtime_ns
    save(first_state(), 0)
    assert file.stat().st_mtime_ns == before


def test_checkpoint_fn_refuses_a_directory_of_another_run(tmp_path):
    make_checkpoint_fn(tmp_path)(at(24), 24)
    other = make_checkpoint_fn(tmp_path)
    with pytest.raises(ValueError, match=r"no checkpoints after step 0, found step_0000000024"):
        other(at(0), 0)
    state = dataclasses.replace(at(24), rng_key=jax.random.key(99))
    with pytest.raises(ValueError, match="got one of another run"):
        other(state, state.steps_taken)


@pytest.mark.parametrize("keep", [0, -1])
def test_keeping_none_raises(tmp_path, keep):
    with pytest.raises(ValueError, match="keep: expected a whole number of at least 1"):
        make_checkpoint_fn(tmp_path, keep=keep)


# ---- beside training -------------------------------------------------------------------------


@pytest.fixture
def held(monkeypatch):
    """Writing waits for this event."""
    event, write = (
        threading.Event(),
        sys.modules["nnx_ppo_train._checkpoint_saver"].write_checkpoint,
    )

    def wait_and_write(*arguments):
        assert event.wait(60)
        write(*arguments)

    monkeypatch.setattr("nnx_ppo_train._checkpoint_saver.write_checkpoint", wait_and_write)
    yield event
    event.set()


def test_training_goes_on_and_donates_while_a_state_is_written(tmp_path, held):
    state = at(10, dataclasses.replace(first_state(), env_states=jnp.arange(4.0) + 1))
    save = make_checkpoint_fn(tmp_path)
    save(state, 10)
    after = jax.jit(lambda x: x * 0, donate_argnums=0)(state.env_states)
    assert state.env_states.is_deleted()  # a view would have kept it, and the iteration copied it
    assert names_in(tmp_path) == []
    held.set()
    save.wait()
    assert names_in(tmp_path) == ["step_0000000010"]
    record = json.loads((tmp_path / "step_0000000010" / "checkpoint.json").read_text())
    assert record["leaves"]["env_states"]["checksum"] != f"{0:08x}"
    other = tmp_path / "other"
    save_checkpoint(other, dataclasses.replace(state, env_states=np.arange(4, dtype="f4") + 1))
    saved = json.loads((other / "checkpoint.json").read_text())["leaves"]["env_states"]
    assert saved == record["leaves"]["env_states"]
    assert not after.any()


def test_one_save_at_a_time(tmp_path, held):
    save = make_checkpoint_fn(tmp_path)
    save(at(10), 10)
    second = threading.Thread(target=save, args=(at(20), 20))
    second.start()
    second.join(0.3)
    assert second.is_alive()
    held.set()
    second.join()
    assert latest_checkpoint(tmp_path).name == "step_0000000020"  # which waits


@pytest.mark.parametrize("raised_by", ["call", "wait"])
def test_an_error_of_the_thread_is_raised_once(tmp_path, monkeypatch, raised_by):
    save = make_checkpoint_fn(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("orbax.checkpoint.StandardCheckpointer.save", _no_space)
        save(at(10), 10)
        with pytest.raises(OSError, match="no space left on the device"):
            save(at(20), 20) if raised_by == "call" else save.wait()
    save(at(20), 20)
    save.wait()
    assert names_in(tmp_path) == ["step_0000000020"]


EXITING = """
import time
import jax, numpy as np
from nnx_stateful import Dense
from flax import nnx
from nnx_ppo_train import TrainingState, _checkpoint_saver, make_checkpoint_fn

write = _checkpoint_saver.write_checkpoint

def late(*arguments):
    time.sleep(0.5)  # until the interpreter is on its way out
    write(*arguments)

_checkpoint_saver.write_checkpoint = late
network = Dense(2, 2, nnx.Rngs(0))
state = TrainingState(network, (), np.ones(3), (), (), jax.random.key(0), 7, None)
make_checkpoint_fn("saved")(state, 7)
make_checkpoint_fn("file/below")(state, 7)
make_checkpoint_fn("other")(state, 7)
"""


def test_a_process_that_exits_waits_for_its_saves_and_tells_of_failures(tmp_path):
    (tmp_path / "file").write_text("no folder")
    done = subprocess.run(
        [sys.executable, "-c", EXITING],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert f"checkpoint was not saved: {tmp_path}/file/below/step_0000000007" in lines[0]
    assert names_in(tmp_path / "saved") == names_in(tmp_path / "other") == ["step_0000000007"]


# ---- full disks, leftovers -------------------------------------------------------------------


def _no_space(self, path, arrays):
    path.mkdir()
    (path / "part").write_bytes(b"part")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_is_told_in_one_line_and_leaves_older_checkpoints(tmp_path, env, monkeypatch):
    save = make_checkpoint_fn(tmp_path, make_config(), keep=1)
    save(at(10), 10)
    save.wait()
    monkeypatch.setattr("orbax.checkpoint.StandardCheckpointer.save", _no_space)
    save(at(20), 20)
    with pytest.raises(OSError, match=r"step_0000000020: .*no space left .*free some") as caught:
        save.wait()
    assert caught.value.errno == errno.ENOSPC
    assert "\n" not in str(caught.value)
    assert names_in(tmp_path) == ["step_0000000010"]
    load_checkpoint(latest_checkpoint(tmp_path), make_network(), env)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of half a megabyte."""
    options = ["-t", "tmpfs", "-o", "size=512k", "tmpfs", str(tmp_path)]
    if (
        sys.platform != "linux"
        or subprocess.run(["mount", *options], capture_output=True).returncode
    ):
        pytest.skip("needs the right to mount a tmpfs")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_disk_that_is_really_full(small_disk, env, capfd):
    save = make_checkpoint_fn(small_disk / "saved", make_config(), keep=1)
    save(at(10), 10)
    save.wait()
    filler = small_disk / "filler"
    free = shutil.disk_usage(small_disk).free
    filler.write_bytes(bytes(free - 3 * 4096))
    save(at(20), 20)
    with pytest.raises(OSError, match=r"step_0000000020: .*no space left on the device, 0\.0 MB"):
        save.wait()
    assert "Traceback" not in capfd.readouterr().err
    assert names_in(small_disk / "saved") == ["step_0000000010"]
    load_checkpoint(latest_checkpoint(small_disk / "saved"), make_network(), env)
    filler.unlink()
    save(at(20), 20)
    save.wait()
    assert names_in(small_disk / "saved") == ["step_0000000020"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_everything_is_synced_before_an_older_checkpoint_is_deleted(tmp_path, monkeypatch):
    save = make_checkpoint_fn(tmp_path, keep=1)
    save(at(10), 10)
    save.wait()
    synced, deleted_after = [], []
    fsync, rmtree = os.fsync, shutil.rmtree

    def note_sync(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def note_deletion(path, **options):
        if "step_0000000010" in str(path):
            deleted_after.extend(synced)
        rmtree(path, **options)

    monkeypatch.setattr("os.fsync", note_sync)
    monkeypatch.setattr("shutil.rmtree", note_deletion)
    save(at(20), 20)
    save.wait()
    new = list((tmp_path / "step_0000000020").rglob("*"))
    written = {re.sub(r"/\.unfinished-(step_\d+)[^/]*", r"/\1", path) for path in deleted_after}
    assert {str(path) for path in new} <= written
    assert str(tmp_path) == deleted_after[-1]  # the folder, after the rename in it


def test_unfinished_saves_of_running_processes_stay(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    host = re.sub(r"\W", "_", platform.node())[:40]
    running = tmp_path / f".unfinished-step_0000000030-{host}-{other.pid}-0"
    earlier = tmp_path / f".unfinished-step_0000000030-{other.pid}"  # as version 3 named them
    elsewhere = tmp_path / f".unfinished-step_0000000030-{host}x-{other.pid}-0"
    for folder in (running, earlier, elsewhere):
        (folder / "arrays").mkdir(parents=True)
    save = make_checkpoint_fn(tmp_path)
    save(at(10), 10)
    save.wait()
    assert running.exists()
    assert earlier.exists()
    other.communicate(b"\n")
    save(at(20), 20)
    save.wait()
    assert not running.exists()
    assert not earlier.exists()
    assert elsewhere.exists()  # of a machine whose processes nobody here can see


# ---- retention -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        (Retention(), [0, 10, 20, 30, 40, 50]),
        (Retention(keep=2), [40, 50]),
        (Retention(keep=1, best_by="x"), [20, 50]),
        (Retention(keep=1, every_steps=20), [0, 20, 40, 50]),
        (Retention(keep=1, every_steps=25), [0, 30, 50]),
        (Retention(keep=1, best_by="x", every_steps=100), [0, 20, 50]),
    ],
)
def test_what_a_rule_keeps(retention, kept):
    steps = [0, 10, 20, 30, 40, 50]
    scores = dict(zip(steps, [1.0, float("nan"), 3.0, 3.0, float("inf"), None], strict=True))
    assert [step for step in steps if step not in retention.superfluous(steps, scores)] == kept


def test_the_best_checkpoint_is_kept_and_found(tmp_path):
    save = make_checkpoint_fn(tmp_path, keep=1, keep_best=True)
    returns = {10: -2.0, 20: -1.0, 30: float("nan"), 40: -1.5}
    due = []
    for step, value in returns.items():
        due.append(save.is_due({RETURN: value}, step))
        save(at(step, eval__episode_reward__mean=value), step)
    save.wait()
    assert due == [True, True, False, False]
    assert steps_in(tmp_path) == [20, 40]
    assert best_checkpoint(tmp_path).name == "step_0000000020"
    assert not save.is_due({"losses/actor": 5.0}, 50)
    later = make_checkpoint_fn(tmp_path, keep=1, keep_best=RETURN)  # as in a process that resumes
    assert not later.is_due({RETURN: -1.2}, 50)
    assert later.is_due({RETURN: -0.5}, 50)
    later(at(50, eval__episode_reward__mean=-1.2), 50)
    later.wait()
    assert steps_in(tmp_path) == [20, 50]


def test_best_checkpoint_names_the_metrics_there_are(tmp_path):
    save = make_checkpoint_fn(tmp_path)
    save(at(10, eval__episode_reward__mean=1.0), 10)
    with pytest.raises(ValueError, match=rf"finite 'eval/lifespan', got {RETURN}"):
        best_checkpoint(tmp_path, "eval/lifespan")
    with pytest.raises(FileNotFoundError, match="no such directory"):
        best_checkpoint(tmp_path / "absent")


def test_nothing_is_due_without_a_metric(tmp_path):
    assert not make_checkpoint_fn(tmp_path).is_due({RETURN: 1.0}, 10)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"keep": 1, "keep_every_steps": 0}, ValueError, "keep_every_steps: .* at least 1"),
        ({"keep_every_steps": 10}, ValueError, "expected None where keep is None"),
        ({"keep_best": 3}, TypeError, "keep_best: expected True, None or the name of a metric"),
    ],
)
def test_illegal_options_raise(tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        make_checkpoint_fn(tmp_path, **options)


# ---- values that are not finite --------------------------------------------------------------


def spoiled(step, value, name="kernel"):
    state = at(step)
    network = nnx.clone(state.networks)
    module = network.child_modules[1 if name == "kernel" else 0]
    variable = getattr(module, name)
    variable.set_value(variable.get_value().at[0].set(value))
    return dataclasses.replace(state, networks=network)


def test_states_that_are_not_finite_never_push_out_the_last_finite_one(tmp_path, env, caplog):
    save = make_checkpoint_fn(tmp_path, make_config(), keep=1)
    save(at(10), 10)
    for step, value in ((20, jnp.nan), (30, jnp.inf)):
        save(spoiled(step, value), step)
    save.wait()
    assert names_in(tmp_path) == ["nonfinite_step_0000000030", "step_0000000010"]
    assert latest_checkpoint(tmp_path).name == "step_0000000010"
    assert "not finite at step 30: params/child_modules/1/kernel/value" in caplog.text
    apart = load_checkpoint(tmp_path / "nonfinite_step_0000000030", make_network(), env)
    assert np.isinf(apart.networks.child_modules[1].kernel[...]).any()
    save(at(40), 40)
    save.wait()
    assert steps_in(tmp_path) == [40]


def test_statistics_and_moments_count_as_well(tmp_path):
    save = make_checkpoint_fn(tmp_path)
    save(at(10), 10)
    save(spoiled(20, jnp.nan, "mean"), 20)
    moments = jax.tree.map(lambda leaf: leaf * jnp.nan, first_state().optimizer)
    save(dataclasses.replace(at(30), optimizer=moments), 30)
    save.wait()
    assert steps_in(tmp_path) == [10]


def test_what_is_infinite_from_the_start_is_so_by_design(tmp_path):
    save = make_checkpoint_fn(tmp_path)
    save(spoiled(10, -jnp.inf, "mean"), 10)
    save(spoiled(20, -jnp.inf, "mean"), 20)
    save(spoiled(30, jnp.nan, "mean"), 30)
    save.wait()
    assert steps_in(tmp_path) == [10, 20]


def test_infinite_environment_states_are_saved_as_they_are(tmp_path):
    state = dataclasses.replace(first_state(), env_states=jnp.full(4, jnp.inf))
    save = make_checkpoint_fn(tmp_path)
    save(state, 10)
    save.wait()
    assert steps_in(tmp_path) == [10]
