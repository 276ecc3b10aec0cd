"""Configs survive JSON."""

import json

import pytest
from nnx_ppo_train import EvalConfig, LoggingLevel, PPOConfig, TrainConfig, VideoConfig
from nnx_ppo_train._config_json import config_from_json, config_to_json, flag_from_text


@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(),
        TrainConfig(
            ppo=PPOConfig(
                weight_decay=1e-4,
                logging_level=LoggingLevel.LOSSES | LoggingLevel.GRAD_NORM,
                logging_percentiles=(5, 95),
            ),
            eval=EvalConfig(logging_percentiles=None, logging_level=LoggingLevel.ALL),
            video=VideoConfig(render_kwargs={"height": 10, "width": 20}),
            seed=3,
        ),
    ],
)
def test_config_comes_back_from_json(config):
    data = json.loads(json.dumps(config_to_json(config), allow_nan=False))
    assert config_from_json(TrainConfig, data, "train") == config


def test_absent_fields_keep_their_defaults():
    assert config_from_json(TrainConfig, {"seed": 3}, "train") == TrainConfig(seed=3)


def test_unknown_field_raises_with_the_nearest_name():
    with pytest.raises(ValueError, match=r"train\.ppo: .* no field 'n_env'; did you mean 'n_envs'"):
        config_from_json(TrainConfig, {"ppo": {"n_env": 3}}, "train")


def test_illegal_value_raises():
    with pytest.raises(ValueError, match=r"PPOConfig\.n_envs: expected a whole number"):
        config_from_json(TrainConfig, {"ppo": {"n_envs": 0}}, "train")
    with pytest.raises(TypeError, match="train: expected an object with fields, got 3"):
        config_from_json(TrainConfig, 3, "train")


def test_flags_are_read_with_either_separator():
    expected = LoggingLevel.LOSSES | LoggingLevel.WEIGHTS
    assert flag_from_text(LoggingLevel, "losses,WEIGHTS", "level") == expected
    assert flag_from_text(LoggingLevel, "LOSSES|WEIGHTS", "level") == expected
    with pytest.raises(ValueError, match=r"level: expected NONE, LOSSES, .* got 'LOSS'"):
        flag_from_text(LoggingLevel, "LOSS", "level")
