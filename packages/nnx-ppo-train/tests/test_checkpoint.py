"""Checkpoints come back bit for bit, and say what does not fit."""

import dataclasses
import json
import logging

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from nnx_ppo_train import (
    PPOConfig,
    TrainConfig,
    latest_checkpoint,
    load_checkpoint,
    load_config,
    load_network,
    make_checkpoint_fn,
    make_env,
    save_checkpoint,
    train_ppo,
)

from ._checkpoints import (
    ITERATION,
    assert_identical,
    first_state,
    make_config,
    make_network,
    plain,
    trained_state,
)


@pytest.fixture(scope="module")
def env():
    return make_env("cartpole")


@pytest.fixture(scope="module")
def trained():
    return trained_state()


@pytest.fixture
def saved(tmp_path, trained):
    save_checkpoint(tmp_path / "saved", trained, make_config())
    return tmp_path / "saved"


def test_loaded_state_is_identical(env, trained, saved):
    loaded = load_checkpoint(saved, make_network(seed=1), env, make_config())
    assert_identical(loaded, trained)
    assert loaded.steps_taken == 2 * ITERATION


def test_load_leaves_the_template_alone(env, trained, saved):
    template = make_network(seed=1)
    before = plain(nnx.state(template))
    load_checkpoint(saved, template, env, make_config())
    jax.tree.map(np.testing.assert_array_equal, plain(nnx.state(template)), before)


def test_resumed_training_equals_uninterrupted_training(tmp_path, env, trained, saved):
    save = make_checkpoint_fn(tmp_path / "straight", keep=2)
    straight = train_ppo(
        env, make_network(), make_config(iterations=4), checkpoint_fn=save
    ).training_state
    assert latest_checkpoint(tmp_path / "straight").name == f"step_{4 * ITERATION:010d}"
    assert load_config(latest_checkpoint(tmp_path / "straight")) == make_config(iterations=4)
    names = sorted(path.name for path in (tmp_path / "straight").iterdir())
    assert names == [f"step_{steps:010d}" for steps in (3 * ITERATION, 4 * ITERATION)]
    template = make_network(seed=1)
    start = load_checkpoint(saved, template, env, make_config())
    resumed = train_ppo(env, template, make_config(iterations=4), initial_state=start)
    assert_identical(resumed.training_state, straight)


def test_checkpoint_holds_no_pickle_and_notes_version_and_config(saved):
    record = json.loads((saved / "checkpoint.json").read_text())
    assert (record["version"], record["steps_taken"]) == (5, 2 * ITERATION)
    assert record["config"]["ppo"]["n_envs"] == 4
    assert not [file for file in saved.rglob("*") if "pickle" in file.name or "pkl" in file.name]


def test_leaves_without_elements_come_back(tmp_path, trained, env):
    class Hollow:
        def __getattr__(self, name):
            return getattr(env, name)

        def reset(self, rng):
            state = env.reset(rng)
            return state.replace(info={**state.info, "nothing": jnp.zeros((0, 3))})

    states = trained.env_states
    states = states.replace(info={**states.info, "nothing": jnp.zeros((4, 0, 3))})
    state = dataclasses.replace(trained, env_states=states)
    save_checkpoint(tmp_path / "saved", state)
    loaded = load_checkpoint(tmp_path / "saved", make_network(), Hollow(), make_config())
    assert_identical(loaded, state)


def test_saving_over_something_raises(saved, trained):
    with pytest.raises(ValueError, match="expected a path that does not exist yet"):
        save_checkpoint(saved, trained)


def test_loading_nothing_raises(tmp_path, env):
    with pytest.raises(FileNotFoundError, match="expected a checkpoint, there is nothing"):
        load_checkpoint(tmp_path / "absent", make_network(), env, make_config())
    with pytest.raises(FileNotFoundError, match="no such directory"):
        latest_checkpoint(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="no checkpoint in it"):
        latest_checkpoint(tmp_path)


def test_loading_another_folder_raises_and_points_to_the_checkpoint(tmp_path, env, trained):
    with pytest.raises(ValueError, match=r"there is no checkpoint\.json"):
        load_checkpoint(tmp_path, make_network(), env, make_config())
    make_checkpoint_fn(tmp_path)(trained, 24)
    with pytest.raises(ValueError, match="a directory of checkpoints, load step_0000000024"):
        load_checkpoint(tmp_path, make_network(), env, make_config())


