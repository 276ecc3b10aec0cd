"""Stepping and unrolling random graphs against the interpreter on plain lists."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given
from hypothesis import strategies as st
from nnx_graph import PopulationGraph
from nnx_graph.testing import build_graph, done_masks, graph_descriptions, interpret
from nnx_stateful import initial_state, reset_rows
from _f64 import to_float64

STEPS = 6


def stepped(graph, state, xs, done):
    """Plain stepping, one call after the other, with the one reset in between."""
    outputs = []
    for t in range(len(done)):
        out = graph(state, {key: x[t] for key, x in xs.items()})
        state = reset_rows(graph, out.next_state, done[t])
        outputs.append(out.output)
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *outputs), state


def expected_outputs(graph, xs, done, probes):
    result = interpret(graph, xs, done, probes)
    return {
        p.output_to: np.stack([[row[p.name] for row in step] for step in result])
        for p in graph.spec.outputs
    }


def assert_close(got, expected):
    assert sorted(got) == sorted(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-8, atol=1e-10, err_msg=key)


@given(
    description=graph_descriptions(),
    rows=st.sampled_from((1, 3)),
    data=st.data(),
    seed=st.integers(0, 2**16),
)
def test_graph_stepped_and_unrolled_equals_interpreter(description, rows, data, seed):
    done = data.draw(done_masks(STEPS, rows))
    xs = description.inputs(np.random.default_rng(seed), STEPS, rows)
    with jax.enable_x64(True):
        graph, probes = build_graph(description, seed)
        graph = to_float64(graph)
        expected = expected_outputs(graph, xs, done, probes)
        state = initial_state(graph, rows)

        outputs, stepped_state = stepped(graph, state, xs, jnp.asarray(done))
        assert_close(outputs, expected)

        out = graph.unroll(state, xs, jnp.asarray(done))
        assert_close(out.output, expected)
        jax.tree.map(
            lambda got, wanted: np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-10),
            out.next_state,
            stepped_state,
        )
