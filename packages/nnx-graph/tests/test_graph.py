"""What a graph computes, declares, stores and routes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_graph import Connection, GraphSpec, Population, PopulationGraph
from nnx_graph.testing import LeakyProbe
from nnx_stateful import (
    Normalizer,
    Sequential,
    initial_state,
    reset_rows,
)


def recurrent_controller(actions=2):
    """An input, a hidden population that hears itself one step later, two linear read-outs."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in_x", size=8, input_from="x")
    graph.add_population("hidden", size=32, activation=nnx.swish)
    graph.connect("in_x", "hidden")
    graph.connect("hidden", "hidden", delay=1)
    graph.add_output("action_params", size=2 * actions)
    graph.connect("hidden", "action_params")
    graph.add_output("value", size=1)
    graph.connect("hidden", "value")
    graph.finalize()
    return graph


def body():
    """Limbs and a torso around a root, all linked both ways."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_population("root", 5, activation=jnp.tanh)
    for limb, parent in (("hand_L", "arm_L"), ("hand_R", "arm_R")):
        graph.add_input(limb, 2, input_from=limb, activation=jnp.tanh)
        graph.add_population(parent, 3, activation=jnp.tanh)
        graph.add_output(f"{limb}/motor", 1)
        graph.connect(limb, f"{limb}/motor")
        graph.connect(limb, parent, delay=1, reciprocal=True)
        graph.connect(parent, "root", delay=1, reciprocal=True)
    graph.finalize()
    return graph


def line(*delays, activation=None):
    """in -> out over a connection of each delay, all weights 1 and biases 0."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 1, input_from="x")
    graph.add_output("out", 1, activation=activation)
    for delay in delays:
        graph.connect("in", "out", delay=delay)
    graph.finalize()
    for connection in graph.spec.connections:
        graph.connection("in", "out", connection.index).kernel[...] = 1.0
    return graph


def run(graph, values):
    xs = {"x": jnp.asarray(values, jnp.float32).reshape(-1, 1, 1)}
    return unroll(graph, graph.initialize_state(1), xs).output["out"].ravel().tolist()


@nnx.jit
def unroll(graph, state, xs):
    return graph.unroll(state, xs)


def test_recurrent_controller_outputs_one_entry_per_output_population():
    graph = recurrent_controller()
    state = initial_state(graph, 4)
    out = graph(state, {"x": jnp.ones((4, 8))})
    assert jax.tree.map(jnp.shape, out.output) == {"action_params": (4, 4), "value": (4, 1)}
    assert jax.tree.map(jnp.shape, state) == {
        "buffers": {"level1_length1": (4, 1, 32)},
        "index": {"level1_length1": (4,)},
    }
    assert out.regularization_loss.shape == (4,)
    assert out.metrics == {}


def test_recurrent_controller_equals_the_formula():
    graph = recurrent_controller()

    def affine(src, dst, x):
        view = graph.connection(src, dst)
        return x @ view.kernel[...] + view.bias[...]

    state, hidden = initial_state(graph, 3), jnp.zeros((3, 32))
    for step in range(3):
        x = jax.random.normal(jax.random.key(step), (3, 8))
        hidden = nnx.swish(affine("in_x", "hidden", x) + affine("hidden", "hidden", hidden))
        out = graph(state, {"x": x})
        state = out.next_state
        expected = affine("hidden", "value", hidden)
        np.testing.assert_allclose(out.output["value"], expected, rtol=1e-5, atol=1e-6)


def test_graph_behind_a_normalizer_trains_with_jitted_gradients():
    net = Sequential([Normalizer({"x": 8}), recurrent_controller()])
    graphdef, params, rest = nnx.split(net, nnx.Param, ...)
    state = initial_state(net, 4)
    xs = {"x": jax.random.normal(jax.random.key(0), (5, 4, 8))}

    @jax.jit
    def gradient(params):
        def loss(params):
            out = nnx.merge(graphdef, params, rest).unroll(state, xs)
            return jnp.mean(out.output["value"] ** 2)

        return jax.grad(loss)(params)

    d_graph = nnx.merge(graphdef, gradient(params), rest)[1]  # gradients in place of weights
    for connection in d_graph.spec.connections:
        view = d_graph.connection(connection.src, connection.dst)
        enters_the_loss = connection.dst != "action_params"
        assert bool(jnp.any(view.kernel[...])) == enters_the_loss
        assert bool(jnp.any(view.bias[...])) == enters_the_loss