def test_loading_a_newer_format_raises(env, saved):
    file = saved / "checkpoint.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": 6}))
    with pytest.raises(ValueError, match=r"version 3 or 4 or 5, got .* version 6"):
        load_checkpoint(saved, make_network(), env, make_config())


def test_loading_another_width_raises_with_path_and_shapes(env, saved):
    expected = r"params/child_modules/1/bias/value: expected float32\[18\], got float32\[15\]"
    with pytest.raises(ValueError, match=expected):
        load_checkpoint(saved, make_network(hidden=6), env, make_config())


def test_loading_another_optimizer_raises_with_path(env, saved):
    config = make_config(gradient_clipping=None)
    with pytest.raises(ValueError, match=r"optimizer/.*: expected .*, got nothing"):
        load_checkpoint(saved, make_network(), env, config)


def test_loading_for_another_environment_raises_with_path(saved):
    with pytest.raises(ValueError, match=r"env_states/obs: expected float32\[4, 2\], got .*4, 4\]"):
        load_checkpoint(saved, make_network(), make_env("cartpole-positions"), make_config())


# ---- config, network alone -------------------------------------------------------------------


def test_saved_config_is_used_where_none_is_given(env, trained, saved):
    assert_identical(load_checkpoint(saved, make_network(seed=1), env), trained)
    assert load_config(saved) == make_config()


def test_missing_config_is_told(tmp_path, env):
    save_checkpoint(tmp_path / "saved", first_state())
    with pytest.raises(ValueError, match="expected a config, got none: it was saved without one"):
        load_checkpoint(tmp_path / "saved", make_network(), env)
    with pytest.raises(ValueError, match="pass the run's config"):
        load_config(tmp_path / "saved")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("learning_rate", optax.constant_schedule(1e-3)),
        ("weight_decay_mask", lambda path, leaf: True),
    ],
)
def test_functions_in_a_saved_config_are_told(tmp_path, field, value):
    config = TrainConfig(ppo=PPOConfig(**{field: value}))
    save_checkpoint(tmp_path / "saved", first_state(), config)
    with pytest.raises(ValueError, match=rf"config\.ppo\.{field}: .* name of a function"):
        load_config(tmp_path / "saved")


def test_network_alone_needs_no_environment_and_no_config(tmp_path, trained):
    save_checkpoint(tmp_path / "saved", trained)
    template = make_network(seed=1)
    loaded = load_network(tmp_path / "saved", template)
    expected = plain(nnx.state(trained.networks))
    jax.tree.map(np.testing.assert_array_equal, plain(nnx.state(loaded)), expected)
    assert loaded is not template


def test_network_of_another_width_is_refused(saved):
    with pytest.raises(ValueError, match=r"does not fit the network: params/.*float32\[18\]"):
        load_network(saved, make_network(hidden=6))


