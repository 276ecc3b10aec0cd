"""unroll_env against a plain Python loop over environments and steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import RolloutOptions, unroll_env
from nnx_stateful import initial_state, rekey_noise

from ._networks import RandomEnds, make

B, T = 3, 12


@pytest.fixture(scope="module")
def collected():
    """A rollout of an LSTM whose value depends on its carry, with ends of both kinds."""
    env, network = RandomEnds(terminate=0.2, truncate=0.25), make("lstm")
    network_state = rekey_noise(initial_state(network, B), jax.random.key(3))
    env_state = jax.vmap(env.reset)(jax.random.split(jax.random.key(1), B))
    graphdef, variables = nnx.split(network)

    def run(variables, env_resets, truncation):
        net = nnx.merge(graphdef, variables)
        options = RolloutOptions(truncation=truncation, env_resets=env_resets)
        return unroll_env(env, env_state, net, network_state, T, jax.random.key(2), options)

    compiled = jax.jit(run, static_argnums=(1, 2))
    return env, network, network_state, env_state, lambda *a: compiled(variables, *a)


def value_of(network, state, obs):
    return network(state, obs).output.value_estimates


def test_carry_and_environment_follow_a_plain_loop(collected):
    env, network, network_state, env_state, run = collected
    state_after, env_after, rollout = run("fresh", "bootstrap")
    step = jax.jit(jax.vmap(env.step))
    fresh = initial_state(network, B)
    for t in range(T):
        np.testing.assert_allclose(rollout.obs[t], env_state.obs, atol=1e-5)
        out = network(network_state, env_state.obs)
        np.testing.assert_allclose(rollout.network_output.actions[t], out.output.actions, atol=1e-5)
        env_state = step(env_state, out.output.actions)
        np.testing.assert_array_equal(rollout.done[t], env_state.done)
        np.testing.assert_array_equal(rollout.truncated[t], env_state.info["truncated"])
        np.testing.assert_allclose(rollout.rewards[t], env_state.reward, atol=1e-5)
        network_state = out.next_state
        for row in np.flatnonzero(env_state.done):
            lstm = jax.tree.map(
                lambda s, f, r=row: s.at[r].set(f[r]), network_state["1"], fresh["1"]
            )
            network_state = {**network_state, "1": lstm}
            following = rollout.obs[t + 1, row] if t + 1 < T else env_after.obs[row]
            assert np.abs(following - env_state.obs[row]).max() > 1e-3
            env_state = _with_row(env_state, row, _row_after(env, rollout, env_after, t, row))
    np.testing.assert_allclose(state_after["1"][1], network_state["1"][1], atol=1e-5)


def _row_after(env, rollout, env_after, t, row):
    """The fresh state that the rollout chose, found by its observation among its reset keys."""
    wanted = rollout.obs[t + 1, row] if t + 1 < T else env_after.obs[row]
    key = jax.random.key(2)
    for _ in range(T + 1):
        key, *reset_keys = jax.random.split(key, 1 + B)
        states = jax.vmap(env.reset)(jnp.stack(reset_keys))
        for candidate in range(B):
            if np.allclose(states.obs[candidate], wanted, atol=1e-6):
                return jax.tree.map(lambda leaf, c=candidate: leaf[c], states)
    raise AssertionError("the rollout went on from a state that no reset gave")


def _with_row(states, row, single):
    return jax.tree.map(lambda leaf, new: leaf.at[row].set(new), states, single)


def test_bootstrap_uses_the_carry_of_the_step_before_the_reset(collected):
    env, network, network_state, env_state, run = collected
    _, _, rollout = run("fresh", "bootstrap")
    values = np.zeros((T, B))
    wrong_carry = np.zeros((T, B))
    for row in range(B):
        state, current = network_state, env_state
        for t in range(T):
            out = network(state, rollout.obs[t])
            stepped = jax.vmap(env.step)(current, out.output.actions)
            after = out.next_state
            if rollout.truncated[t, row]:
                values[t, row] = value_of(network, after, stepped.obs)[row]
                reset = {**after, "1": initial_state(network, B)["1"]}
                wrong_carry[t, row] = value_of(network, reset, stepped.obs)[row]
            if rollout.done[t, row]:
                after = {**after, "1": initial_state(network, B)["1"]}
                if t + 1 < T:
                    fresh = _row_after(env, rollout, stepped, t, row)
                    stepped = jax.tree.map(lambda _, f: jnp.stack([f] * B), stepped, fresh)
            state, current = after, stepped
    stored = np.asarray(rollout.bootstrap_value)
    truncated = np.asarray(rollout.truncated)
    assert truncated[:-1].sum() >= 3
    np.testing.assert_allclose(stored[truncated], values[truncated], atol=1e-5)
    assert np.abs(stored[truncated] - wrong_carry[truncated]).max() > 1e-2


def test_bootstrap_is_zero_within_episodes_and_after_terminations(collected):
    *_, run = collected
    _, _, rollout = run("fresh", "bootstrap")
    stored, truncated = np.asarray(rollout.bootstrap_value), np.asarray(rollout.truncated)
    assert np.all(stored[:-1][~truncated[:-1]] == 0)
    terminated = np.asarray(rollout.done) & ~truncated
    assert np.all(stored[terminated] == 0)


def test_last_step_bootstraps_rows_that_go_on(collected):
    _, network, _, _, run = collected
    state_after, env_after, rollout = run("fresh", "bootstrap")
    going_on = ~np.asarray(rollout.done[-1])
    assert going_on.any()
    expected = value_of(network, state_after, env_after.obs)
    np.testing.assert_allclose(rollout.bootstrap_value[-1][going_on], expected[going_on], atol=1e-5)


def test_mask_stores_no_value_at_truncations(collected):
    *_, run = collected
    _, _, rollout = run("fresh", "mask")
    assert bool(rollout.truncated.any())
    assert np.all(np.asarray(rollout.bootstrap_value)[:-1] == 0)


def test_pool_resets_differ_only_in_which_fresh_states_come(collected):
    *_, run = collected
    _, _, fresh = run("fresh", "bootstrap")
    _, _, pool = run("pool", "bootstrap")
    first = int(np.argmax(np.asarray(fresh.done).any(axis=1)))
    for name in ("obs", "rewards", "done", "bootstrap_value"):
        a, b = getattr(fresh, name), getattr(pool, name)
        np.testing.assert_allclose(a[: first + 1], b[: first + 1], atol=1e-6)
    starts = np.asarray(pool.obs[1:])[np.asarray(pool.done[:-1])]
    assert len(np.unique(starts.round(5), axis=0)) == len(starts)


def test_rollout_leaves_the_network_as_it_was(collected):
    _, network, *_, run = collected
    before = jax.tree.map(jnp.copy, nnx.state(network))
    run("fresh", "bootstrap")
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(nnx.state(network)), strict=True):
        assert bool(jnp.all(old == new))


def test_states_that_the_environment_does_not_make_are_told(collected):
    env, network, network_state, env_state, _ = collected
    other = env_state.replace(reward=env_state.reward.astype(jnp.float16))
    with pytest.raises(ValueError, match=r"env_state: expected .* at state\.reward, got .*float16"):
        unroll_env(env, other, network, network_state, T, jax.random.key(2))
