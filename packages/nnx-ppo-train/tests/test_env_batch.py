"""Environments in parallel: who is stepped, who is replaced, by what, and at what cost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict
from hypothesis import given
from hypothesis import strategies as st
from nnx_ppo_train._env_batch import EnvBatch, EnvResets, ended
from nnx_ppo_train.envs import State

B, T = 4, 6


class Tagged:
    """A reset gives a tag that is never given again; steps count up. Counts batches of resets."""

    def __init__(self):
        self.resets = 0

    def reset(self, rng):
        jax.debug.callback(self._count)
        info = {"tag": jax.random.bits(rng), "key": rng}
        return State(jnp.zeros(()), jnp.zeros(()), jnp.zeros((), bool), info, {})

    def step(self, state, action):
        return state.replace(obs=state.obs + action)

    def _count(self):
        self.resets += 1


def rollout(mode):
    """A compiled rollout with given ends: the tags that each step begins with, and the counts."""
    env = Tagged()
    batch = EnvBatch(env, B)
    resets = EnvResets(batch, mode)

    @jax.jit
    def run(done, key):
        first_key, reset_key = jax.random.split(key)
        states = batch.reset(first_key)

        def step(carry, ends):
            states, pool = carry
            pool, after = resets(pool, batch.step(states, jnp.ones(B)), ends)
            return (after, pool), (after, pool.used)

        (_, _), (after, used) = jax.lax.scan(step, (states, resets.start(states, reset_key)), done)
        return states.info["tag"], after.info["tag"], after.obs, used

    return env, run


MODES = ("pool", "fresh")
ROLLOUTS = {mode: rollout(mode) for mode in MODES}


@pytest.mark.parametrize("mode", MODES)
@given(st.integers(0, 2**32 - 1), st.sampled_from((0.0, 0.2, 0.6, 1.0)))
def test_no_fresh_state_is_used_twice_and_others_go_on(mode, seed, rate):
    done = np.random.default_rng(seed).random((T, B)) < rate
    tags, after, obs, _ = ROLLOUTS[mode][1](done, jax.random.key(seed))
    tags, handed_out = np.asarray(tags), []
    ages = np.zeros(B)
    for t in range(T):
        ages = np.where(done[t], 0, ages + 1)
        np.testing.assert_array_equal(obs[t], ages)
        np.testing.assert_array_equal(after[t][~done[t]], tags[~done[t]])
        handed_out += after[t][done[t]].tolist()
        tags = np.asarray(after[t])
    assert len(set(handed_out)) == len(handed_out)


def ends_in(*rows_of_step):
    done = np.zeros((T, B), bool)
    for step, rows in enumerate(rows_of_step):
        done[step, list(rows)] = True
    return done


@pytest.mark.parametrize(
    ("mode", "done", "refills"),
    [
        ("pool", ends_in(), 0),
        ("pool", ends_in([], [0], [1], [0, 2]), 1),  # four needed, four made at once
        ("pool", ends_in([0], [1], [0, 2], [], [3]), 2),  # the fifth needs more
        ("pool", ends_in([0, 1, 2], [0, 1]), 2),  # one was left, two are needed
        ("pool", ends_in(*[range(B)] * T), T),
        ("fresh", ends_in(), 0),
        ("fresh", ends_in([], [0], [], [1, 2, 3]), 2),
    ],
)
def test_resets_are_made_when_needed_only(mode, done, refills):
    env, run = ROLLOUTS[mode]
    env.resets = 0
    jax.block_until_ready(run(done, jax.random.key(0)))
    jax.effects_barrier()
    assert env.resets == 1 + refills  # the first batch starts the rollout


def test_pool_counts_what_is_spent():
    done = ends_in([0], [1, 2], [], [1], [0, 3])
    used = ROLLOUTS["pool"][1](done, jax.random.key(0))[3]
    assert used.tolist() == [1, 3, 3, 4, 2, 2]


@pytest.mark.parametrize("mode", MODES)
def test_fresh_states_are_those_of_the_reset_key(mode):
    batch = EnvBatch(Tagged(), B)
    resets = EnvResets(batch, mode)
    key = jax.random.key(3)
    states = batch.reset(jax.random.key(0))
    pool, after = resets(resets.start(states, key), states, jnp.array([False, True, False, True]))
    fresh = batch.reset_each(jax.random.split(key, 1 + B)[1:]).info["tag"]
    tags = states.info["tag"]
    expected = jnp.stack([tags[0], fresh[0], tags[2], fresh[1]])
    np.testing.assert_array_equal(after.info["tag"], expected)
    assert not np.array_equal(*map(jax.random.key_data, (pool.key, key)))


def test_rollouts_with_other_keys_get_other_states():
    done = ends_in(range(B))
    run = ROLLOUTS["pool"][1]
    first, second = (run(done, jax.random.key(seed))[1][0].tolist() for seed in (0, 1))
    assert not set(first) & set(second)


# ---- leaves that are not batched -------------------------------------------------------------


@jax.custom_batching.custom_vmap
def shared_buffer(x):
    """Two numbers, but two per row in one common buffer under vmap, as MuJoCo Warp has it."""
    return jnp.stack([x, x])


@shared_buffer.def_vmap
def _(axis_size, in_batched, x):
    del in_batched
    buffer = jnp.repeat(x, 2)
    return jnp.broadcast_to(buffer, (axis_size, 2 * axis_size)), True


class WithSharedBuffer(Tagged):
    def reset(self, rng):
        state = super().reset(rng)
        return state.replace(
            info={**state.info, "contacts": shared_buffer(jax.random.uniform(rng))}
        )


def test_leaf_that_is_not_batched_comes_from_the_stepped_state():
    batch = EnvBatch(WithSharedBuffer(), B)
    states = batch.reset(jax.random.key(0))
    assert states.info["contacts"].shape == (B, 2 * B)
    stepped = states.replace(info={**states.info, "contacts": states.info["contacts"] + 1})
    resets = EnvResets(batch, "pool")
    pool = resets.start(states, jax.random.key(1))
    _, after = resets(pool, stepped, jnp.array([True, False, True, True]))
    np.testing.assert_array_equal(after.info["contacts"], stepped.info["contacts"])
    assert after.info["tag"][0] != stepped.info["tag"][0]
    assert batch.take(states, jnp.array([1])).info["contacts"].shape == (B, 2 * B)
    assert batch.take(states, jnp.array([1])).info["tag"].shape == (1,)


def test_reset_has_no_weak_types():
    class Plain(Tagged):
        def reset(self, rng):
            return State(jnp.zeros(()), 0.0, False, {"key": rng}, {"speed": 1})

    states = EnvBatch(Plain(), B).reset(jax.random.key(0))
    leaves = (states.obs, states.reward, states.metrics["speed"])
    assert not any(leaf.weak_type for leaf in leaves)


# ---- ends ------------------------------------------------------------------------------------

no, yes = np.zeros(2), np.array([0.0, 1.0])


def state_with(done, info):
    return State(obs=no, reward=no, done=jnp.asarray(done), info=info, metrics={})


@pytest.mark.parametrize("name", ["truncated", "truncation"])
@pytest.mark.parametrize("dtype", [bool, np.float32, np.int32])
@pytest.mark.parametrize("container", [dict, FrozenDict])
def test_truncation_is_read_under_either_name(name, dtype, container):
    done, truncated = ended(state_with(no.astype(dtype), container({name: yes.astype(dtype)})))
    assert done.dtype == truncated.dtype == bool
    assert done.tolist() == truncated.tolist() == [False, True]


def test_termination_is_no_truncation():
    done, truncated = ended(state_with(yes, {"truncated": no}))
    assert (done.tolist(), truncated.tolist()) == ([False, True], [False, False])


def test_environment_without_the_entry_never_truncates():
    done, truncated = ended(state_with(yes, {}))
    assert done.tolist() == [False, True]
    assert truncated is None
