"""Unrolling against stepping: gradients, replay, metrics, and how much is scanned."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_graph import Connection, Population, PopulationGraph, Unnamed
from nnx_graph.testing import GraphDescription, LeakyProbe, build_graph
from nnx_stateful import ACTIVATION_KEY, initial_state, scan_unroll, with_recording
from nnx_stateful.testing import to_float64

STEPS, ROWS = 8, 3
PROBE = Unnamed("LeakyProbe")
DONE = np.random.default_rng(5).random((STEPS, ROWS)) < 0.25


@functools.cache
def mixed_graph():
    """A cyclic pair with a probe inside, fed and read over delays and probes."""
    return build_graph(
        GraphDescription(
            (
                Population(name="in", size=2, input_from="x"),
                Population(name="a", size=3, activation=jnp.tanh),
                Population(name="b", size=3, activation=jnp.tanh, compute=PROBE),
                Population(name="out", size=2, output_to="y"),
            ),
            (
                Connection(src="in", dst="a", delay=2),
                Connection(src="in", dst="a", transform=PROBE, index=1),
                Connection(src="a", dst="b"),
                Connection(src="a", dst="b", delay=9, index=1),  # longer than the sequence
                Connection(src="b", dst="a", delay=1, transform=PROBE),
                Connection(src="b", dst="out", delay=3),
                Connection(src="b", dst="out", transform=PROBE, index=1),
                Connection(src="in", dst="out", delay=4),
            ),
        )
    )[0]


def inputs(steps=STEPS):
    return {"x": jnp.asarray(np.random.default_rng(6).normal(size=(steps, ROWS, 2)))}


def compiled(graph, in_steps=False):
    """The graph's unroll, or stepping by the one time loop, as one compiled function."""
    graphdef, variables = nnx.split(graph)

    @jax.jit
    def run(variables, state, xs, done, extras):
        module = nnx.merge(graphdef, variables)
        if in_steps:
            return scan_unroll(module, state, xs, done, extras)
        return module.unroll(state, xs, done, extras)

    return lambda state, xs, done=None, extras=None: run(variables, state, xs, done, extras)


def assert_trees_close(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10), got, expected
    )


def test_unroll_has_the_gradients_of_stepping():
    with jax.enable_x64(True):
        graph = to_float64(mixed_graph())
        xs, done = inputs(), jnp.asarray(DONE)
        state = compiled(graph)(initial_state(graph, ROWS), xs).next_state  # in use
        graphdef, params, rest = nnx.split(graph, nnx.Param, ...)

        def gradients(unroll):
            def loss(params, xs):
                out = unroll(nnx.merge(graphdef, params, rest), xs)
                reported = (out.output, out.regularization_loss, out.next_state["buffers"])
                return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(reported))

            return jax.jit(jax.grad(loss, argnums=(0, 1)))(params, xs)

        at_once = gradients(lambda module, xs: module.unroll(state, xs, done))
        in_steps = gradients(lambda module, xs: scan_unroll(module, state, xs, done, None))
        assert_trees_close(at_once, in_steps)


def test_unroll_equals_stepping_leaf_for_leaf():
    with jax.enable_x64(True):
        graph = to_float64(mixed_graph())
        at_once, in_steps = compiled(graph), compiled(graph, in_steps=True)
        state = at_once(initial_state(graph, ROWS), inputs()).next_state
        assert_trees_close(at_once(state, inputs()), in_steps(state, inputs()))
        for done in (jnp.asarray(DONE), jnp.ones(DONE.shape, bool)):
            assert_trees_close(at_once(state, inputs(), done), in_steps(state, inputs(), done))


def test_unroll_in_two_parts_equals_one():
    with jax.enable_x64(True):
        graph = to_float64(mixed_graph())
        xs, done, start = inputs(), jnp.asarray(DONE), initial_state(graph, ROWS)
        unroll, half = compiled(graph), STEPS // 2
        whole = unroll(start, xs, done)
        first = unroll(start, {"x": xs["x"][:half]}, done[:half])
        second = unroll(first.next_state, {"x": xs["x"][half:]}, done[half:])
        assert_trees_close(second.next_state, whole.next_state)
        joined = jnp.concatenate([first.output["y"], second.output["y"]])
        assert_trees_close({"y": joined}, whole.output)


def test_unroll_hands_each_probe_its_own_extras():
    graph, xs, done = mixed_graph(), inputs(), jnp.asarray(DONE)
    state = initial_state(graph, ROWS)
    at_once, in_steps = compiled(graph), compiled(graph, in_steps=True)
    emitted = at_once(state, xs, done)
    other = jax.tree.map(lambda leaf: leaf + 1.0, emitted.rollout_extras)
    replayed, expected = at_once(state, xs, done, other), in_steps(state, xs, done, other)
    np.testing.assert_allclose(replayed.output["y"], expected.output["y"], rtol=1e-5, atol=1e-5)
    assert not np.allclose(replayed.output["y"], emitted.output["y"])