def test_reciprocal_makes_one_connection_each_way_with_own_weights():
    graph = body()
    names = [c.name for c in graph.spec.connections if "root" in (c.src, c.dst)]
    assert names == ["arm_L->root", "root->arm_L", "arm_R->root", "root->arm_R"]
    assert all(c.delay == 1 for c in graph.spec.connections if "motor" not in c.dst)
    assert graph.connection("arm_L", "root").kernel.shape == (3, 5)
    assert graph.connection("root", "arm_L").kernel.shape == (5, 3)


def test_touch_takes_two_steps_there_and_two_back_across_the_body():
    graph = body()
    quiet = {"hand_L": jnp.zeros((1, 2)), "hand_R": jnp.zeros((1, 2))}
    touched = {**quiet, "hand_L": jnp.ones((1, 2))}
    still = felt = initial_state(graph, 1)
    first_difference = {}
    for step in range(6):
        one, other = graph(still, quiet), graph(felt, touched if step == 0 else quiet)
        for name, value in one.output.items():
            if not np.allclose(value, other.output[name]):
                first_difference.setdefault(name, step)
        still, felt = one.next_state, other.next_state
    # hand_L -> arm_L -> root -> arm_R -> hand_R, each a step late
    assert first_difference == {"hand_L/motor": 0, "hand_R/motor": 4}


def test_body_graph_remembers_each_source_once_in_one_shared_ring():
    sources = {"root": 5, "hand_L": 2, "arm_L": 3, "hand_R": 2, "arm_R": 3}  # no motor is read
    shapes = jax.tree.map(jnp.shape, body().initialize_state(4)["buffers"])
    assert shapes == {"level0_length1": (4, 1, sum(sources.values()))}


def test_delay_reads_the_output_of_k_steps_ago_and_zeros_before():
    assert run(line(0), [1, 2, 3, 4]) == [1, 2, 3, 4]
    assert run(line(2), [1, 2, 3, 4]) == [0, 0, 1, 2]


def test_parallel_connections_of_several_delays_add_up():
    assert run(line(0, 1, 3), [1, 10, 100, 1000, 10000]) == [1, 11, 110, 1101, 11010]


def test_activation_is_applied_once_to_the_sum():
    graph = line(0, 0, activation=jnp.square)
    assert run(graph, [1, 2]) == [4, 16]


def test_bias_acts_while_a_delayed_connection_reads_nothing():
    graph = line(2)
    graph.connection("in", "out").bias[...] = 0.5
    assert run(graph, [1, 2, 3]) == [0.5, 0.5, 1.5]


def test_input_population_adds_its_observation_to_incoming_connections():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 1, input_from="x")
    graph.add_output("out", 1)
    graph.connect("a", "out")
    graph.connect("out", "a", delay=1)
    graph.finalize()
    for ends in (("a", "out"), ("out", "a")):
        graph.connection(*ends).kernel[...] = 1.0
    assert run(graph, [1, 1, 1]) == [1, 2, 3]


def test_populations_may_read_the_same_entry_and_ignore_others():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 1, input_from="x")
    graph.add_input("b", 1, input_from="x")
    graph.add_output("out", 1)
    graph.connect("a", "out")
    graph.connect("b", "out")
    graph.finalize()
    for name in "ab":
        graph.connection(name, "out").kernel[...] = 1.0
    out = graph(graph.initialize_state(1), {"x": jnp.ones((1, 1)), "rest": jnp.ones((1, 9))})
    assert out.output["out"].item() == 2.0


def test_integer_observation_is_read_as_float():
    graph = line(1)
    out = graph.unroll(graph.initialize_state(1), {"x": jnp.array([[[1]], [[2]]], jnp.int32)})
    assert out.output["out"].ravel().tolist() == [0.0, 1.0]
    assert out.next_state["buffers"]["level0_length1"].dtype == jnp.float32


def test_population_without_connections_outputs_its_activation_of_zero():
    graph = line(0)
    extra = PopulationGraph(nnx.Rngs(0))
    extra.add_input("in", 1, input_from="x")
    extra.add_output("out", 2, activation=jnp.cos)
    extra.finalize()
    assert run(graph, [1]) == [1]
    assert extra(extra.initialize_state(1), {"x": jnp.ones((1, 1))}).output["out"].tolist() == [
        [1, 1]
    ]


