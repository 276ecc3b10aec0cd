"""Truncated backpropagation and burn-in: the carry goes on, gradients stop where they should."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import EvalConfig, PPOConfig, TrainConfig, train_ppo
from nnx_ppo_train._replay import replay
from nnx_stateful import rebuild
from nnx_stateful.testing import to_float64

from ._networks import RandomEnds, make
from .test_replay import rollout_of

T = 24


@pytest.fixture(scope="module")
def case():
    """A graph with delays and a recurrent compute, in float64, and a rollout of it."""
    with jax.enable_x64(True):
        network = to_float64(make("graph"))
        state, _, rollout = rollout_of(network, RandomEnds(terminate=0.05, truncate=0.05))
    return network, state, rollout


def gradient(case, weights, bptt_length=None, burn_in=0):
    """Gradient of the weighted sum of values, by parameter."""
    network, state, rollout = case
    graphdef, params, rest = nnx.split(network, nnx.Param, ...)

    def loss(params):
        out = replay(rebuild(graphdef, params, rest), state, rollout, bptt_length, burn_in)
        return (out.output.value_estimates * jnp.asarray(weights)[:, None]).sum()

    return jax.tree.leaves(jax.jit(jax.grad(loss))(params))


def by_hand(case, weights, cuts):
    """The same with the network unrolled piece by piece, the carry made a constant between."""
    network, state, rollout = case
    graphdef, params, rest = nnx.split(network, nnx.Param, ...)
    bounds = [0, *cuts, T]

    def loss(params):
        total, carry = 0.0, state
        for begin, end in itertools.pairwise(bounds):
            piece = slice(begin, end)
            obs, done, extras = jax.tree.map(
                lambda leaf, piece=piece: leaf[piece],
                (rollout.obs, rollout.done, rollout.rollout_extras),
            )
            carry = jax.lax.stop_gradient(carry)
            out = rebuild(graphdef, params, rest).unroll(carry, obs, done, extras)
            total += (out.output.value_estimates * jnp.asarray(weights)[piece, None]).sum()
            carry = out.next_state
        return total

    return jax.tree.leaves(jax.jit(jax.grad(loss))(params))


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


def test_outputs_and_carry_do_not_change(case):
    with jax.enable_x64(True):
        network, state, rollout = case
        graphdef, variables = nnx.split(network)

        def replayed(bptt_length=None, burn_in=0):
            local = rebuild(graphdef, variables)
            return jax.jit(lambda: replay(local, state, rollout, bptt_length, burn_in))()

        whole = replayed()
        for options in ({"bptt_length": 6}, {"burn_in": 4}, {"bptt_length": 5, "burn_in": 4}):
            cut = replayed(**options)
            for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(cut), strict=True):
                if jnp.issubdtype(a.dtype, jnp.floating):
                    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
                assert (a.shape, a.dtype) == (b.shape, b.dtype)


def test_gradient_is_that_of_pieces_with_constant_carry(case):
    weights = np.linspace(0.5, 1.5, T)
    with jax.enable_x64(True):
        cut = gradient(case, weights, bptt_length=8)
        assert_same(cut, by_hand(case, weights, [8, 16]))
        whole = gradient(case, weights)
        assert_same(whole, by_hand(case, weights, []))
        assert max(np.abs(a - b).max() for a, b in zip(cut, whole, strict=True)) > 1e-3


def test_no_gradient_flows_through_the_burn_in(case):
    weights = np.linspace(0.5, 1.5, T)
    late = np.where(np.arange(T) < 6, 0.0, weights)
    with jax.enable_x64(True):
        assert_same(gradient(case, weights, burn_in=6), by_hand(case, late, [6]))


def test_length_of_the_whole_rollout_cuts_nothing(case):
    weights = np.linspace(0.5, 1.5, T)
    with jax.enable_x64(True):
        assert_same(gradient(case, weights, bptt_length=T), gradient(case, weights))


def test_network_without_memory_has_nothing_to_cut():
    ppo = PPOConfig(n_envs=8, rollout_length=6, total_steps=48, bptt_length=3)
    config = TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False))
    with pytest.raises(ValueError, match="bptt_length: expected None, for this network has no"):
        train_ppo(RandomEnds(), make("mlp"), config)
