"""Records of earlier versions mean what those versions did."""

import copy

import pytest
from nnx_ppo_train import PPOConfig, TrainConfig
from nnx_ppo_train._config_json import config_from_json, config_to_json
from nnx_ppo_train._migrations import (
    CHECKPOINT_VERSION,
    RUN_VERSION,
    migrated_checkpoint,
    migrated_config,
    migrated_run,
    run_versions,
    stand_ins,
)


def test_absent_fields_of_version_3_mean_what_that_version_did():
    config = config_from_json(TrainConfig, migrated_config({}, 3), "train")
    assert (config.ppo.nonfinite, config.ppo.weight_decay_mask) == ("ignore", "all")
    assert config.checkpoint_every_minutes is None
    assert config.ppo.n_envs == PPOConfig().n_envs


def test_fields_that_are_there_stay():
    written = config_to_json(TrainConfig(ppo=PPOConfig(nonfinite="raise")))
    before = copy.deepcopy(written)
    assert migrated_config(written, 3)["ppo"]["nonfinite"] == "raise"
    assert written == before


def test_this_version_adds_nothing():
    assert migrated_config({}, CHECKPOINT_VERSION) == {}


@pytest.mark.parametrize("version", run_versions())
def test_config_of_a_run_becomes_one_of_this_version(version):
    run = migrated_run({"version": version, "env": "cartpole", "train": {"seed": 3}})
    assert (run["version"], run["env"]) == (RUN_VERSION, "cartpole")
    added = {"nonfinite": "ignore", "weight_decay_mask": "all"} if version < 2 else {}
    added |= {"normalize_values": False} if version < 3 else {}
    assert run["train"].get("ppo", {}) == added


@pytest.mark.parametrize("train", [None, 3, {"ppo": 3}])
def test_malformed_configs_are_left_to_whoever_reads_them(train):
    assert migrated_run({"version": 1, "train": train})["train"] in (
        train,
        {"ppo": 3, "checkpoint_every_minutes": None},
    )


def test_checkpoint_of_version_3_becomes_one_of_this_version():
    record = migrated_checkpoint(
        {"version": 3, "steps_taken": 1, "leaves": {}, "files": {"a": 10}, "config": {}}
    )
    assert (record["version"], record["written_as"]) == (CHECKPOINT_VERSION, 3)
    assert record["files"] == {"a": {"bytes": 10}}
    assert (record["callbacks"], record["metrics"]) == ([], {})
    assert record["config"]["ppo"]["nonfinite"] == "ignore"


def test_new_leaves_have_stand_ins_in_old_checkpoints_alone():
    saved = ["schedules/learning_rate_scale", "variables/0/mean/value"]
    wanted = [*saved, "schedules/coming_scale", "variables/0/mean_low/value", "params/1_low/value"]
    assert stand_ins(saved, wanted, 3) == {
        "schedules/coming_scale": "schedules/learning_rate_scale",
        "variables/0/mean_low/value": None,
    }
    assert stand_ins(saved, wanted, 4) == {}