def test_states_of_callbacks_and_metrics_come_back(tmp_path, env):
    states = ({"best": 3.5, "values": [1, None, float("nan")]}, None)
    metrics = {"eval/episode_reward/mean": 2.5, "losses/actor": float("inf")}
    state = dataclasses.replace(first_state(), callbacks=states, metrics=metrics)
    save_checkpoint(tmp_path / "saved", state, make_config())
    text = (tmp_path / "saved" / "checkpoint.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    loaded = load_checkpoint(tmp_path / "saved", make_network(), env)
    assert loaded.metrics == metrics
    assert loaded.callbacks[0]["values"][:2] == [1, None]
    assert np.isnan(loaded.callbacks[0]["values"][2])
    assert loaded.callbacks[1] is None


def test_callback_state_that_is_no_json_raises(tmp_path):
    state = dataclasses.replace(first_state(), callbacks=(None, {"scale": jnp.ones(2)}))
    with pytest.raises(TypeError, match=r"state_dict\(\) of callback 1\['scale'\]: expected"):
        save_checkpoint(tmp_path / "saved", state)
    assert not (tmp_path / "saved").exists()


# ---- what does not fit -----------------------------------------------------------------------


def test_every_mismatching_path_is_named(env, saved):
    with pytest.raises(ValueError, match="does not fit") as caught:
        load_checkpoint(saved, make_network(hidden=6), env, make_config())
    text = str(caught.value)
    names = [
        name
        for name, leaf in json.loads((saved / "checkpoint.json").read_text())["leaves"].items()
        if 5 in leaf["shape"] or 15 in leaf["shape"]
    ]
    assert len(names) > 5
    assert [name for name in names if name not in text] == []
    assert "optimizer/" in text
    assert "It seems that the network differs" in text


def test_what_fits_is_loaded_where_that_is_allowed(env, trained, saved, caplog):
    template = make_network(hidden=6, seed=1)
    config = make_config()
    with caplog.at_level(logging.WARNING, "nnx_ppo_train"):
        state = load_checkpoint(saved, template, env, config, allow_partial=True)
    assert "params/child_modules/1/bias/value: expected float32[18], got float32[15]" in caplog.text
    mean = trained.networks.child_modules[0].mean[...]
    np.testing.assert_array_equal(state.networks.child_modules[0].mean[...], mean)
    assert np.any(mean != 0)
    kernel = template.child_modules[1].kernel[...]
    np.testing.assert_array_equal(state.networks.child_modules[1].kernel[...], kernel)
    assert state.steps_taken == trained.steps_taken
    assert (state.env_states, state.network_states, state.episodes) == (None, None, None)
    assert int(optax.tree.get(state.optimizer, "count")) == 0  # moments of other parameters


def test_all_of_it_is_loaded_in_part_where_everything_fits(env, trained, saved, caplog):
    loaded = load_checkpoint(saved, make_network(seed=1), env, allow_partial=True)
    assert_identical(loaded, trained)
    assert not caplog.records


# ---- other numbers of environments -----------------------------------------------------------


def wider(n_envs=8, iterations=2, **ppo):
    config = make_config(**ppo)
    total = 2 * ITERATION + (iterations - 2) * n_envs * 3
    ppo = dataclasses.replace(config.ppo, n_envs=n_envs, total_steps=total)
    return dataclasses.replace(config, ppo=ppo)


def lasting(state):
    return plain((nnx.state(state.networks), state.optimizer, state.rng_key, state.schedules))


def test_a_run_goes_on_with_another_number_of_environments(env, trained, saved):
    config = wider(iterations=3)
    start = load_checkpoint(saved, make_network(seed=1), env, config)
    assert (start.env_states, start.network_states, start.episodes) == (None, None, None)
    jax.tree.map(np.testing.assert_array_equal, lasting(start), lasting(trained))
    result = train_ppo(env, make_network(seed=1), config, initial_state=start)
    assert result.total_steps == trained.steps_taken + 8 * 3
    state = result.training_state
    assert state.env_states.obs.shape == (8, 4)
    assert int(state.schedules.updates) == 3 * config.ppo.updates_per_iteration
    assert state.networks.child_modules[0].sample_count == result.total_steps


@pytest.mark.parametrize("n_envs", [4, 8])
def test_episodes_that_were_not_saved_begin_anew(tmp_path, env, n_envs):
    state = dataclasses.replace(first_state(normalize_rewards=True), steps_taken=2 * ITERATION)
    save_checkpoint(
        tmp_path / "saved",
        state,
        make_config(normalize_values=False, normalize_rewards=True),
        include_env_state=False,
    )
    names = json.loads((tmp_path / "saved" / "checkpoint.json").read_text())["leaves"]
    assert not [n for n in names if n.startswith(("env_states", "network_states", "tally"))]
    assert "rewards/sums" not in names
    config = wider(n_envs, normalize_values=False, normalize_rewards=True)
    start = load_checkpoint(tmp_path / "saved", make_network(seed=1), env, config)
    assert (start.env_states, start.reward_sums) == (None, None)
    config = dataclasses.replace(config, seed=0)
    went_on = [
        train_ppo(env, make_network(seed=1), config, initial_state=begin).training_state
        for begin in (start, dataclasses.replace(start, steps_taken=start.steps_taken + 1))
    ]
    observations = [np.asarray(s.env_states.obs) for s in (*went_on, first_state())]
    assert observations[0].shape == (n_envs, 4)
    for index, one in enumerate(observations):  # neither those of the beginning, nor of a step on
        for other in observations[index + 1 :]:
            assert not np.isin(one, other).any()
    jax.tree.map(np.testing.assert_array_equal, lasting(went_on[0]), lasting(state))
    np.testing.assert_array_equal(went_on[0].reward_sums, np.zeros(n_envs))


def test_another_environment_is_refused_with_other_rows_too(saved):
    expected = r"env_states/obs: expected float32\[envs, 2\], got float32\[envs, 4\]"
    with pytest.raises(ValueError, match=expected):
        load_checkpoint(saved, make_network(), make_env("cartpole-positions"), wider())
