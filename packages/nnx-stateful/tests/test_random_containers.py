"""Random nested networks keep the laws, step by step and unrolled."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from nnx_stateful import initial_state
from nnx_stateful.testing import (
    ModuleDescription,
    assert_close,
    check_stateful_module,
    done_masks,
    input_arrays,
    module_descriptions,
    step_through,
)
from nnx_stateful.testing._strategies import LEAVES, NODES

STEPS, ROWS, FEATURES = 3, 4, 3
# Compiling each network would take longer than running it: these run operation by operation.


random_networks = given(description=module_descriptions(), seed=st.integers(0, 2))
random_sequences = given(
    description=module_descriptions(),
    xs=input_arrays(STEPS, ROWS, FEATURES),
    done=done_masks(STEPS, ROWS),
)


def check_laws(description, seed):
    net = description.build(nnx.Rngs(seed))
    with jax.disable_jit():
        check_stateful_module(
            net,
            jax.random.normal(jax.random.key(seed), (ROWS, FEATURES)),
            steps=STEPS,
            seed=seed,
            laws=[1, 2, 3, 5, 7, 8, 9],  # law 6 has a test of its own
        )


def check_unroll(description, xs, done):
    net = description.build(nnx.Rngs(0))
    state = initial_state(net, ROWS)
    with jax.disable_jit():
        unrolled = net.unroll(state, jnp.asarray(xs), jnp.asarray(done))
        stepped = step_through(net, state, jnp.asarray(xs), jnp.asarray(done))
    assert_close("", stepped, unrolled, (1e-4, 1e-4))


@random_networks
@settings(max_examples=3)
def test_random_network_keeps_the_laws(description, seed):
    check_laws(description, seed)


@pytest.mark.slow
@random_networks
@settings(max_examples=settings.default.max_examples // 2)  # operations compile for each
def test_many_random_networks_keep_the_laws(description, seed):
    check_laws(description, seed)


@random_sequences
@settings(max_examples=5)
def test_random_network_unrolls_as_it_steps(description, xs, done):
    check_unroll(description, xs, done)


@pytest.mark.slow
@random_sequences
def test_many_random_networks_unroll_as_they_step(description, xs, done):
    check_unroll(description, xs, done)


@pytest.mark.parametrize("kind", sorted(LEAVES))
def test_every_leaf_of_the_descriptions_maps_features_to_features(kind):
    net = ModuleDescription(kind).build(nnx.Rngs(0))
    x = jnp.ones((ROWS, FEATURES))
    assert net(initial_state(net, ROWS), x).output.shape == x.shape


@pytest.mark.parametrize("kind", sorted(NODES))
def test_every_node_of_the_descriptions_maps_features_to_features(kind):
    children = (("b", ModuleDescription("scale")), ("a", ModuleDescription("counter")))
    net = ModuleDescription(kind, children).build(nnx.Rngs(0))
    x = jnp.ones((ROWS, FEATURES))
    assert net(initial_state(net, ROWS), x).output.shape == x.shape
