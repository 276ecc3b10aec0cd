"""Stepping and unrolling random graphs against the interpreter on plain lists."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from nnx_graph import Connection, Population, PopulationGraph
from nnx_graph.testing import (
    GraphDescription,
    LeakyProbe,
    build_graph,
    graph_descriptions,
    interpret,
)
from nnx_stateful import initial_state, scan_unroll
from nnx_stateful.testing import done_masks, to_float64

STEPS = 6


def step_and_unroll(graph, state, xs, done, cut):
    """Steps through everything; then unrolls what follows ``cut`` from the state reached there."""

    @jax.jit
    def run(variables, state, xs, done):
        module = nnx.merge(graphdef, variables)
        head, tail = (
            ({key: x[part] for key, x in xs.items()}, done[part])
            for part in (slice(cut), slice(cut, None))
        )
        outputs = []
        if cut:
            out = scan_unroll(module, state, *head, None)
            outputs, state = [out.output], out.next_state
        out = scan_unroll(module, state, *tail, None)
        stepped = jax.tree.map(lambda *parts: jnp.concatenate(parts), *outputs, out.output)
        unrolled = module.unroll(state, *tail)
        return stepped, out.next_state, unrolled.output, unrolled.next_state

    graphdef, variables = nnx.split(graph)
    return run(variables, state, xs, done)


def expected_outputs(graph, xs, done, probes):
    result = interpret(graph, xs, done, probes)
    return {
        p.output_to: np.stack([[row[p.name] for row in step] for step in result])
        for p in graph.spec.outputs
    }


def assert_close(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10), got, expected
    )


random_graphs = given(
    description=graph_descriptions(),
    rows=st.sampled_from((1, 3)),
    data=st.data(),
    seed=st.integers(0, 2**16),
)


def check_against_interpreter(description, rows, data, seed):
    done = data.draw(done_masks(STEPS, rows))
    cut = data.draw(st.sampled_from((0, 2, 5)))  # the rest is unrolled from a state in use
    xs = description.inputs(np.random.default_rng(seed), STEPS, rows)
    with jax.enable_x64(True):
        graph, probes = build_graph(description, seed)
        graph = to_float64(graph)
        expected = expected_outputs(graph, xs, done, probes)
        stepped, last, unrolled, final = step_and_unroll(
            graph, initial_state(graph, rows), xs, jnp.asarray(done), cut
        )
        assert_close(stepped, expected)
        assert_close(unrolled, {key: y[cut:] for key, y in expected.items()})
        assert_close(final, last)


@settings(max_examples=4)
@random_graphs
def test_graph_stepped_and_unrolled_equals_interpreter(**drawn):
    check_against_interpreter(**drawn)


@pytest.mark.slow
@random_graphs
def test_many_graphs_stepped_and_unrolled_equal_interpreter(**drawn):
    check_against_interpreter(**drawn)


def test_interpreter_matches_a_trace_by_hand():
    a, b = Population(name="a", size=1, input_from="x"), Population(name="b", size=1, output_to="b")
    parallel = (
        Connection(src="a", dst="b", delay=1),
        Connection(src="a", dst="b", delay=2, index=1),
    )
    graph, probes = build_graph(GraphDescription((a, b), parallel))
    for index, weight in enumerate((10.0, 100.0)):
        view = graph.connection("a", "b", index)
        view.kernel[...], view.bias[...] = weight, 0.5
    xs = {"x": np.arange(1.0, 6.0).reshape(5, 1, 1)}
    done = np.array([[False], [False], [True], [False], [False]])
    got = [step[0]["b"].item() for step in interpret(graph, xs, done, probes)]
    # step 3 begins an episode: nothing is read across; the biases act all the while
    assert got == [1, 11, 121, 1, 41]
    assert [
        float(y)
        for y in graph.unroll(
            graph.initialize_state(1), {"x": jnp.asarray(xs["x"], jnp.float32)}, jnp.asarray(done)
        )
        .output["b"]
        .ravel()
    ] == got


def test_interpreter_without_twin_of_an_activation_raises():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 1, input_from="x", activation=jnp.sin)
    graph.add_output("b", 1)
    graph.finalize()
    with pytest.raises(KeyError, match="sin"):
        interpret(graph, {"x": np.ones((1, 1, 1))}, np.zeros((1, 1), bool))


def test_probe_steps_as_its_numpy_twin():
    probe, x = LeakyProbe(2, 3), np.array([[1.0, 2.0], [3.0, -1.0]], np.float32)
    state, held = probe.initialize_state(1), None
    for row in x:
        out = probe(state, row[None])
        held, expected = probe.step_row(held, row)
        state = out.next_state
        np.testing.assert_allclose(out.output[0], expected, rtol=1e-6)
    np.testing.assert_allclose(state[0], held, rtol=1e-6)
