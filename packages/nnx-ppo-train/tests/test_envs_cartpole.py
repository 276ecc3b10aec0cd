"""The cart-pole against an independent implementation, its limits and its options."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nnx_ppo_train.envs import CartPole


def solve_and_integrate(kinematics, force):
    """One Euler step from the equations of motion: a 2 x 2 linear system for the accelerations.

    A uniform pole of half-length l has the moment of inertia m l^2 / 3 about its middle.
    """
    x, v, angle, w = kinematics
    M, m, half, g, dt = 1.0, 0.1, 0.5, 9.8, 0.02
    mass_matrix = np.array(
        [
            [M + m, m * half * np.cos(angle)],
            [m * half * np.cos(angle), m * half**2 + m * half**2 / 3],
        ]
    )
    forces = np.array([force + m * half * w**2 * np.sin(angle), m * g * half * np.sin(angle)])
    acceleration = np.linalg.solve(mass_matrix, forces)
    return np.array(
        [x + dt * v, v + dt * acceleration[0], angle + dt * w, w + dt * acceleration[1]]
    )


def test_dynamics_equal_independent_implementation():
    env = CartPole(gust=0.0)
    step = jax.jit(env.step)
    rng = np.random.default_rng(0)
    start = env.reset(jax.random.key(0))
    for kinematics in rng.uniform(-1.0, 1.0, (20, 4)) * [2.0, 3.0, 3.1, 4.0]:
        action = rng.uniform(-1.0, 1.0)
        state = start.replace(kinematics=jnp.asarray(kinematics, jnp.float32))
        got = step(state, jnp.array([action], jnp.float32)).kinematics
        np.testing.assert_allclose(got, solve_and_integrate(kinematics, 10 * action), atol=1e-5)


def test_action_beyond_one_is_clipped():
    env = CartPole(gust=0.0)
    state = env.reset(jax.random.key(0))
    within, beyond = (env.step(state, jnp.array([a])).obs for a in (1.0, 7.0))
    np.testing.assert_array_equal(within, beyond)


def test_reset_starts_within_range_and_differs_by_key():
    keys = jax.random.split(jax.random.key(0), 64)
    starts = jax.jit(jax.vmap(CartPole().reset))(keys).kinematics
    assert float(jnp.abs(starts).max()) <= 0.05
    assert float(starts.std(0).min()) > 0.02


@pytest.mark.parametrize(
    ("kinematics", "terminated"),
    [
        ([2.39, 0.0, 0.0, 0.0], False),
        ([2.41, 0.0, 0.0, 0.0], True),
        ([-2.41, 0.0, 0.0, 0.0], True),
        ([0.0, 0.0, 0.2, 0.0], False),
        ([0.0, 0.0, 0.2, 1.0], True),
        ([0.0, 0.0, -0.2, -1.0], True),
    ],
)
def test_done_marks_termination_at_the_limits(kinematics, terminated):
    env = CartPole(gust=0.0)
    state = env.reset(jax.random.key(0)).replace(kinematics=jnp.array(kinematics))
    state = env.step(state, jnp.zeros(1))
    assert bool(state.done) == terminated
    assert not bool(state.info["truncated"])
    assert float(state.reward) == 1.0


def test_last_step_truncates_unless_it_terminates():
    env = CartPole(episode_length=3, gust=0.0)
    state = env.reset(jax.random.key(0))
    for t in (1, 2, 3):
        before = state
        state = env.step(state, jnp.zeros(1))
        assert bool(state.done) == bool(state.info["truncated"]) == (t == 3)
    fallen = before.replace(kinematics=jnp.array([0.0, 0.0, 1.0, 0.0]))
    state = env.step(fallen, jnp.zeros(1))
    assert bool(state.done)
    assert not bool(state.info["truncated"])


def test_positions_are_the_full_observation_without_velocities():
    key, action = jax.random.key(3), jnp.array([0.3])
    full, positions = (CartPole(observe_velocities=seen) for seen in (True, False))
    a, b = (env.step(env.reset(key), action) for env in (full, positions))
    np.testing.assert_array_equal(a.obs[jnp.array([0, 2])], b.obs)
    assert (full.observation_size, positions.observation_size) == (4, 2)


def test_gust_has_the_stated_strength_and_is_drawn_anew():
    env = CartPole(gust=2.0)
    states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 2000))
    states = states.replace(kinematics=jnp.zeros((2000, 4)))
    step, speeds = jax.jit(jax.vmap(env.step)), []
    for steps in (0, 1):
        states = states.replace(steps=jnp.full((2000,), steps, jnp.int32))
        after = step(states, jnp.zeros((2000, 1)))
        speeds.append(np.asarray(after.kinematics[:, 1]))
    unit = solve_and_integrate(np.zeros(4), 1.0)[1]  # m/s that 1 N gives a cart at rest
    assert speeds[0].std() / unit == pytest.approx(2.0, rel=0.06)
    assert abs(np.corrcoef(speeds)[0, 1]) < 0.1


def episode_return(env, weights, key):
    """Return of `clip(weights @ (obs, difference of obs / 0.02))`."""
    first = env.reset(key)

    def step(carry, _):
        state, previous, alive = carry
        features = jnp.concatenate([state.obs, (state.obs - previous) / 0.02])
        after = env.step(state, jnp.clip(features @ weights, -1, 1)[None])
        return (after, state.obs, alive & ~after.done), alive * after.reward

    carry = (first, first.obs, jnp.ones((), bool))
    return jax.lax.scan(step, carry, None, env.episode_length)[1].sum()


def test_positions_need_memory():
    env = CartPole(observe_velocities=False)
    # The weights that benchmarks/cartpole_baselines.py finds, with and without memory; and none.
    weights = jnp.array([[0.03, 4.9, 0.2, 2.2], [0.02, 2.6, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    keys = jax.random.split(jax.random.key(0), 64)
    returns = jax.vmap(jax.vmap(partial(episode_return, env), (None, 0)), (0, None))
    memory, memoryless, still = jax.jit(returns)(weights, keys).mean(axis=1) / env.max_return
    assert memory > 0.98
    assert 0.3 < memoryless < 0.5
    assert still < 0.15


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"episode_length": 0}, ValueError, "episode_length: expected at least 1, got 0"),
        ({"episode_length": 2.5}, TypeError, "episode_length: expected an integer, got 2.5"),
        ({"gust": -1.0}, ValueError, "expected a number that is finite and at least 0, got -1"),
        ({"gust": float("nan")}, ValueError, "gust: expected a number that is finite"),
        ({"gust": "strong"}, TypeError, "gust: expected a number, got 'strong'"),
        ({"observe_velocities": 1}, TypeError, "observe_velocities: expected a bool"),
    ],
)
def test_bad_options_raise(options, error, message):
    with pytest.raises(error, match=message):
        CartPole(**options)


def test_bad_actions_raise():
    env = CartPole()
    state = env.reset(jax.random.key(0))
    with pytest.raises(
        ValueError, match=r"CartPole: expected an action of shape \(1,\), got \(2,\)"
    ):
        env.step(state, jnp.zeros(2))
    with pytest.raises(TypeError, match=r"expected an action array .* got a dict"):
        env.step(state, {"force": jnp.zeros(1)})
