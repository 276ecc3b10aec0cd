"""Aggregation of messages: by hand, with what else acts on sums, in gradients, and refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.test_util import check_grads
from nnx_graph import (
    AttentionPooling,
    Connection,
    GatedSum,
    GraphSpec,
    Named,
    Population,
    PopulationGraph,
    register_aggregation,
    spec_from_dict,
)
from nnx_stateful import Apply, scan_unroll
from nnx_stateful.testing import check_stateful_module, to_float64

MESSAGES = np.array([[1.0, -5.0], [2.0, 3.0], [6.0, -1.0]], np.float32)
MIDDLE = Apply(lambda messages: jnp.median(messages, axis=-2))


def joined_by(aggregate, delays=(0, 0, 0), **options):
    """Three populations whose outputs arrive, unchanged, at a fourth."""
    graph = PopulationGraph(nnx.Rngs(0))
    for name in "abc":
        graph.add_input(name, 2, input_from=name)
    graph.add_output("z", 2, aggregate=aggregate, **options)
    for name, delay in zip("abc", delays, strict=True):
        graph.connect(name, "z", delay=delay)
    graph.finalize()
    for name in "abc":
        graph.connection(name, "z").kernel[...] = jnp.eye(2)
    return graph


def call(graph, messages=MESSAGES):
    xs = {name: jnp.asarray(m)[None] for name, m in zip("abc", messages, strict=True)}
    return np.asarray(graph(graph.initialize_state(1), xs).output["z"][0])


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (None, [9, -3]),
        ("sum", [9, -3]),
        ("mean", [3, -1]),
        ("max", [6, 3]),
        (Named("max"), [6, 3]),
    ],
)
def test_messages_are_joined(aggregate, expected):
    np.testing.assert_allclose(call(joined_by(aggregate)), expected, rtol=1e-6)


def test_gates_weigh_each_message_by_its_content():
    graph = joined_by("gated")
    gate = graph.circuit.aggregates.children["z"]
    gate.kernel[...] = jnp.array([[0.0, 0.0], [1.0, 0.0]])
    gate.bias[...] = jnp.zeros((3, 2)).at[1, 1].set(-100.0)
    open_to = 1 / (1 + np.exp(-MESSAGES[:, 1]))  # of the first unit, by the second
    expected = [MESSAGES[:, 0] @ open_to, (-5.0 - 1.0) / 2]  # the second message's gate is shut
    np.testing.assert_allclose(call(graph), expected, rtol=1e-5)


def test_attention_goes_to_the_message_that_answers_the_query():
    graph = joined_by(Named("attention", heads=2))
    pool = graph.circuit.aggregates.children["z"]
    pool.query[...] = jnp.array([[50.0], [50.0]])
    pool.key[...] = jnp.zeros((2, 2, 1)).at[0, 0, 0].set(1.0).at[1, 1, 0].set(1.0)
    pool.value[...] = jnp.zeros((2, 2, 1)).at[1, 0, 0].set(1.0).at[0, 1, 0].set(1.0)
    # the first head looks for a large first unit and takes the second, the second the other way
    np.testing.assert_allclose(call(graph), [-1, 2], rtol=1e-5)


def test_attention_does_not_depend_on_the_order_of_messages():
    graph = joined_by("attention")
    np.testing.assert_allclose(call(graph), call(graph, MESSAGES[[2, 0, 1]]), rtol=1e-5)
    assert not np.allclose(call(graph), call(graph, MESSAGES + np.array([[1], [0], [0]])))


@pytest.mark.parametrize("aggregate", ["mean", "max", "gated", "attention"])
def test_what_comes_from_outside_is_added_after_the_messages_are_joined(aggregate):
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 2, input_from="a")
    graph.add_input("z", 2, input_from="z", aggregate=aggregate)
    graph.add_output("out", 2)
    graph.connect("a", "z")
    graph.connect("a", "z", delay=1)
    graph.connect("z", "out")
    graph.finalize()
    graph.connection("z", "out").kernel[...] = jnp.eye(2)
    state, xs = graph.initialize_state(1), {"a": jnp.ones((1, 2)), "z": jnp.zeros((1, 2))}
    alone = graph(state, xs).output["out"]
    driven = graph(state, xs | {"z": jnp.array([[3.0, -1.0]])}).output["out"]
    np.testing.assert_allclose(driven - alone, [[3, -1]], atol=1e-6)
    pushed = graph.stimulate("z", jnp.array([2.0, 5.0]))(state, xs).output["out"]
    np.testing.assert_allclose(pushed - alone, [[2, 5]], atol=1e-6)


def test_lesioned_connection_delivers_a_message_of_zeros():
    graph = joined_by("mean")
    np.testing.assert_allclose(call(graph.lesion("c->z")), [1, -2 / 3], rtol=1e-6)
    np.testing.assert_allclose(call(joined_by("max").lesion("b->z")), [6, 0], rtol=1e-6)


def test_compute_and_activation_come_after_the_messages_are_joined():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 2, input_from="a")
    graph.add_population("z", 2, aggregate="max", compute=Apply(lambda x: x**2), activation="tanh")
    graph.add_output("out", 2)
    for delay in (0, 0):
        graph.connect("a", "z", delay=delay)
    graph.connect("z", "out")
    graph.finalize()
    graph.connection("z", "out").kernel[...] = jnp.eye(2)
    graph.connection("a", "z", 0).kernel[...] = 0.5 * jnp.eye(2)
    graph.connection("a", "z", 1).kernel[...] = -0.5 * jnp.eye(2)
    xs = {"a": jnp.array([[1.0, -2.0]])}
    got = graph(graph.initialize_state(1), xs).output["out"]
    np.testing.assert_allclose(got, np.tanh([[0.25, 1.0]]), rtol=1e-6)


def test_registered_aggregation_is_made_for_its_place_and_written_by_name():
    made = []

    def make(n_messages, size, *, rngs, scale=1.0):
        made.append((n_messages, size, scale))
        return MIDDLE

    register_aggregation("median of messages", make)
    graph = joined_by(Named("median of messages", scale=2.0))
    assert made == [(3, 2, 2.0)]
    np.testing.assert_allclose(call(graph), [2, -1], rtol=1e-6)
    assert spec_from_dict(graph.to_dict()) == graph.spec


def test_declaration_by_hand_may_name_the_aggregation():
    a, b = Population(name="a", size=1, input_from="x"), Population(name="b", size=1, output_to="y")
    for name, kept in (("max", Named("max")), ("sum", None)):
        spec = GraphSpec(
            (a, dataclasses.replace(b, aggregate=name)), (Connection(src="a", dst="b"),)
        )
        assert spec.population("b").aggregate == kept
        assert PopulationGraph.from_spec(spec, nnx.Rngs(0)).spec == spec


def ring(aggregate):
    """Cycles in which each population joins messages of several delays."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 2, input_from="x", aggregate=aggregate, activation=jnp.tanh)
    graph.add_population("b", 2, aggregate=aggregate)
    graph.add_output("c", 2, aggregate=aggregate, activation=nnx.softmax)
    for src, dst, delay in (("a", "b", 0), ("b", "c", 0), ("a", "c", 1), ("c", "b", 2)):
        graph.connect(src, dst, delay=delay)
    graph.connect("c", "a", delay=1)
    graph.connect("b", "a", delay=1.5)
    graph.finalize()
    for number, c in enumerate(graph.spec.connections):
        graph.connection(c.src, c.dst, c.index).bias[...] = 0.3 * jnp.array([number, -number])
    return graph