def count_scans(function, *arguments):
    text = str(jax.make_jaxpr(function)(*arguments))
    return text.count("scan[")


def test_unroll_of_a_graph_without_cycles_needs_no_scan():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 2, input_from="x")
    graph.add_population("mid", 3, activation=jnp.tanh)
    graph.add_output("out", 1)
    graph.connect("in", "mid", delay=2)
    graph.connect("mid", "out", delay=1)
    graph.finalize()
    state = initial_state(graph, ROWS)
    assert count_scans(graph.unroll, state, inputs(), jnp.asarray(DONE)) == 0


def test_unroll_scans_each_cycle_once():
    graph = mixed_graph()
    state = initial_state(graph, ROWS)
    # the cycle of a and b, and one for each probe outside of it, which has a carry
    assert count_scans(graph.unroll, state, inputs(), jnp.asarray(DONE)) == 1 + 2


def test_unroll_without_inputs_takes_its_length_from_done():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_output("a", 1, activation=jnp.tanh)
    graph.connect("a", "a", delay=1)
    graph.finalize()
    graph.connection("a", "a").bias[...] = 1.0
    state = initial_state(graph, 2)
    out = graph.unroll(state, None, jnp.zeros((4, 2), bool))
    assert out.output["a"].shape == (4, 2, 1)
    with pytest.raises(ValueError, match=r"PopulationGraph.unroll.*pass done of shape \(T, B\)"):
        graph.unroll(state, None)


def test_activation_sees_one_step_at_a_time_in_a_sequence():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 2, input_from="x", activation=lambda x: x - x.mean(axis=0))
    graph.add_output("out", 2)
    graph.connect("in", "out")
    graph.finalize()
    state, xs = initial_state(graph, ROWS), inputs()
    at_once, in_steps = graph.unroll(state, xs), scan_unroll(graph, state, xs, None, None)
    np.testing.assert_allclose(at_once.output["out"], in_steps.output["out"], atol=1e-6)


def test_compute_with_carry_in_a_cycle_is_reset_with_the_row():
    probe = LeakyProbe(1, 1)
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 1, input_from="x")
    graph.add_population("hold", 1, compute=probe)
    graph.add_output("out", 1)
    graph.connect("in", "hold")
    graph.connect("hold", "hold", delay=1)
    graph.connect("hold", "out")
    graph.finalize()
    for ends, weight in ((("in", "hold"), 1.0), (("hold", "hold"), 0.0), (("hold", "out"), 1.0)):
        graph.connection(*ends).kernel[...] = weight
    done = jnp.array([[False], [True], [False]])
    out = graph.unroll(initial_state(graph, 1), {"x": jnp.ones((3, 1, 1))}, done)
    assert out.output["out"].ravel().tolist() == [1.0, 1.5, 1.0]


def test_activation_of_another_type_keeps_the_type_of_the_sum():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 2, input_from="x")
    graph.add_population("spikes", 3, activation=lambda x: x > 0)  # bool
    graph.add_output("out", 2)
    graph.connect("in", "spikes")
    graph.connect("spikes", "spikes", delay=1)
    graph.connect("spikes", "out")
    graph.finalize()
    state, xs = initial_state(graph, ROWS), {"x": inputs()["x"].astype(jnp.float32)}
    at_once = with_recording(graph).unroll(state, xs)
    in_steps = scan_unroll(with_recording(graph), state, xs, None, None)
    for out in (at_once, in_steps):
        spikes = out.metrics["populations"]["spikes"][ACTIVATION_KEY]
        assert spikes.dtype == jnp.float32
        assert set(np.unique(spikes)) == {0, 1}
    np.testing.assert_allclose(at_once.output["out"], in_steps.output["out"], atol=1e-6)


def test_wider_input_of_a_cycle_has_the_types_of_stepping():
    with jax.enable_x64(True):
        graph = PopulationGraph(nnx.Rngs(0))  # parameters are of 32 bits
        graph.add_input("in", 2, input_from="x")
        graph.add_output("out", 2, activation=jnp.tanh)
        graph.connect("in", "out", transform=LeakyProbe(2, 2))  # computes in 64 bits
        graph.connect("out", "out", delay=1)
        graph.finalize()
        state, xs = initial_state(graph, ROWS), {"x": inputs()["x"].astype(jnp.float32)}
        at_once = compiled(graph)(state, xs, jnp.asarray(DONE))
        in_steps = compiled(graph, in_steps=True)(state, xs, jnp.asarray(DONE))
        assert at_once.output["out"].dtype == in_steps.output["out"].dtype == jnp.float64
        assert_trees_close(at_once, in_steps)
