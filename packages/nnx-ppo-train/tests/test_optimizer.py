"""The optimiser that a config describes, by its first step."""

import jax.numpy as jnp
import numpy as np
import pytest
from nnx_ppo_train import PPOConfig
from nnx_ppo_train._optimizer import learning_rate, make_optimizer

PARAMS = {"w": jnp.array([2.0, -1.0])}


def step(grads, **options):
    optimizer = make_optimizer(PPOConfig(learning_rate=0.5, **options))
    updates, _ = optimizer.update({"w": jnp.asarray(grads)}, optimizer.init(PARAMS), PARAMS)
    return updates["w"]


def test_adam_steps_by_the_learning_rate():
    np.testing.assert_allclose(step([3.0, -0.1]), [-0.5, 0.5], rtol=1e-5)


def test_weight_decay_pulls_towards_zero():
    np.testing.assert_allclose(step([3.0, -0.1], weight_decay=0.1), [-0.6, 0.55], rtol=1e-5)


@pytest.mark.parametrize(("largest", "clipped"), [(1e-8, True), (10.0, False)])
def test_gradients_are_clipped_by_their_global_norm(largest, clipped):
    # Adam ignores the scale of gradients but for its epsilon of 1e-8
    size = np.abs(step([3.0, -4.0], gradient_clipping=largest))
    expected = [0.5 * 0.6 / 1.6, 0.5 * 0.8 / 1.8] if clipped else [0.5, 0.5]
    np.testing.assert_allclose(size, expected, rtol=1e-4)


def test_linear_schedule_ends_at_zero_with_the_last_update():
    config = PPOConfig(
        learning_rate=0.5,
        learning_rate_schedule="linear",
        n_envs=4,
        rollout_length=5,
        total_steps=50,  # in rollouts of 20: three iterations
        n_epochs=2,
        n_minibatches=2,
    )
    schedule = learning_rate(config)
    updates = 3 * 2 * 2
    assert [float(schedule(n)) for n in (0, updates // 2, updates)] == [0.5, 0.25, 0.0]


def test_constant_schedule_is_the_number():
    assert learning_rate(PPOConfig(learning_rate=0.5)) == 0.5
