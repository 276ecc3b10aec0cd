"""Kernels and biases that many connections share, and what each of them sees of its own."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from nnx_graph import PopulationGraph
from nnx_graph._engine._batching import MAX_PRODUCTS

SIZES = (1, 2, 3, 4)
PAIRS = 3 * MAX_PRODUCTS


def pairs():
    """Sources of unequal sizes, each with a target of its own, and some with a second one."""
    graph = PopulationGraph(nnx.Rngs(0))
    for number in range(PAIRS):
        graph.add_input(f"s{number}", SIZES[number % len(SIZES)], input_from=f"x{number}")
        graph.add_output(f"t{number}", 1 + number % 2)
    for number in range(PAIRS):
        graph.connect(f"s{number}", f"t{number}")
        if number % 3 == 0:
            graph.connect(f"s{(number + 1) % PAIRS}", f"t{number}", delay=1)
    graph.finalize()
    return graph


def inputs(graph, rows=5):
    rng = np.random.default_rng(0)
    return {
        p.input_from: jnp.asarray(rng.normal(size=(rows, p.size)), jnp.float32)
        for p in graph.spec.inputs
    }


def without_connections(graph, arrays):
    """For each block its kernel and bias out of ``arrays``, where no connection has anything."""
    owned = nnx.merge(nnx.graphdef(graph), jax.tree.map(jnp.zeros_like, nnx.state(graph)))
    for c in graph.spec.connections:
        view = owned.connection(c.src, c.dst, c.index)
        view.kernel[...], view.bias[...] = 1.0, 1.0
    return jax.tree.map(
        lambda mine, values: np.asarray(values)[np.asarray(mine) == 0], nnx.state(owned), arrays
    )


def test_padding_is_zero_and_has_no_gradient():
    graph = pairs()
    graphdef, params = nnx.split(graph)
    state = graph(graph.initialize_state(5), inputs(graph)).next_state  # something to read

    @jax.jit
    def gradient(params):
        def loss(params):
            outputs = nnx.merge(graphdef, params)(state, inputs(graph)).output
            return sum(jnp.sum(jnp.sin(y)) for y in outputs.values())

        return jax.grad(loss)(params)

    slope = gradient(params)
    assert all(jnp.any(leaf) for leaf in jax.tree.leaves(slope))
    for arrays in (params, slope):
        padding = jax.tree.leaves(without_connections(graph, arrays))
        assert sum(values.size for values in padding) > 0
        assert not any(values.any() for values in padding)


def test_padding_takes_no_part_in_what_is_computed():
    graph = pairs()
    state = graph(graph.initialize_state(5), inputs(graph)).next_state
    values = {
        c.name: (np.asarray(view.kernel), np.asarray(view.bias))
        for c in graph.spec.connections
        for view in [graph.connection(c.src, c.dst, c.index)]
    }
    expected = graph(state, inputs(graph)).output
    nnx.update(graph, jax.tree.map(lambda x: jnp.full_like(x, 7.0), nnx.state(graph)))
    for c in graph.spec.connections:
        view = graph.connection(c.src, c.dst, c.index)
        view.kernel[...], view.bias[...] = values[c.name]
    jax.tree.map(np.testing.assert_array_equal, graph(state, inputs(graph)).output, expected)


def test_initial_weights_of_a_connection_do_not_depend_on_later_ones():
    def kernels(count):
        graph = PopulationGraph(nnx.Rngs(0))
        graph.add_input("a", 3, input_from="x")
        for number in range(count):
            graph.add_output(f"t{number}", 2)
            graph.connect("a", f"t{number}", delay=number % 2)
        graph.finalize()
        return [np.asarray(graph.connection("a", f"t{number}").kernel) for number in range(2)]

    few, many = kernels(2), kernels(2 + MAX_PRODUCTS)
    np.testing.assert_array_equal(few, many)
    assert not np.array_equal(few[0], few[1])


def test_initial_weights_have_a_variance_of_one_over_the_inputs():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 100, input_from="x")
    graph.add_output("y", 200)
    graph.connect("a", "y")
    graph.finalize()
    kernel = np.asarray(graph.connection("a", "y").kernel)
    assert abs(kernel.std() * 10 - 1) < 0.02
    assert np.abs(kernel).max() < 2.3 / 10  # truncated at two deviations


def test_few_arrays_hold_many_connections():
    graph = pairs()
    arrays = len(jax.tree.leaves(nnx.state(graph, nnx.Param)))
    shapes = {graph.connection(c.src, c.dst, c.index).kernel.shape for c in graph.spec.connections}
    assert arrays <= 2 * len(shapes) < len(graph.spec.connections)
