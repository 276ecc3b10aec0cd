"""The chain of bodies against a simulation with a stiffness matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nnx_ppo_train.envs import BodyChain


def stiffness(n):
    """Forces of the springs are minus this matrix times the displacements."""
    matrix = 2.0 * (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))
    matrix[-1, -1] = 2.0  # the far end is free
    return matrix


@pytest.mark.parametrize("n_bodies", [1, 4])
def test_dynamics_equal_simulation_with_a_matrix(n_bodies):
    env = BodyChain(n_bodies=n_bodies)
    state = env.reset(jax.random.key(0))
    step = jax.jit(env.step)
    y, v, target = np.zeros(n_bodies), np.zeros(n_bodies), np.asarray(state.target, float)
    for action in np.random.default_rng(0).uniform(-1, 1, (30, n_bodies)):
        v = v + 0.05 * (-stiffness(n_bodies) @ y - 0.5 * v + 5 * action)
        y = y + 0.05 * v
        state = step(state, dict(zip(env.body_names, jnp.asarray(action)[:, None], strict=True)))
        for i, name in enumerate(env.body_names):
            np.testing.assert_allclose(state.obs[name], [y[i], v[i], target[i]], atol=1e-4)
            reward = np.exp(-(((y[i] - target[i]) / 0.25) ** 2))
            assert float(state.reward[name]) == pytest.approx(reward, abs=1e-3)


def test_forces_suffice_to_hold_any_targets():
    corners = np.array(np.meshgrid(*[[-0.5, 0.5]] * 4)).reshape(4, -1)
    assert np.abs(stiffness(4) @ corners).max() <= 5.0


def test_episode_is_truncated_at_its_length():
    env = BodyChain(n_bodies=1, episode_length=2)
    state = env.reset(jax.random.key(0))
    marks = []
    for _ in range(2):
        state = env.step(state, {"body_0": jnp.zeros(1)})
        marks.append((bool(state.done), bool(state.info["truncated"])))
    assert marks == [(False, False), (True, True)]


def test_bad_actions_raise():
    env = BodyChain(n_bodies=2)
    state = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match=r"entries \['body_0', 'body_1'\], got \['body_0'\]"):
        env.step(state, {"body_0": jnp.zeros(1)})
    with pytest.raises(ValueError, match="expected an action dict"):
        env.step(state, jnp.zeros(2))
    with pytest.raises(ValueError, match="BodyChain, body_1: expected an action of shape"):
        env.step(state, {"body_0": jnp.zeros(1), "body_1": jnp.zeros(2)})


def test_bad_number_of_bodies_raises():
    with pytest.raises(ValueError, match="BodyChain: n_bodies: expected at least 1, got 0"):
        BodyChain(n_bodies=0)
