"""Training states and checkpoints of a small run, made once for all tests of checkpoints."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from nnx_ppo_train import (
    EvalConfig,
    NormalTanhSampler,
    PPOAdapter,
    PPOConfig,
    TrainConfig,
    make_env,
    train_ppo,
)
from nnx_ppo_train._loop_state import StateFactory, as_training_state
from nnx_ppo_train._optimizer import Optimizer
from nnx_stateful import GRU, Dense, Normalizer, Sequential

ITERATION = 4 * 3  # environments times rollout length


def make_config(iterations=2, **ppo):
    ppo = {"gradient_clipping": 1.0, "n_minibatches": 2, **ppo}
    return TrainConfig(
        ppo=PPOConfig(n_envs=4, rollout_length=3, total_steps=iterations * ITERATION, **ppo),
        eval=EvalConfig(enabled=False),
        checkpoint_every_steps=ITERATION,
    )


def make_network(hidden=5, seed=0):
    rngs = nnx.Rngs(seed)
    sampler = NormalTanhSampler(rngs)
    action = Sequential([Dense(hidden, 2, rngs), sampler])
    adapter = PPOAdapter(action=action, value=Dense(hidden, 1, rngs))
    return Sequential([Normalizer(4), GRU(4, hidden, rngs), adapter])


def plain(tree):
    """All leaves as NumPy arrays, keys as their data."""

    def to_numpy(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return jax.tree.map(to_numpy, tree)


def parts(state):
    return plain(
        (
            nnx.state(state.networks),
            state.network_states,
            state.env_states,
            state.optimizer,
            state.rng_key,
            state.episodes,
        )
    )


def assert_identical(one, other):
    assert one.steps_taken == other.steps_taken
    one, other = parts(one), parts(other)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for (path, a), b in zip(
        jax.tree_util.tree_leaves_with_path(one), jax.tree.leaves(other), strict=True
    ):
        assert a.dtype == b.dtype, path
        np.testing.assert_array_equal(a, b, err_msg=str(path))


@functools.cache
def trained_state():
    """A state after two iterations."""
    return train_ppo(make_env("cartpole"), make_network(), make_config()).training_state


@functools.cache
def first_state(normalize_rewards=False):
    """A state in which a run begins; nothing is trained for it."""
    config = make_config(
        normalize_values=not normalize_rewards, normalize_rewards=normalize_rewards
    )
    network = make_network()
    graphdef = nnx.split(network)[0]
    states = StateFactory(make_env("cartpole"), graphdef, Optimizer(config.ppo), config)
    rewards = nnx.split(states.normalizer)[0]
    return as_training_state(states.fresh(network, 0), graphdef, rewards, 0)


def at(step, state=None, **metrics):
    """A state as it could be after that many steps, with metrics."""
    state = first_state() if state is None else state
    metrics = {name.replace("__", "/"): value for name, value in metrics.items()}
    return dataclasses.replace(state, steps_taken=step, metrics=metrics)
