"""Damaged checkpoints are refused, or load exactly what was saved; the one before is named."""

import json
import random
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import (
    latest_checkpoint,
    load_checkpoint,
    load_config,
    load_network,
    make_checkpoint_fn,
    make_env,
    save_checkpoint,
)
from nnx_ppo_train._checkpoint_files import record_checksum
from nnx_ppo_train.presets import NetworkOptions
from nnx_ppo_train.presets import make_network as make_preset

from ._checkpoints import assert_identical, first_state, make_config, make_network, plain

OLD = Path(__file__).parent / "fixtures/run_version_3/checkpoints/step_0000000096"
FLIPS = 5  # in every file of the arrays


@pytest.fixture(scope="module")
def env():
    return make_env("cartpole")


@pytest.fixture
def saved(tmp_path):
    save_checkpoint(tmp_path / "saved", first_state(), make_config())
    return tmp_path / "saved"


def truncate(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def largest(folder):
    return max(
        (file for file in folder.rglob("*") if file.is_file()), key=lambda f: f.stat().st_size
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "expected a JSON object, got a list"),
        ('{"format": "nnx-ppo', "expected a JSON object, got text that is none"),
        ('{"format": "nnx-ppo-train checkpoint", "version": 3}', "expected the entries leaves"),
        (
            '{"format": "nnx-ppo-train checkpoint", "version": 3, "steps_taken": 1, '
            '"leaves": {"a": {}}}',
            "expected the entries leaves",
        ),
    ],
)
def test_damaged_record_names_the_file_and_the_checkpoint_before(tmp_path, env, text, problem):
    save = make_checkpoint_fn(tmp_path)
    save(first_state(), 10)
    save(first_state(), 20)
    newest = latest_checkpoint(tmp_path)
    (newest / "checkpoint.json").write_text(text)
    with pytest.raises(ValueError, match=problem) as caught:
        load_checkpoint(newest, make_network(), env, make_config())
    assert str(caught.value).startswith(f"{newest}/checkpoint.json: ")
    assert f"restore it, or delete {newest}; the one before is step_0000000010" in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda arrays: truncate(largest(arrays)), r"arrays/.* has \d+ bytes instead of \d+"),
        (lambda arrays: largest(arrays).unlink(), r"arrays/.* is missing"),
        (
            lambda arrays: truncate(arrays / "manifest.ocdbt"),
            r"arrays/manifest\.ocdbt has \d+ bytes",
        ),
        (lambda arrays: (arrays / "_METADATA").unlink(), r"arrays/_METADATA is missing"),
        (lambda arrays: shutil.rmtree(arrays), r"arrays/.* is missing"),
    ],
)
def test_damaged_arrays_are_told_in_one_sentence(saved, env, capfd, damage, problem):
    damage(saved / "arrays")
    match = rf"saved: expected a whole checkpoint, got one that cannot be read \({problem}"
    with pytest.raises(ValueError, match=match) as caught:
        load_checkpoint(saved, make_network(), env, make_config())
    assert "; delete it, there is none before it" in str(caught.value)
    assert "Event loop" not in capfd.readouterr().err


def test_arrays_of_wrong_content_are_told_without_the_store_specification(saved, env, monkeypatch):
    def restore(*_):  # a real failure goes on in threads, which complain after the test
        raise ValueError("DATA_LOSS: checksum [tensorstore_spec='{}']")

    monkeypatch.setattr("orbax.checkpoint.StandardCheckpointer.restore", restore)
    with pytest.raises(
        ValueError, match=r"one that cannot be read \(DATA_LOSS: checksum\); delete"
    ):
        load_checkpoint(saved, make_network(), env, make_config())


def flip(file, position, bit):
    data = bytearray(file.read_bytes())
    data[position] ^= 1 << bit
    file.write_bytes(bytes(data))


@pytest.fixture(scope="module")
def two_checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    save = make_checkpoint_fn(folder, make_config())
    save(first_state(), 10)
    save(first_state(), 20)
    return folder, latest_checkpoint(folder)


