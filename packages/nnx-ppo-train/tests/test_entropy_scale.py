"""The factor of the entropy bonus: where it holds, and what it leaves alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import CategoricalSampler, NormalTanhSampler
from nnx_ppo_train.samplers import entropy_scaled
from nnx_stateful import Parallel, initial_state

B, T = 3, 4


@pytest.fixture
def network():
    rngs = nnx.Rngs(0)
    return Parallel(
        arm=NormalTanhSampler(rngs, entropy_weight=0.5), gait=CategoricalSampler(rngs, 0.25)
    )


def losses(network, scale=None, steps=None):
    """The regularization loss, and everything else that a call returns."""
    lead = (B,) if steps is None else (steps, B)
    x = jnp.ones((*lead, 4))
    run = network if steps is None else network.unroll
    if scale is None:
        out = run(initial_state(network, B), x)
    else:
        with entropy_scaled(scale):
            out = run(initial_state(network, B), x)
    return out.regularization_loss, (out.output, out.metrics, out.rollout_extras)


@pytest.mark.parametrize("steps", [None, T])
@pytest.mark.parametrize("scale", [0.0, 0.3, 2.0])
def test_scale_multiplies_the_bonus_and_nothing_else(network, scale, steps):
    plain, rest = losses(network, steps=steps)
    scaled, same = losses(network, scale, steps)
    np.testing.assert_allclose(scaled, scale * plain, rtol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, rest, same)


def test_scale_may_be_traced_and_is_read_at_every_call(network):
    traces = []

    @jax.jit
    def scaled(scale):
        traces.append(None)
        return losses(network, scale, T)[0]

    plain, _ = losses(network, steps=T)
    for scale in (0.5, 3.0):
        np.testing.assert_allclose(scaled(scale), scale * plain, rtol=1e-5)
    assert len(traces) == 1


def test_gradient_with_respect_to_the_scale_is_the_bonus(network):
    plain, _ = losses(network)
    gradient = jax.grad(lambda scale: losses(network, scale)[0].sum())(1.0)
    np.testing.assert_allclose(gradient, plain.sum(), rtol=1e-6)


def test_innermost_scale_holds_until_its_block_ends(network):
    plain, _ = losses(network)
    with entropy_scaled(5.0):
        with entropy_scaled(2.0):
            np.testing.assert_allclose(losses(network)[0], 2.0 * plain, rtol=1e-6)
        np.testing.assert_allclose(losses(network)[0], 5.0 * plain, rtol=1e-6)
    np.testing.assert_array_equal(losses(network)[0], plain)


def test_scale_ends_with_an_error(network):
    plain, _ = losses(network)
    with pytest.raises(KeyError, match="gone"), entropy_scaled(5.0):
        {}["gone"]
    np.testing.assert_array_equal(losses(network)[0], plain)
