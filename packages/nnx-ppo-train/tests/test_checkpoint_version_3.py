"""Runs of checkpoint version 3 load for ever, and go on as that version did."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import (
    init_from,
    latest_checkpoint,
    load_checkpoint,
    load_config,
    load_network,
    make_checkpoint_fn,
    make_env,
    train_ppo,
)
from nnx_ppo_train._config_json import config_from_json
from nnx_ppo_train.presets import NetworkOptions, make_network

RUN = Path(__file__).parent / "fixtures" / "run_version_3"
CHECKPOINT = RUN / "checkpoints" / "step_0000000096"
EXPECTED = json.loads((RUN / "expected.json").read_text())


@pytest.fixture(scope="module")
def env():
    return make_env("cartpole-positions")


def network(env, seed=9):
    options = json.loads((RUN / "config.json").read_text())["net"]
    options = config_from_json(NetworkOptions, options, "net")
    return make_network("lstm", env, nnx.Rngs(seed), options)


def assert_close(networks, expected, tolerance):
    arrays = {
        "/".join(map(str, path)): variable.get_value()
        for path, variable in nnx.to_flat_state(nnx.state(networks))
    }
    assert expected.keys() <= arrays.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(
            np.asarray(arrays[name]), values, rtol=tolerance, atol=tolerance, err_msg=name
        )


def test_it_loads_with_what_that_version_meant(env):
    state = load_checkpoint(CHECKPOINT, network(env), env)
    assert_close(state.networks, EXPECTED["loaded"], 0)
    assert state.steps_taken == EXPECTED["steps_taken"][0]
    assert (state.callbacks, state.metrics) == ((), {})
    config = load_config(CHECKPOINT)
    assert (config.ppo.nonfinite, config.ppo.weight_decay_mask) == ("ignore", "all")
    assert config.checkpoint_every_minutes is None


def test_it_goes_on_as_it_did(env, tmp_path):
    config = load_config(CHECKPOINT)
    save = make_checkpoint_fn(tmp_path, config)
    start = load_checkpoint(CHECKPOINT, network(env), env, config)
    state = train_ppo(
        env, network(env), config, initial_state=start, checkpoint_fn=save
    ).training_state
    save.wait()
    assert state.steps_taken == EXPECTED["steps_taken"][1]
    assert_close(state.networks, EXPECTED["continued"], 1e-4)
    assert float(state.schedules.adaptation) == pytest.approx(EXPECTED["adaptation"], rel=1e-4)
    std = float(state.reward_normalizer.sums.std)
    assert std == pytest.approx(EXPECTED["reward_std"], rel=1e-4)
    again = load_checkpoint(latest_checkpoint(tmp_path), network(env), env)
    assert_close(again.networks, EXPECTED["continued"], 1e-4)


def test_its_network_serves_alone_and_as_a_beginning(env):
    assert_close(load_network(CHECKPOINT, network(env)), EXPECTED["loaded"], 0)
    assert_close(init_from(CHECKPOINT, network(env)), EXPECTED["loaded"], 0)


def test_the_state_it_resumes_from_is_not_saved_again(env, tmp_path):

    shutil.copytree(CHECKPOINT, tmp_path / CHECKPOINT.name)
    before = (tmp_path / CHECKPOINT.name / "checkpoint.json").read_bytes()
    start = load_checkpoint(CHECKPOINT, network(env), env)
    save = make_checkpoint_fn(tmp_path)
    save(start, start.steps_taken)
    save.wait()
    assert (tmp_path / CHECKPOINT.name / "checkpoint.json").read_bytes() == before