@pytest.mark.fast("aggregate3")
@pytest.mark.parametrize("aggregate", ["mean", "max", "gated", Named("attention", heads=2)])
def test_cycles_with_aggregation_keep_the_laws_and_have_the_right_gradients(aggregate):
    with jax.enable_x64(True):
        graph = to_float64(ring(aggregate))
        xs = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2, 2)))
        done = jnp.zeros((5, 2), bool).at[2, 0].set(True)
        graphdef, params, rest = nnx.split(graph, nnx.Param, ...)

        def loss(params, xs, stepping=False):
            local = nnx.merge(graphdef, params, rest)
            state = local.initialize_state(2)
            run = scan_unroll if stepping else type(local).unroll
            return jnp.sum(run(local, state, {"x": xs}, done, None).output["c"] ** 3)

        check_grads(jax.jit(loss), (params, xs), order=1, modes=["rev"], rtol=1e-6)
        unrolled, stepped = (
            jax.jit(jax.grad(lambda p, way=way: loss(p, xs, way)))(params) for way in (False, True)
        )
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12), unrolled, stepped
        )
    check_stateful_module(ring(aggregate), {"x": jnp.ones((3, 2))}, float64=True)


@pytest.mark.parametrize("aggregate", ["mean", "max"])
def test_operations_do_not_grow_with_the_populations_that_join_alike(aggregate):
    def count(n):
        graph = PopulationGraph(nnx.Rngs(0))
        graph.add_input("a", 4, input_from="x")
        graph.add_output("out", 4)
        for number in range(n):
            graph.add_population(f"p{number}", 4, aggregate=aggregate, activation="tanh")
            graph.connect("a", f"p{number}")
            graph.connect("out", f"p{number}", delay=1)
            graph.connect(f"p{number}", "out")
        graph.finalize()
        xs = {"x": jnp.ones((3, 2, 4))}
        traced = jax.make_jaxpr(lambda s: graph.unroll(s, xs).output)(graph.initialize_state(2))
        return len(str(traced).splitlines())

    assert count(80) <= count(40)


