"""Transforms and computes of the user's: carry, extras, metrics, losses, statistics, recording."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from nnx_graph import PopulationGraph
from nnx_graph.testing import LeakyProbe
from nnx_stateful import (
    GRU,
    Apply,
    Dense,
    Sequential,
    extract_activations,
    initial_state,
    with_recording,
)


@nnx.jit
def unroll(graph, state, xs):
    return graph.unroll(state, xs)


def run(graph, values):
    xs = {"x": jnp.asarray(values, jnp.float32).reshape(-1, 1, 1)}
    return unroll(graph, graph.initialize_state(1), xs).output["out"].ravel().tolist()


def probed():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 1, input_from="x")
    graph.add_population("mid", 1, compute=LeakyProbe(1, 1))
    graph.add_output("out", 1)
    graph.connect("in", "mid", transform=LeakyProbe(1, 1))
    graph.connect("in", "mid", transform=LeakyProbe(1, 1), delay=2)
    graph.connect("mid", "out")
    graph.finalize()
    return graph


NESTED = {"transforms": {"in->mid", "in->mid#1"}, "computes": {"mid"}}


def names_in(tree, groups=("transforms", "computes")):
    return {group: set(tree[group]) for group in groups}


def test_state_extras_and_metrics_nest_under_readable_names():
    graph = probed()
    out = graph(initial_state(graph, 2), {"x": jnp.ones((2, 1))})
    assert (
        names_in(out.next_state) == names_in(out.rollout_extras) == names_in(out.metrics) == NESTED
    )
    assert set(out.next_state) == {"buffers", "index", "transforms", "computes"}
    assert set(out.metrics) == set(out.rollout_extras) == {"transforms", "computes"}
    assert out.metrics["computes"]["mid"]["level"].shape == ()


def test_losses_of_all_modules_are_added_row_by_row():
    graph = probed()
    x = jnp.array([[1.0], [2.0]])
    out = graph(initial_state(graph, 2), {"x": x})
    expected = x[:, 0] ** 2 + 0.0 + x[:, 0] ** 2  # transform, delayed transform, compute
    assert out.regularization_loss.tolist() == expected.tolist()
    xs = {"x": jnp.stack([x, x])}
    assert unroll(graph, initial_state(graph, 2), xs).regularization_loss.shape == (2, 2)


def test_update_statistics_reaches_each_module_with_its_own_extras():
    graph = probed()
    out = unroll(graph, initial_state(graph, 2), {"x": jnp.ones((3, 2, 1))})
    extras = {**out.rollout_extras, "computes": {"mid": jnp.ones((5, 2, 1))}}
    graph.update_statistics(extras)
    seen = {
        module.seen[...].item()
        for _, module in nnx.iter_modules(graph)
        if isinstance(module, LeakyProbe)
    }
    assert seen == {6, 10}


def test_iter_modules_lists_custom_transforms_and_computes():
    rngs = nnx.Rngs(0)
    gru, dense = GRU(2, 2, rngs), Dense(1, 2, rngs)
    graph = PopulationGraph(rngs)
    graph.add_input("in", 1, input_from="x")
    graph.add_population("mid", 2, compute=gru)
    graph.add_output("out", 1)
    graph.connect("in", "mid", transform=dense)
    graph.connect("mid", "out", delay=1)
    graph.finalize()
    modules = [module for _, module in nnx.iter_modules(graph)]
    assert any(module is gru for module in modules)
    assert any(module is dense for module in modules)


def test_compute_turns_the_sum_into_the_output_before_the_activation():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 1, input_from="x")
    graph.add_population("mid", 1, compute=Apply(lambda x: x + 1), activation=jnp.square)
    graph.add_output("out", 1)
    graph.connect("in", "mid")
    graph.connect("in", "mid")
    graph.connect("mid", "out")
    graph.finalize()
    for ends in (("in", "mid", 0), ("in", "mid", 1), ("mid", "out", 0)):
        graph.connection(*ends).kernel[...] = 1.0
    assert run(graph, [1, 2]) == [9, 25]


def test_transform_object_in_two_connections_shares_weights_but_not_carry():
    rngs = nnx.Rngs(0)
    shared = GRU(1, 1, rngs)
    graph = PopulationGraph(rngs)
    graph.add_input("a", 1, input_from="x")
    graph.add_input("b", 1, input_from="y")
    graph.add_output("c", 1)
    graph.connect("a", "c", transform=shared)
    graph.connect("b", "c", transform=shared)
    graph.finalize()
    assert len(jax.tree.leaves(nnx.state(graph, nnx.Param))) == 3
    x = {"x": jnp.ones((1, 1)), "y": -jnp.ones((1, 1))}
    state = graph(initial_state(graph, 1), x).next_state["transforms"]
    both = state["a->c"]["module"]  # one call for both, which goes by the first
    assert both.shape == (1, 2, 1)
    assert not np.allclose(both[:, 0], both[:, 1])


def test_graph_nests_in_a_graph():
    inner = PopulationGraph(nnx.Rngs(0))
    inner.add_input("in", 1, input_from="x")
    inner.add_output("out", 1)
    inner.connect("in", "out", delay=1)
    inner.finalize()
    inner.connection("in", "out").kernel[...] = 1.0
    outer = PopulationGraph(nnx.Rngs(0))
    outer.add_input("in", 1, input_from="x")
    outer.add_output("out", 1)
    as_module = Sequential([Apply(lambda x: {"x": x}), inner, Apply(lambda y: y["out"])])
    outer.connect("in", "out", transform=as_module, delay=1)
    outer.finalize()
    assert run(outer, [1, 2, 3, 4]) == [0, 0, 1, 2]


def test_recording_finds_every_population_and_custom_module():
    graph = probed()
    recording = with_recording(graph)
    state, xs = initial_state(graph, 2), {"x": jnp.ones((3, 2, 1))}
    plain, stepped = unroll(graph, state, xs), recording(state, {"x": xs["x"][0]})
    unrolled = unroll(recording, state, xs)
    paths = {
        *(f"populations/{name}" for name in ("in", "mid", "out")),
        *("transforms/in->mid", "transforms/in->mid#1", "computes/mid", ""),
    }
    found = extract_activations(unrolled.metrics)
    assert set(found) == set(extract_activations(stepped.metrics)) == paths
    assert found["populations/mid"].shape == (3, 2, 1)
    np.testing.assert_array_equal(found["populations/out"], plain.output["out"])
    assert extract_activations(plain.metrics) == {}


def test_recording_reaches_populations_and_modules_inside_a_cycle():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 1, input_from="x")
    graph.add_output("out", 1)
    graph.connect("in", "out", delay=1)
    graph.connect("out", "in", delay=1, transform=LeakyProbe(1, 1))
    graph.finalize()
    state, xs = initial_state(graph, 2), {"x": jnp.ones((3, 2, 1))}
    found = extract_activations(unroll(with_recording(graph), state, xs).metrics)
    assert found["transforms/out->in"].shape == found["populations/in"].shape == (3, 2, 1)
