"""Cycles, unrolled with a derivative of their own: its gradients are those of stepping."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads
from nnx_graph import Connection, Population
from nnx_graph.testing import GraphDescription, build_graph, graph_descriptions
from nnx_stateful.testing import done_masks, to_float64

from ._graphs import (
    SEVERAL_LEVELS,
    assert_equal_to_scale,
    gradients_both_ways,
    make_loss,
    state_in_use,
    step,
    unroll,
)

STEPS, ROWS = 6, 3
PAIR = GraphDescription(
    (
        Population(name="a", size=2, input_from="x", activation=jnp.tanh),
        Population(name="b", size=1, output_to="y", activation=nnx.swish),
    ),
    (
        Connection(src="a", dst="b"),
        Connection(src="b", dst="a", delay=2),
        Connection(src="a", dst="a", delay=1),
    ),
)
SOME_DONE = np.array([[0, 1, 0], [0, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]], bool)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def prepare(description, steps=STEPS, rows=ROWS, seed=0):
    """A graph in float64, a state in use, and inputs."""
    graph = to_float64(build_graph(description, seed)[0])
    return (
        graph,
        state_in_use(graph, rows),
        description.inputs(np.random.default_rng(seed), steps, rows),
    )


random_graphs = given(
    description=graph_descriptions(), done=done_masks(STEPS, ROWS), seed=st.integers(0, 2**16)
)


def check_gradients(description, done, seed):
    graph, state, xs = prepare(description, seed=seed)
    assert_equal_to_scale(*gradients_both_ways(graph, state, xs, done))


@settings(max_examples=2)
@random_graphs
def test_gradients_of_random_graphs_equal_those_of_stepping(**drawn):
    check_gradients(**drawn)


@pytest.mark.slow
@settings(max_examples=max(settings().max_examples // 4, 1))
@random_graphs
def test_gradients_of_many_random_graphs_equal_those_of_stepping(**drawn):
    check_gradients(**drawn)


@pytest.mark.fast("6-3-*")
@pytest.mark.parametrize(
    ("steps", "rows", "done"),
    [
        (STEPS, ROWS, SOME_DONE),
        (3, ROWS, None),  # shorter than the longest delay
        (1, 1, SOME_DONE[:1, 1:2]),
    ],
)
def test_gradients_of_a_cycle_of_several_levels_equal_those_of_stepping(steps, rows, done):
    graph, state, xs = prepare(SEVERAL_LEVELS, steps, rows)
    assert_equal_to_scale(*gradients_both_ways(graph, state, xs, done))


@pytest.mark.slow
def test_gradients_match_finite_differences():
    graph, state, xs = prepare(SEVERAL_LEVELS, rows=2)
    loss = make_loss(unroll, graph, state)
    arguments = nnx.state(graph, nnx.Param), xs, state["buffers"]
    at_once = jax.jit(lambda params, xs, buffers: loss(params, xs, buffers, SOME_DONE[:, :2]))
    check_grads(at_once, arguments, order=1, modes=["rev"], rtol=1e-6)


def along(run):
    """A loss of how far the parameters go in one direction."""
    graph, state, xs = prepare(PAIR)
    loss, params = make_loss(run, graph, state), nnx.state(graph, nnx.Param)

    def of_distance(distance):
        moved = jax.tree.map(
            lambda x: x + distance * jnp.cos(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape),
            params,
        )
        return loss(moved, xs, state["buffers"], SOME_DONE)

    return of_distance


@pytest.mark.fast("reverse")
@pytest.mark.parametrize("outer", [jax.grad, jax.jacfwd], ids=["reverse", "forward"])
def test_second_derivatives_equal_those_of_stepping(outer):
    got, expected = (jax.jit(outer(jax.grad(along(run))))(0.5) for run in (unroll, step))
    np.testing.assert_allclose(got, expected, rtol=1e-8)


@pytest.mark.slow
def test_forward_mode_goes_through_stepping_alone():
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(along(unroll), (0.5,), (1.0,))
    _, slope = jax.jit(lambda x: jax.jvp(along(step), (x,), (1.0,)))(0.5)
    np.testing.assert_allclose(slope, jax.jit(jax.grad(along(unroll)))(0.5), rtol=1e-8)