@pytest.mark.parametrize(
    ("aggregate", "error", "message"),
    [
        (
            "maen",
            ValueError,
            r"aggregate of 'z': expected the name of an aggregation, got 'maen'; .*mean",
        ),
        (jnp.mean, TypeError, "expected the name of an aggregation, or a Named record"),
        (Named("mean", axis=0), ValueError, "expected no options, got .*mean takes none"),
        (Named("attention", heads=3), ValueError, "heads: expected a divisor of the size 2, got 3"),
    ],
)
def test_bad_aggregation_raises(aggregate, error, message):
    with pytest.raises(error, match=message):
        joined_by(aggregate)


def test_aggregation_without_anything_to_join_raises():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 2, input_from="x", aggregate="max")
    graph.add_output("b", 2)
    graph.connect("a", "b")
    with pytest.raises(ValueError, match=r"aggregate of 'a': expected a connection .*got none"):
        graph.finalize()


def test_aggregation_of_another_shape_raises():
    register_aggregation("keeps all messages", lambda n, size, *, rngs: Apply(lambda x: x))
    with pytest.raises(ValueError, match=r"aggregate of 'z': expected output of shape \(\d, 2\)"):
        joined_by("keeps all messages")
    register_aggregation("is no module", lambda n, size, *, rngs: jnp.mean)
    with pytest.raises(TypeError, match=r"expected Named.'is no module'. to make a StatefulModule"):
        joined_by("is no module")


@pytest.mark.parametrize("name", ["sum", "mean", "attention"])
def test_names_of_aggregations_are_not_taken_twice(name):
    with pytest.raises(
        ValueError, match=f"register_aggregation: expected a new name, got '{name}'"
    ):
        register_aggregation(name, lambda n, size, *, rngs: MIDDLE)


@pytest.mark.parametrize(
    "pool", [GatedSum(3, 4, rngs=nnx.Rngs(0)), AttentionPooling(3, 4, rngs=nnx.Rngs(0), heads=2)]
)
def test_aggregations_keep_the_laws_by_themselves(pool):
    messages = np.random.default_rng(0).normal(size=(3, 3, 4))
    check_stateful_module(pool, jnp.asarray(messages, jnp.float32))
