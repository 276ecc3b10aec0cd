"""The optimiser that a config describes, by its first step, and the user's own."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from nnx_ppo_train import PPOConfig
from nnx_ppo_train._hyperparameters import Hyperparameters, entropy_scale, learning_rate
from nnx_ppo_train._optimizer import Optimizer, decays

PARAMS = {"w": jnp.array([2.0, -1.0])}
TWELVE_UPDATES = PPOConfig(
    learning_rate=0.5,
    learning_rate_schedule="linear",
    entropy_scale=2.0,
    entropy_schedule="linear",
    n_envs=4,
    rollout_length=5,
    total_steps=50,  # in rollouts of 20: three iterations
    n_epochs=2,
    n_minibatches=2,
)


def step(grads, override=None, rate=0.5, **options):
    config = PPOConfig(**options)
    optimizer = Optimizer(config, override)
    params, *_ = optimizer.step(
        Hyperparameters.of(config).as_arrays(),
        jnp.float32(rate),
        {"w": jnp.asarray(grads)},
        optimizer.init(PARAMS),
        PARAMS,
    )
    return params["w"] - PARAMS["w"]


def test_adam_steps_by_the_learning_rate():
    np.testing.assert_allclose(step([3.0, -0.1]), [-0.5, 0.5], rtol=1e-5)


def test_weight_decay_pulls_towards_zero():
    decay = {"weight_decay": 0.1, "weight_decay_mask": "all"}
    np.testing.assert_allclose(step([3.0, -0.1], **decay), [-0.6, 0.55], rtol=1e-5)


@pytest.mark.parametrize(
    ("path", "shape", "expected"),
    [
        (("layers", "kernel"), (2, 3), True),
        (("layers", "own"), (2, 3), True),
        (("circuit", "kernels", 0), (2, 3), True),
        (("circuit", "weights", 0, "bias"), (1, 2, 3), False),
        (("circuit", "delays", "logits", 0), (2, 3), False),
        (("log_std",), (1, 3), False),
        (("scale",), (3,), False),
    ],
)
def test_weight_decay_acts_on_connection_weights_alone(path, shape, expected):
    tree = jnp.ones(shape)
    for key in reversed(path):
        tree = {str(key): tree}
    ((found, leaf),) = jax.tree_util.tree_leaves_with_path(tree)
    assert decays("kernels", found, leaf) is expected
    assert decays("all", found, leaf)
    assert not decays(lambda name: name == "other", found, leaf)
    assert decays(lambda name: name == "/".join(map(str, path)), found, leaf)


def test_large_gradients_are_clipped_and_infinite_ones_told():
    hyper = Hyperparameters.of(PPOConfig(gradient_clipping=1.0)).as_arrays()
    optimizer = Optimizer(PPOConfig(gradient_clipping=1.0))
    for size, expected in ((1e30, True), (jnp.inf, False), (jnp.nan, False)):
        grads = {"w": jnp.array([size, 1e30])}
        params, _, finite = optimizer.step(
            hyper, jnp.float32(0.2), grads, optimizer.init(PARAMS), PARAMS
        )
        assert bool(finite) is expected
        assert not expected or np.all(np.isfinite(params["w"]))


def test_finite_gradient_whose_square_overflows_is_told_without_clipping():
    optimizer = Optimizer(PPOConfig())
    hyper = Hyperparameters.of(PPOConfig()).as_arrays()
    for size, expected in ((1e30, False), (1.5e19, True)):  # the sum of the squares overflows
        grads = {"w": jnp.array([size, size])}
        step = optimizer.step(hyper, jnp.float32(0.2), grads, optimizer.init(PARAMS), PARAMS)
        assert bool(step[2]) is expected


@pytest.mark.parametrize(("largest", "clipped"), [(1e-8, True), (10.0, False)])
def test_gradients_are_clipped_by_their_global_norm(largest, clipped):
    # Adam ignores the scale of gradients but for its epsilon of 1e-8
    size = np.abs(step([3.0, -4.0], gradient_clipping=largest))
    expected = [0.5 * 0.6 / 1.6, 0.5 * 0.8 / 1.8] if clipped else [0.5, 0.5]
    np.testing.assert_allclose(size, expected, rtol=1e-4)


def test_steps_equal_those_of_optax_over_several_updates():
    config = PPOConfig(gradient_clipping=0.7, weight_decay=0.03, weight_decay_mask="all")
    optimizer, hyper = Optimizer(config), Hyperparameters.of(config).as_arrays()
    theirs = optax.chain(optax.clip_by_global_norm(0.7), optax.adamw(0.2, weight_decay=0.03))
    params, state = PARAMS, optimizer.init(PARAMS)
    expected, their_state = PARAMS, theirs.init(PARAMS)
    for seed in range(4):
        grads = {"w": jax.random.normal(jax.random.key(seed), (2,))}
        params, state, _ = optimizer.step(hyper, jnp.float32(0.2), grads, state, params)
        updates, their_state = theirs.update(grads, their_state, expected)
        expected = optax.apply_updates(expected, updates)
    np.testing.assert_allclose(params["w"], expected["w"], rtol=1e-5)


def test_own_optimizer_decides_alone_and_its_step_is_scaled():
    np.testing.assert_allclose(step([3.0, -0.1], optax.sgd(0.1), rate=1.0), [-0.3, 0.01], rtol=1e-5)
    np.testing.assert_allclose(
        step([3.0, -0.1], optax.sgd(0.1), rate=0.5), [-0.15, 5e-3], rtol=1e-5
    )


@pytest.mark.parametrize(
    "option",
    [
        {"learning_rate": 1e-4},
        {"learning_rate_schedule": "linear"},
        {"gradient_clipping": 1.0},
        {"weight_decay": 0.1},
    ],
)
def test_option_that_an_own_optimizer_decides_is_refused(option):
    (name,) = option
    with pytest.raises(ValueError, match=rf"PPOConfig\.{name}: expected .* \(the default\) where"):
        Optimizer(PPOConfig(**option), optax.sgd(0.1))


@pytest.mark.parametrize("override", [0.1, optax.sgd, "adam"])
def test_own_optimizer_that_is_none_is_refused(override):
    with pytest.raises(TypeError, match=r"expected an optax transformation, such as optax\.sgd"):
        Optimizer(PPOConfig(), override)


def test_linear_schedules_end_at_zero_with_the_last_update():
    hyper = Hyperparameters.of(TWELVE_UPDATES).as_arrays()
    for count, rate, scale in ((0, 0.5, 2.0), (6, 0.25, 1.0), (12, 0.0, 0.0), (16, 0.0, 0.0)):
        assert float(learning_rate(TWELVE_UPDATES, hyper, jnp.int32(count))) == rate
        assert float(entropy_scale(TWELVE_UPDATES, hyper, jnp.int32(count))) == scale


def test_constant_schedules_are_the_numbers():
    config = PPOConfig(learning_rate=0.5, entropy_scale=0.25)
    hyper = Hyperparameters.of(config)
    assert learning_rate(config, hyper, 7) == 0.5
    assert entropy_scale(config, hyper, 7) == 0.25


def test_optax_schedules_are_asked_with_the_number_of_updates():
    config = PPOConfig(
        learning_rate=optax.exponential_decay(1.0, 2, 0.25),
        entropy_scale=optax.piecewise_constant_schedule(1.0, {3: 0.5}),
    )
    hyper = Hyperparameters.of(config)
    assert hyper.learning_rate is None
    assert [float(learning_rate(config, hyper, n)) for n in (0, 2, 4)] == [1.0, 0.25, 0.0625]
    assert [float(entropy_scale(config, hyper, n)) for n in (0, 5)] == [1.0, 0.5]
