"""Declarations as dicts and JSON: written, read back, and refused."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given
from nnx_graph import (
    Connection,
    GraphSpec,
    Named,
    Population,
    PopulationGraph,
    Unnamed,
    spec_from_dict,
    spec_from_json,
    spec_to_dict,
    spec_to_json,
)
from nnx_graph.testing import LeakyProbe, interpret

from ._specs import assert_equal_leaves, assert_same, written_specs

# ---- round trips ---------------------------------------------------------------------------------


@given(spec=written_specs())
def test_dict_and_json_of_random_graphs_give_equal_declarations(spec):
    data = spec_to_dict(spec)
    assert_same(spec_from_dict(data), spec)
    assert json.loads(json.dumps(data)) == data  # plain data through and through
    text = spec_to_json(spec)
    assert_same(spec_from_json(text), spec)
    assert spec_to_json(spec_from_json(text)) == text


CONTROLLER = GraphSpec(
    (
        Population(name="eye", size=2, input_from="x", activation=jnp.tanh),
        Population(name="core", size=3, compute=Named("gru"), activation=nnx.swish),
        Population(name="arm", size=1, output_to="y", attributes=(("side", "left"),)),
    ),
    (
        Connection(src="eye", dst="core", delay=2),
        Connection(src="eye", dst="core", transform=Named("dense", use_bias=False), index=1),
        Connection(src="core", dst="core", delay=1),
        Connection(src="core", dst="arm"),
    ),
)
OSCILLATOR = GraphSpec(
    (Population(name="wave", size=2, output_to="y", activation=jnp.tanh),),
    (
        Connection(src="wave", dst="wave", delay=1),
        Connection(src="wave", dst="wave", delay=3, index=1),
    ),
)


@nnx.jit
def unroll(graph, state, xs, done):
    return graph.unroll(state, xs, done)


@pytest.mark.parametrize("spec", [CONTROLLER, OSCILLATOR], ids=["controller", "oscillator"])
def test_graph_from_json_computes_the_same_with_the_same_weights(spec):
    rng = np.random.default_rng(0)
    original = PopulationGraph.from_spec(spec, nnx.Rngs(0))
    weights = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(x.dtype), nnx.state(original))
    nnx.update(original, weights)
    copied = PopulationGraph.from_json(original.to_json(), nnx.Rngs(1))
    nnx.update(copied, weights)
    xs, done = {"x": rng.normal(size=(4, 3, 2))}, jnp.asarray(rng.random((4, 3)) < 0.3)
    expected, got = (
        unroll(graph, graph.initialize_state(3), xs, done) for graph in (original, copied)
    )
    assert bool(jnp.any(expected.output["y"]))
    assert_equal_leaves(got.output, expected.output)
    assert_equal_leaves(got.next_state, expected.next_state)


def test_defaults_are_left_out_and_names_short():
    spec = GraphSpec(
        (
            Population(name="a", size=1, input_from="x", activation=nnx.silu),
            Population(name="b", size=2, output_to="y", compute=Named("lru", r_max=0.5)),
        ),
        (
            Connection(src="a", dst="b", transform=Named("gru")),
            Connection(src="a", dst="b", delay=2, index=1, attributes=(("length", (1.5, None)),)),
        ),
        (("title", "two"),),
    )
    assert spec_to_dict(spec) == {
        "format": "nnx-graph",
        "version": 1,
        "attributes": {"title": "two"},
        "populations": [
            {"name": "a", "size": 1, "activation": "swish", "input_from": "x"},
            {
                "name": "b",
                "size": 2,
                "output_to": "y",
                "compute": {"name": "lru", "options": {"r_max": 0.5}},
            },
        ],
        "connections": [
            {"src": "a", "dst": "b", "transform": "gru"},
            {
                "src": "a",
                "dst": "b",
                "delay": 2,
                "index": 1,
                "attributes": {"length": [1.5, None]},
            },
        ],
    }


# ---- graphs of declarations ----------------------------------------------------------------------


def test_graph_from_its_declaration_has_the_same_weights():
    declared = PopulationGraph(nnx.Rngs(7))
    declared.add_input("a", 2, input_from="x")
    declared.connect("a", "a", delay=1)
    declared.add_population("b", 3, compute="gru", activation="tanh")
    declared.connect("a", "b", transform=Named("dense", use_bias=False))
    declared.connect("b", "a", delay=2)
    declared.add_output("c", 1)
    declared.connect("b", "c")
    declared.finalize()
    again = PopulationGraph.from_spec(declared.spec, nnx.Rngs(7))
    assert again.spec == declared.spec
    assert_equal_leaves(nnx.state(again), nnx.state(declared))
    other = PopulationGraph.from_spec(declared.spec, nnx.Rngs(8))
    assert bool(
        (other.connection("b", "c").kernel[...] != again.connection("b", "c").kernel[...]).any()
    )


def test_graph_of_a_declaration_takes_modules_without_a_name():
    spec = GraphSpec(
        (Population(name="a", size=1, output_to="y", compute=Unnamed("LeakyProbe")),),
        (Connection(src="a", dst="a", delay=1, transform=Unnamed("LeakyProbe")),),
    )
    modules = {"a": LeakyProbe(1, 1), "a->a": LeakyProbe(1, 1)}
    graph = PopulationGraph.from_spec(spec, nnx.Rngs(0), modules)
    assert graph.spec == spec
    assert graph.connection("a", "a").transform is modules["a->a"]
    assert any(module is modules["a"] for _, module in nnx.iter_modules(graph))


def test_population_may_read_compute_and_put_out_at_once():
    spec = GraphSpec(
        (
            Population(
                name="a", size=2, input_from="x", output_to="y", compute=Unnamed("LeakyProbe")
            ),
        ),
        (Connection(src="a", dst="a", delay=2),),
    )
    probe, xs = LeakyProbe(2, 2), {"x": np.arange(12.0).reshape(3, 2, 2)}
    graph = PopulationGraph.from_spec(spec, nnx.Rngs(0), modules={"a": probe})
    result = interpret(graph, xs, np.zeros((3, 2), bool), {"a": probe})
    expected = np.stack([[row["a"] for row in step] for step in result])
    got = unroll(graph, graph.initialize_state(2), xs, None)
    np.testing.assert_allclose(got.output["y"], expected, rtol=1e-5, atol=1e-5)


def test_inputs_and_outputs_are_declared_with_a_compute_as_data_have_it():
    graph = PopulationGraph(nnx.Rngs(0))
    probe = LeakyProbe(2, 2)
    graph.add_input("a", 2, input_from="x", compute=probe)
    graph.add_output("b", 1, compute="gru")
    graph.connect("a", "b", delay=1)
    graph.finalize()
    a, b = graph.spec.populations
    assert (a.compute, b.compute) == (Unnamed("LeakyProbe"), Named("gru"))
    again = PopulationGraph.from_spec(graph.spec, nnx.Rngs(0), {"a": probe})
    xs = {"x": np.arange(12.0).reshape(3, 2, 2)}
    got, expected = (unroll(g, g.initialize_state(2), xs, None).output for g in (graph, again))
    assert bool(jnp.any(expected["b"]))
    assert_equal_leaves(got, expected)


def test_attributes_are_kept_by_the_graph():
    about = (("region", "V1"), ("layers", (2, 3)))
    spec = GraphSpec(
        (Population(name="a", size=1, output_to="y", attributes=about),),
        (Connection(src="a", dst="a", delay=1, attributes=about),),
        about,
    )
    graph = PopulationGraph.from_spec(spec, nnx.Rngs(0))
    assert_same(graph.spec, spec)
    assert_same(PopulationGraph.from_dict(graph.to_dict(), nnx.Rngs(0)).spec, spec)


def test_attributes_take_their_hashable_form():
    population = Population(name="a", size=1, attributes=(("at", [np.float32(0.5), [1]]),))
    assert population.attributes == (("at", (0.5, (1,))),)
    hash(population)
