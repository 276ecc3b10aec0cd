"""Before the first update the replay gives the likelihoods of the rollout, for every network."""

import jax
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import LoggingLevel, PPOConfig, ppo_loss, unroll_env
from nnx_stateful import initial_state, rebuild, rekey_noise, reset_rows

from ._networks import TRUNKS, RandomEnds, make

B, T = 8, 24


def rollout_of(network, env, seed=1):
    graphdef, variables = nnx.split(network)
    key = jax.random.key(seed)

    @jax.jit
    def run(variables):
        net = rebuild(graphdef, variables)
        state = rekey_noise(initial_state(net, B), jax.random.fold_in(key, 0))
        envs = jax.vmap(env.reset)(jax.random.split(jax.random.fold_in(key, 1), B))
        after, _, rollout = unroll_env(env, envs, net, state, T, jax.random.fold_in(key, 2))
        return state, after, rollout

    return run(variables)


@pytest.mark.fast("graph", "variational")
@pytest.mark.parametrize("name", sorted(TRUNKS))
def test_first_ratio_is_one(name):
    network = make(name)
    with jax.default_matmul_precision("highest"):
        state, after, rollout = rollout_of(network, RandomEnds())
        assert 0.1 < float(rollout.done.mean()) < 0.6
        assert bool(rollout.truncated.any())
        config = PPOConfig(n_envs=B, rollout_length=T, logging_level=LoggingLevel.LOSSES)
        graphdef, variables = nnx.split(network)

        @jax.jit
        def replay(variables):
            net = rebuild(graphdef, variables)
            _, metrics = ppo_loss(net, state, rollout, config)
            out = net.unroll(state, rollout.obs, rollout.done, rollout.rollout_extras)
            return metrics["replay/ratio_deviation"], out

        deviation, out = replay(variables)
    assert float(deviation) < 1e-4
    np.testing.assert_allclose(
        out.output.value_estimates, rollout.network_output.value_estimates, atol=1e-4, rtol=1e-4
    )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4, rtol=1e-4),
        jax.tree.map(_plain, out.next_state),
        jax.tree.map(_plain, after),
    )


def test_first_ratio_is_not_one_when_a_reset_is_replayed_late():
    """The metric must be able to see a fault: here the dones are replayed one step late."""
    network = make("lstm")
    state, _, rollout = rollout_of(network, RandomEnds())
    late = np.roll(np.asarray(rollout.done), 1, axis=0)
    out = network.unroll(state, rollout.obs, late, rollout.rollout_extras)
    ratio = np.exp(out.output.loglikelihoods - rollout.network_output.loglikelihoods)
    assert np.abs(ratio - 1).max() > 1e-3


@pytest.mark.slow
def test_stepping_the_network_by_hand_gives_the_stored_outputs():
    network = make("nested")
    state, after, rollout = rollout_of(network, RandomEnds())
    for t in range(T):
        extras = jax.tree.map(lambda leaf, t=t: leaf[t], rollout.rollout_extras)
        out = network(state, rollout.obs[t], extras)
        np.testing.assert_allclose(
            out.output.loglikelihoods, rollout.network_output.loglikelihoods[t], atol=1e-4
        )
        state = reset_rows(network, out.next_state, rollout.done[t])
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(_plain(a), _plain(b), atol=1e-4), state, after
    )


def _plain(leaf):
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(leaf)
    return leaf
