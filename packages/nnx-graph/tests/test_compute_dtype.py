"""Graphs whose connections multiply in bfloat16."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_graph import PopulationGraph

from ._graphs import gradients_both_ways, state_in_use

STEPS, ROWS = 5, 3
DONE = np.zeros((STEPS, ROWS), bool)
DONE[1, 0] = DONE[3, 2] = True


def cyclic(compute_dtype):
    graph = PopulationGraph(nnx.Rngs(3), compute_dtype)
    graph.add_input("a", 4, input_from="x")
    graph.add_population("b", 6, activation=jnp.tanh)
    graph.add_output("y", 2)
    graph.connect("a", "b")
    graph.connect("b", "b", delay=1)
    graph.connect("b", "b", delay=2)
    graph.connect("b", "y")
    graph.finalize()
    return graph


@pytest.fixture(scope="module")
def gradients():
    xs = {"x": np.random.default_rng(0).standard_normal((STEPS, ROWS, 4)).astype(np.float32)}
    found = {}
    for name in ("bfloat16", None):
        graph = cyclic(name)
        found[name] = gradients_both_ways(graph, state_in_use(graph, ROWS), xs, DONE)
    return found


def test_gradients_of_unrolling_are_those_of_stepping(gradients):
    unrolled, stepped = gradients["bfloat16"]
    for one, other in zip(jax.tree.leaves(unrolled), jax.tree.leaves(stepped), strict=True):
        scale = np.abs(other).max() + 1e-6
        assert one.dtype == jnp.float32
        assert np.abs(one - other).max() <= 0.02 * scale  # sums of rounded gradients, rounded


def test_operands_are_rounded_and_little_else_changes(gradients):
    narrow, wide = gradients["bfloat16"][0], gradients[None][0]
    deviations = [
        np.abs(one - other).max() / (np.abs(other).max() + 1e-6)
        for one, other in zip(jax.tree.leaves(narrow), jax.tree.leaves(wide), strict=True)
    ]
    assert 1e-4 < max(deviations) < 0.1


def test_stepping_and_unrolling_give_the_same_outputs():
    graph = cyclic("bfloat16")
    xs = {"x": jnp.asarray(np.random.default_rng(1).standard_normal((STEPS, ROWS, 4)), jnp.float32)}
    state = graph.initialize_state(ROWS)
    unrolled = graph.unroll(state, xs).output["y"]
    for step in range(STEPS):
        out = graph(state, {"x": xs["x"][step]})
        state = out.next_state
        np.testing.assert_allclose(out.output["y"], unrolled[step], rtol=0, atol=2e-6)
    assert unrolled.dtype == jnp.float32


def test_gradients_have_the_type_of_their_parameters():
    graph = cyclic("bfloat16")
    params = nnx.state(graph, nnx.Param)
    nnx.update(graph, jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params))
    graphdef, params, rest = nnx.split(graph, nnx.Param, ...)

    def loss(params, xs):
        graph = nnx.merge(graphdef, params, rest)
        return jnp.sum(graph.unroll(graph.initialize_state(ROWS), xs).output["y"])

    for dtype in (jnp.bfloat16, jnp.float32):  # of the observations
        slope = jax.grad(loss)(params, {"x": jnp.ones((STEPS, ROWS, 4), dtype)})
        assert {leaf.dtype for leaf in jax.tree.leaves(slope)} == {jnp.dtype(jnp.bfloat16)}


def test_products_take_operands_of_eight_significant_bits():
    graph = PopulationGraph(nnx.Rngs(0), "bfloat16")
    graph.add_input("a", 1, input_from="x")
    graph.add_output("y", 1)
    graph.connect("a", "y")
    graph.finalize()
    graph.connection("a", "y").kernel[...] = 1.0
    out = graph(graph.initialize_state(1), {"x": jnp.full((1, 1), 1 + 2.0**-10)})
    assert float(out.output["y"][0, 0]) == 1.0


def test_an_integer_type_is_refused():
    with pytest.raises(ValueError, match="PopulationGraph: compute_dtype: expected a floating"):
        PopulationGraph(nnx.Rngs(0), "int8")
