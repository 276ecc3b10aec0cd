"""What holds for every built-in environment, and how they are found by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from nnx_ppo_train.envs import Env, State, list_envs, make_env

NAMES = list(list_envs())
BATCH, STEPS = 3, 8


def sample_action(env, key):
    """A legal random action of one environment, by its `action_size` and `action_kind`."""
    return random_action(env.action_size, env.action_kind, key)


def random_action(size, kind, key):
    if isinstance(size, dict):
        kinds = kind if isinstance(kind, dict) else dict.fromkeys(size, kind)
        return {name: random_action(size[name], kinds[name], key) for name in size}
    if kind == "continuous":
        return jax.random.uniform(key, (size,), minval=-1.0)
    sizes = jnp.array(size)
    return jax.random.randint(key, sizes.shape, 0, sizes, jnp.int32)


def is_weak(leaf):
    return getattr(leaf, "weak_type", False)  # arrays of keys have no such attribute


def signature(tree):
    """Structure, and shape, dtype and weak type of every leaf."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype, is_weak(leaf)) for leaf in leaves]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("x64", [False, True])
def test_step_keeps_tree_shapes_and_dtypes_of_reset(name, x64):
    env = make_env(name)
    with jax.enable_x64(x64):
        key = jax.random.key(0)
        start = jax.eval_shape(env.reset, key)
        after = jax.eval_shape(env.step, start, sample_action(env, key))
    assert signature(start) == signature(after)
    assert not any(map(is_weak, jax.tree.leaves(start)))
    assert start.done.dtype == start.info["truncated"].dtype == bool


@pytest.mark.fast("point-mass", "recall", "hybrid-choice")
@pytest.mark.parametrize("name", NAMES)
def test_batched_scan_under_jit_equals_eager_steps(name):
    env = make_env(name)
    keys = jax.random.split(jax.random.key(1), BATCH)
    times = jnp.arange(STEPS)

    def step(state, t):
        def row(one, key):
            return env.step(one, sample_action(env, jax.random.fold_in(key, t)))

        state = jax.vmap(row)(state, keys)
        return state, state

    def run(keys):
        return jax.lax.scan(step, jax.vmap(env.reset)(keys), times)[1]

    compiled = jax.jit(run)(keys)
    state = env.reset(keys[1])
    for t in range(2):
        state = env.step(state, sample_action(env, jax.random.fold_in(keys[1], t)))
        row = jax.tree.map(lambda leaf, t=t: leaf[t, 1], compiled)
        assert signature(row)[0] == signature(state)[0]
        for got, expected in zip(jax.tree.leaves(row), jax.tree.leaves(state), strict=True):
            if jnp.issubdtype(got.dtype, jax.dtypes.prng_key):
                got, expected = jax.random.key_data(got), jax.random.key_data(expected)
            np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_stated_sizes_and_protocol_hold(name):
    env = make_env(name)
    state = jax.eval_shape(env.reset, jax.random.key(0))
    assert isinstance(env, Env)
    assert isinstance(state, State)
    assert jax.tree.map(lambda leaf: leaf.shape, state.obs) == jax.tree.map(
        lambda n: (n,), env.observation_size
    )
    assert env.max_return is None or 0 < env.max_return <= env.episode_length
    assert env.episode_length >= 1


@pytest.mark.parametrize("name", NAMES)
def test_old_style_keys_and_extra_info_are_kept(name):
    env = make_env(name)
    state = env.reset(jax.random.PRNGKey(0))
    state = state.replace(info={**state.info, "mark": jnp.ones(2)})
    after = env.step(state, sample_action(env, jax.random.key(0)))
    assert signature(state) == signature(after)


@pytest.mark.parametrize("name", NAMES)
def test_draw_fills_the_axes(name):
    env = make_env(name)
    ax = Figure().subplots()
    state = env.reset(jax.random.key(0))
    for _ in range(2):
        env.draw(ax, state)
        drawn = len(ax.lines) + len(ax.patches)
        assert drawn > 0
        state = env.step(state, sample_action(env, jax.random.key(1)))
    env.draw(ax, state)
    assert len(ax.lines) + len(ax.patches) == drawn  # frames do not pile up


def test_list_envs_describes_every_name_in_one_line():
    assert {"cartpole", "cartpole-positions", "recall", "point-mass", "body-chain"} <= set(NAMES)
    assert all(text and "\n" not in text for text in list_envs().values())


def test_make_env_passes_options_on():
    assert make_env("recall", delay=7).episode_length == 8
    assert make_env("cartpole-positions").observation_size == 2
    assert make_env("cartpole-positions", episode_length=9).max_return == 9.0


def test_unknown_name_raises_with_the_nearest_and_the_list():
    with pytest.raises(
        ValueError, match=r"called 'cartpol'. Did you mean 'cartpole'.*Expected one of"
    ):
        make_env("cartpol")
    with pytest.raises(ValueError, match=r"called 'zzz'. Expected one of cartpole, .*body-chain"):
        make_env("zzz")


def test_unknown_option_raises_with_those_there_are():
    with pytest.raises(TypeError, match=r"options of 'recall', n_symbols, delay, .*got 'lag'"):
        make_env("recall", lag=3)