@pytest.mark.parametrize("x", [None, {}])
def test_graph_without_inputs_takes_its_batch_from_the_state(x):
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_output("out", 1)
    graph.connect("out", "out", delay=2)
    graph.finalize()
    view = graph.connection("out", "out")
    view.kernel[...], view.bias[...] = -1.0, 1.0
    state, seen = graph.initialize_state(3), []
    for _ in range(6):
        out = graph(state, x)
        state = out.next_state
        seen.append(out.output["out"][0, 0].item())
    assert out.output["out"].shape == (3, 1)
    assert seen == [1, 1, 0, 0, 1, 1]


def test_reset_empties_the_rings_of_its_row_only():
    graph = line(2)
    state = graph.initialize_state(2)
    for step in (1.0, 2.0, 3.0):
        state = graph(state, {"x": jnp.full((2, 1), step)}).next_state
    fresh = reset_rows(graph, state, jnp.array([True, False]))
    assert fresh["buffers"]["level0_length2"][:, :, 0].tolist() == [[0.0, 0.0], [3.0, 2.0]]
    assert fresh["index"]["level0_length2"].tolist() == [0, 1]


def test_names_that_are_methods_of_dicts_are_fine():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("items", 1, input_from="keys")
    graph.add_population("values", 1, compute=LeakyProbe(1, 1))
    graph.add_output("pop", 1, output_to="update")
    graph.connect("items", "values", transform=LeakyProbe(1, 1), delay=1)
    graph.connect("values", "pop")
    graph.finalize()
    copy = nnx.merge(*nnx.split(graph))
    assert copy(copy.initialize_state(2), {"keys": jnp.ones((2, 1))}).output["update"].shape == (
        2,
        1,
    )


def test_insertion_order_does_not_change_what_is_computed():
    def build(names):
        graph = PopulationGraph(nnx.Rngs(0))
        for name in names:
            if name == "a":
                graph.add_input("a", 1, input_from="x")
            elif name == "b":
                graph.add_population("b", 1, activation=jnp.tanh)
            else:
                graph.add_output("out", 1)
        graph.connect("a", "b")
        graph.connect("b", "out")
        graph.connect("out", "b", delay=1)
        graph.finalize()
        return graph

    assert run(build(["a", "b", "out"]), [1, 2, 3]) == run(build(["out", "b", "a"]), [1, 2, 3])


def test_finalized_graph_holds_no_random_streams():
    assert not jax.tree.leaves(nnx.state(recurrent_controller(), nnx.RngState))


def test_weights_depend_on_the_seed_alone():
    first, again = (
        np.asarray(recurrent_controller().connection("in_x", "hidden").kernel) for _ in "ab"
    )
    assert (first == again).all()
    assert np.std(first) == pytest.approx(1 / np.sqrt(8), rel=0.2)  # LeCun normal
    assert not np.asarray(recurrent_controller().connection("in_x", "hidden").bias).any()


def test_connections_of_the_same_shape_start_with_different_weights():
    graph = line(0, 1)
    fresh = PopulationGraph(nnx.Rngs(0))
    fresh.add_input("in", 4, input_from="x")
    fresh.add_output("out", 4)
    fresh.connect("in", "out")
    fresh.connect("in", "out", delay=1)
    fresh.finalize()
    views = [np.asarray(fresh.connection("in", "out", index).kernel) for index in (0, 1)]
    assert not np.allclose(*views)
    assert graph.connection("in", "out", 1).connection.delay == 1


def test_spec_is_a_frozen_hashable_record_of_the_declaration():
    expected = GraphSpec(
        (
            Population(name="in", size=1, input_from="x"),
            Population(name="out", size=1, output_to="out"),
        ),
        (Connection(src="in", dst="out", delay=2), Connection(src="in", dst="out", index=1)),
    )
    assert line(2, 0).spec == expected
    assert hash(line(2, 0).spec) == hash(expected)
    with pytest.raises(KeyError, match="elsewhere"):
        expected.population("elsewhere")


def test_equal_graphs_are_compiled_once():
    traces = []

    @nnx.jit
    def step(graph, state, x):
        traces.append(1)
        return graph(state, x).output

    for _ in range(2):
        graph = line(1, 0)
        step(graph, initial_state(graph, 1), {"x": jnp.ones((1, 1))})
    assert len(traces) == 1


def test_numpy_sizes_and_delays_are_accepted():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", np.int64(2), input_from="x")
    graph.add_output("b", 1)
    graph.connect("a", "b", delay=np.int32(3))
    graph.finalize()
    assert type(graph.spec.population("a").size) is int
    assert graph.initialize_state(1)["buffers"]["level0_length3"].shape == (1, 3, 2)