def test_a_flipped_bit_never_loads_as_other_values(two_checkpoints, env):
    _, path = two_checkpoints
    network, config = make_network(seed=1), make_config()
    files = sorted(file for file in path.rglob("*") if file.is_file())
    messages, loaded = [], 0
    for file in files:
        whole = file.read_bytes()
        flips = 60 if file.name == "checkpoint.json" else FLIPS
        for index in range(flips):
            flip(file, index * len(whole) // flips, index % 8)
            try:
                state = load_checkpoint(path, network, env, config)
            except ValueError as error:
                messages.append(str(error))
            else:
                assert_identical(state, first_state())
                loaded += 1
            finally:
                file.write_bytes(whole)
    assert len(messages) > 100
    for message in messages:
        assert message.startswith(str(path))
        assert "the one before is step_0000000010" in message
        assert "\n" not in message
    assert loaded < 10  # white space in the record
    assert_identical(load_checkpoint(path, network, env, config), first_state())


def test_a_flip_in_an_array_names_its_file(two_checkpoints, env):
    _, path = two_checkpoints
    file = largest(path / "arrays" / "ocdbt.process_0")
    whole = file.read_bytes()
    flip(file, len(whole) // 2, 0)
    match = rf"\({file.relative_to(path).as_posix()} was changed after it was written"
    with pytest.raises(ValueError, match=match):
        load_checkpoint(path, make_network(), env, make_config())
    file.write_bytes(whole)


BAD = [None, -1, 2.5, 10**15, True, "x", "key<fry>", [], [-1], ["x"], {}, {"a": None}]


def mutated(value, rng):
    """The value with one of its parts deleted, renamed or replaced."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(sorted(value))
        rest = {key: entry for key, entry in value.items() if key != name}
        how = rng.randrange(6)
        if how == 0:
            return rest
        return rest | ({"new": value[name]} if how == 1 else {name: mutated(value[name], rng)})
    if isinstance(value, list) and value and rng.random() < 0.5:
        return [*value[:-1], mutated(value[-1], rng)]
    return rng.choice(BAD)


def test_malformed_records_are_told_and_never_load_as_other_values(tmp_path, env):
    path = tmp_path / OLD.name
    shutil.copytree(OLD, path)
    file, rng = path / "checkpoint.json", random.Random(0)
    whole = json.loads(file.read_text())
    options = NetworkOptions(hidden_size=4)
    network = make_preset("lstm", make_env("cartpole-positions"), nnx.Rngs(0), options)
    expected = plain(nnx.state(load_network(path, network)))
    told = 0
    for _ in range(150):
        file.write_text(json.dumps(mutated(whole, rng)))
        try:
            loaded = load_network(path, network)
            load_config(path)
        except ValueError as error:
            told += str(error).startswith(str(path))
        else:
            equal = jax.tree.map(
                np.array_equal, plain(nnx.state(loaded)), plain(nnx.state(expected))
            )
            assert all(jax.tree.leaves(equal))
            told += 1
    assert told == 150


def test_an_array_that_was_stored_wrongly_is_named(saved, env, monkeypatch):
    from orbax.checkpoint import StandardCheckpointer

    restore = StandardCheckpointer.restore

    def wrong(self, *arguments):
        arrays = restore(self, *arguments)
        return arrays | {"schedules/adaptation": arrays["schedules/adaptation"] + 1}

    monkeypatch.setattr("orbax.checkpoint.StandardCheckpointer.restore", wrong)
    with pytest.raises(ValueError, match="leaf schedules/adaptation has other values"):
        load_checkpoint(saved, make_network(), env, make_config())


def test_a_record_of_this_version_without_its_checksum_is_refused(saved, env):
    file = saved / "checkpoint.json"
    record = json.loads(file.read_text())
    del record["checksum"]
    file.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="expected content with the checksum None"):
        load_checkpoint(saved, make_network(), env, make_config())
    file.write_text(json.dumps(record | {"checksum": record_checksum(record)}))
    load_checkpoint(saved, make_network(), env, make_config())
