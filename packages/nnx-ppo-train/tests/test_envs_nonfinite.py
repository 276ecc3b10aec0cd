"""Values that are not finite, and choices that do not exist, end episodes for nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import eval_rollout
from nnx_ppo_train.envs import State, list_envs, make_env
from nnx_ppo_train.presets import make_network

NAMES = list(list_envs())
OUTPUTS = set(State.__dataclass_fields__)
"""Fields that are outputs alone: a step does not read them."""


def is_float(leaf):
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def legal_action(env, state):
    """An action that earns as much as any does, for the state after a reset."""

    def build(size, kind):
        if isinstance(size, dict):
            kinds = kind if isinstance(kind, dict) else dict.fromkeys(size, kind)
            return {name: build(size[name], kinds[name]) for name in size}
        if kind == "continuous":
            return jnp.zeros(size)
        return jnp.zeros(jnp.array(size).shape, jnp.int32)

    action = build(env.action_size, env.action_kind)
    if isinstance(state.obs, dict) and "action_mask" in state.obs:
        action = jnp.argmax(state.obs["action_mask"]).astype(jnp.int32)
    return action


def planted(tree, values_of):
    """Yields (path, tree) with one leaf's first entry replaced, for each leaf and value."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    for place, (path, leaf) in enumerate(leaves):
        for value in values_of(leaf):
            changed = [other for _, other in leaves]
            changed[place] = jnp.ravel(leaf).at[0].set(value).reshape(leaf.shape)
            name = f"{jax.tree_util.keystr(path)} = {value}"
            yield name, jax.tree.unflatten(structure, changed)


def bad_action_values(leaf):
    return (np.nan, np.inf, -np.inf) if is_float(leaf) else (-1, 1000, 2**31 - 1, -(2**31))


def bad_state_values(leaf):
    return (np.nan, np.inf) if is_float(leaf) else ()


def poisoned_steps(env):
    """(name, state, action) triples of steps in which one number is bad."""
    state = env.reset(jax.random.key(0))
    action = legal_action(env, state)
    for name, bad in planted(action, bad_action_values):
        yield f"action{name}", state, bad
    own = {field: getattr(state, field) for field in vars(state) if field not in OUTPUTS}
    for name, bad in planted(own, bad_state_values):
        yield f"state{name}", state.replace(**bad), action


@pytest.mark.parametrize("name", NAMES)
def test_bad_action_or_state_ends_the_episode_for_nothing(name):
    env = make_env(name)
    names, states, actions = zip(*poisoned_steps(env), strict=True)
    states, actions = _stacked(states), _stacked(actions)
    after = jax.jit(jax.vmap(env.step))(states, actions)
    np.testing.assert_array_equal(after.done, True, err_msg=str(names))
    np.testing.assert_array_equal(after.info["truncated"], False, err_msg=str(names))
    for reward in jax.tree.leaves(after.reward):
        assert np.isfinite(reward).all(), names
        assert (reward <= 0).all(), names


def _stacked(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@pytest.mark.parametrize("name", NAMES)
def test_clean_step_goes_on(name):
    env = make_env(name)
    state = env.reset(jax.random.key(0))
    after = env.step(state, legal_action(env, state))
    assert not after.done


def test_quiz_cannot_be_left_early():
    env = make_env("repeat-previous", delay=2, deck_size=6)
    state = env.step(env.reset(jax.random.key(0)), jnp.int32(0))
    assert float(env.step(state, jnp.int32(-1)).reward) == -1.0


@pytest.mark.parametrize("name", ["cartpole", "cartpole-positions"])
def test_network_of_nan_parameters_earns_nothing(name):
    env = make_env(name, episode_length=20)
    net = make_network("mlp", env, nnx.Rngs(0))
    nnx.update(net, jax.tree.map(lambda leaf: leaf * jnp.nan, nnx.state(net, nnx.Param)))
    metrics = eval_rollout(env, net, 2, 20, jax.random.key(0))
    assert not metrics["eval/episode_reward/mean"] > 0.0
