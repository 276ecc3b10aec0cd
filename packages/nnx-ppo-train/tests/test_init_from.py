"""Networks begin with another run's parameters, and train only what is not frozen."""

import logging

import jax
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import (
    freeze,
    init_from,
    load_checkpoint,
    load_network,
    make_env,
    parameter_paths,
    save_checkpoint,
    train_ppo,
)
from nnx_ppo_train._adapter import ValueUnits
from nnx_ppo_train.presets import list_networks
from nnx_ppo_train.presets import make_network as make_preset
from nnx_stateful import Dense, FixedParameter, Sequential

from ._checkpoints import first_state, make_config, make_network, plain


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("other") / "saved"
    save_checkpoint(path, first_state(), make_config())
    return path


def arrays(network):
    return {
        "/".join(map(str, path)): plain(variable.get_value())
        for path, variable in nnx.to_flat_state(nnx.state(network, nnx.Not(ValueUnits)))
    }


def test_everything_but_random_keys_is_taken(saved):
    template = make_network(seed=1)
    before = arrays(template)
    network = init_from(saved, template)
    expected = arrays(first_state().networks)
    for name, array in arrays(network).items():
        wanted = before[name] if name.endswith("noise_key") else expected[name]
        np.testing.assert_array_equal(array, wanted, err_msg=name)
    jax.tree.map(np.testing.assert_array_equal, arrays(template), before)


def taken_by(saved, take):
    template = make_network(seed=1)
    before, after = arrays(template), arrays(init_from(saved, template, take=take))
    return [name for name in before if np.any(before[name] != after[name])]


@pytest.mark.parametrize(
    ("take", "expected"),
    [
        ("child_modules/1", ["child_modules/1/kernel", "child_modules/1/recurrent_kernel"]),
        ("*/recurrent_kernel", ["child_modules/1/recurrent_kernel"]),
        (
            ["child_modules/2/child_modules/1/*", "*recurrent*"],
            ["child_modules/1/recurrent_kernel", "child_modules/2/child_modules/1/linear/kernel"],
        ),
    ],
)
def test_patterns_choose(saved, take, expected):
    assert taken_by(saved, take) == expected


def test_what_is_left_is_logged(saved, caplog):
    with caplog.at_level(logging.INFO, "nnx_ppo_train"):
        init_from(saved, make_network(seed=1), take="child_modules/1")
    assert "child_modules/2/child_modules/1/linear/kernel" in caplog.text
    assert "child_modules/1/kernel" not in caplog.text


def test_a_pattern_without_a_match_lists_the_paths(saved):
    with pytest.raises(ValueError, match=r"take: .*got 'cortex/\*'; the paths are child_modules/0"):
        init_from(saved, make_network(), take=["child_modules/1", "cortex/*"])
    with pytest.raises(TypeError, match="take: expected patterns"):
        init_from(saved, make_network(), take=[3])


def test_other_shapes_are_named_or_left_out(saved, caplog):
    template = make_network(hidden=6, seed=1)
    with pytest.raises(ValueError, match="narrow `take`") as caught:
        init_from(saved, template)
    for name in ("1/kernel", "1/recurrent_kernel", "2/child_modules/1/linear/kernel"):
        assert f"child_modules/{name}/value: expected float32" in str(caught.value)
    network = init_from(saved, template, allow_partial=True)
    assert "child_modules/1/kernel/value: expected float32[4, 18], got" in caplog.text
    kernel = "child_modules/1/kernel"
    np.testing.assert_array_equal(arrays(network)[kernel], arrays(template)[kernel])
    fits = "child_modules/2/child_modules/1/linear/bias"
    np.testing.assert_array_equal(arrays(network)[fits], arrays(first_state().networks)[fits])


def test_networks_with_less_take_from_those_with_more(saved):
    network = Sequential([Dense(4, 4, nnx.Rngs(0))])
    with pytest.raises(ValueError, match=r"child_modules/0/linear/bias/value: .*, got nothing"):
        init_from(saved, network)


# ---- freezing --------------------------------------------------------------------------------


FROZEN = ["child_modules/1", "*linear/bias"]


def test_frozen_parameters_do_not_move_in_training(tmp_path):
    env = make_env("cartpole")
    template = make_network()
    network = freeze(template, FROZEN)
    assert not nnx.state(template, FixedParameter)
    before = arrays(network)
    jax.tree.map(np.testing.assert_array_equal, before, arrays(template))
    config = make_config(weight_decay=0.1)
    result = train_ppo(env, network, config)
    moved = {name for name, array in arrays(network).items() if np.any(array != before[name])}
    params = {name for name in before if name.endswith(("kernel", "bias"))}
    frozen = {name for name in params if "child_modules/1/" in name[:16] or "linear/bias" in name}
    assert params & moved == params - frozen
    assert len(frozen) == 5
    save_checkpoint(tmp_path / "saved", result.training_state, config)
    again = load_checkpoint(tmp_path / "saved", freeze(make_network(seed=1), FROZEN), env)
    jax.tree.map(np.testing.assert_array_equal, arrays(again.networks), arrays(network))
    unfrozen = init_from(tmp_path / "saved", make_network(seed=1))
    np.testing.assert_array_equal(
        arrays(unfrozen)["child_modules/1/kernel"], before["child_modules/1/kernel"]
    )
    with pytest.raises(ValueError, match="variables/child_modules/1/kernel"):
        load_network(tmp_path / "saved", make_network())


@pytest.mark.fast("mlp", "graph")
@pytest.mark.parametrize("name", list_networks())
def test_every_network_can_be_frozen_but_for_one_array(name):
    env = make_env("cartpole-positions")
    network = make_preset(name, env, nnx.Rngs(0))
    params = nnx.to_flat_state(nnx.state(network, nnx.Param)).paths
    paths = ["/".join(map(str, path)) for path in params]
    frozen = freeze(network, paths[1:])
    assert len(nnx.to_flat_state(nnx.state(frozen, nnx.Param))) == 1
    states = network.initialize_state(2)
    obs = jax.tree.map(lambda x: np.ones((2, *x.shape), "f4"), env.reset(jax.random.key(0)).obs)
    one, other = (n(states, obs).output.actions for n in (network, frozen))
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_shared_parameters_are_frozen_everywhere():
    network = Sequential([Dense(3, 3, nnx.Rngs(0)), Dense(3, 3, nnx.Rngs(1))])
    network.child_modules[1].linear.kernel = network.child_modules[0].linear.kernel
    frozen = freeze(network, "child_modules/0/linear/kernel")
    kernels = [layer.linear.kernel for layer in frozen.child_modules]
    assert kernels[0] is kernels[1]
    assert isinstance(kernels[0], FixedParameter)
    assert "child_modules/1/linear/kernel" not in parameter_paths(frozen)


def test_freezing_all_or_nothing_raises():
    network = Dense(2, 2, nnx.Rngs(0))
    with pytest.raises(ValueError, match="expected to leave a parameter to train"):
        freeze(network, "*")
    with pytest.raises(ValueError, match="got 'cortex'; the paths are linear/bias, linear/kernel"):
        freeze(network, "cortex")
