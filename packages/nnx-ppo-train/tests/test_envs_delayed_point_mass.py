"""The delayed point mass against a simulation that keeps its observations in a list."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nnx_ppo_train.envs import DelayedPointMass


def simulate(start, actions, delay):
    """Delayed observations and rewards of a run, one per action."""
    position, velocity, target = (
        np.asarray(leaf, float) for leaf in (start.position, start.velocity, start.target)
    )
    history = [np.concatenate([position, velocity, target])]
    observations, rewards = [], []
    for action in actions:
        velocity = velocity + 0.1 * (2.0 * np.clip(action, -1, 1) - 0.5 * velocity)
        position = position + 0.1 * velocity
        for axis in range(2):
            if abs(position[axis]) > 1.5:
                position[axis], velocity[axis] = 1.5 * np.sign(position[axis]), 0.0
        history.append(np.concatenate([position, velocity, target]))
        observations.append(history[max(0, len(history) - 1 - delay)])
        rewards.append(np.exp(-np.hypot(*(target - position)) / 0.5))
    return np.array(observations), np.array(rewards)


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_observations_and_rewards_equal_simulation_with_a_list(delay):
    env = DelayedPointMass(delay=delay)
    start = env.reset(jax.random.key(delay))
    # A steady push first, so that the mass meets a wall.
    noise = np.random.default_rng(delay).uniform(-1.5, 1.5, (40, 2))
    actions = np.concatenate([np.tile([1.0, -1.0], (25, 1)), noise]).astype(np.float32)

    def step(state, action):
        state = env.step(state, action)
        return state, (state.obs, state.reward)

    last, (observations, rewards) = jax.lax.scan(step, start, jnp.asarray(actions))
    expected_observations, expected_rewards = simulate(start, actions, delay)
    np.testing.assert_allclose(observations, expected_observations, atol=1e-5)
    np.testing.assert_allclose(rewards, expected_rewards, atol=1e-5)
    distance = np.linalg.norm(np.asarray(last.target - last.position))
    assert float(last.metrics["distance"]) == pytest.approx(distance, abs=1e-6)


def test_dict_observation_has_the_parts_of_the_array():
    key, action = jax.random.key(0), jnp.array([0.5, -0.5])
    array, parts = (DelayedPointMass(dict_observation=choice) for choice in (False, True))
    a, b = (env.step(env.reset(key), action).obs for env in (array, parts))
    np.testing.assert_array_equal(a, jnp.concatenate([b["position"], b["velocity"], b["target"]]))
    assert parts.observation_size == {"position": 2, "velocity": 2, "target": 2}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"delay": -1}, ValueError, "DelayedPointMass: delay: expected at least 0, got -1"),
        ({"delay": 1.0}, TypeError, "DelayedPointMass: delay: expected an integer"),
        ({"episode_length": 0}, ValueError, "episode_length: expected at least 1"),
        ({"dict_observation": "yes"}, TypeError, "dict_observation: expected a bool, got 'yes'"),
    ],
)
def test_bad_options_raise(options, error, message):
    with pytest.raises(error, match=message):
        DelayedPointMass(**options)
