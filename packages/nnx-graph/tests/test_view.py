"""Views of single connections."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_graph import PopulationGraph
from nnx_stateful import Dense


@pytest.fixture
def graph():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 2, input_from="x")
    graph.add_input("b", 3, input_from="y")
    graph.add_output("c", 4)
    graph.connect("a", "c")
    graph.connect("b", "c", delay=1)
    graph.connect("a", "c", delay=2)
    graph.connect("b", "c", transform=Dense(3, 4, nnx.Rngs(1)))
    graph.finalize()
    return graph


def default_connections(graph):
    return [
        graph.connection(c.src, c.dst, c.index)
        for c in graph.spec.connections
        if not c.has_transform
    ]


def test_write_changes_one_connection_and_no_other(graph):
    before = [(np.asarray(v.kernel), np.asarray(v.bias)) for v in default_connections(graph)]
    view = graph.connection("b", "c")
    view.kernel[...] = jnp.full((3, 4), 7.0)
    view.bias[...] = 8.0
    after = [(np.asarray(v.kernel), np.asarray(v.bias)) for v in default_connections(graph)]
    assert (after[1][0] == 7).all()
    assert (after[1][1] == 8).all()
    for index in (0, 2):
        np.testing.assert_array_equal(after[index][0], before[index][0])
        np.testing.assert_array_equal(after[index][1], before[index][1])


def test_write_to_a_part_changes_that_part(graph):
    kernel = graph.connection("a", "c", 1).kernel
    kernel[...] = 0.0
    kernel[1, 2:] = np.array([5.0, 6.0])
    assert kernel[...].tolist() == [[0, 0, 0, 0], [0, 0, 5, 6]]
    assert kernel[1].tolist() == [0, 0, 5, 6]


def test_written_weights_act(graph):
    for view in default_connections(graph):
        view.kernel[...] = 0.0
    graph.connection("b", "c", 1).transform.kernel[...] = jnp.zeros((3, 4))
    graph.connection("a", "c").kernel[...] = jnp.ones((2, 4))
    x = {"x": jnp.ones((1, 2)), "y": jnp.ones((1, 3))}
    assert graph(graph.initialize_state(1), x).output["c"].tolist() == [[2.0] * 4]


def test_view_behaves_as_an_array(graph):
    kernel = graph.connection("a", "c").kernel
    assert kernel.shape == (2, 4)
    assert kernel.dtype == jnp.float32
    assert jnp.sum(jnp.asarray(kernel)) == pytest.approx(np.sum(np.asarray(kernel)), rel=1e-5)
    assert repr(kernel).startswith("ParameterView(Array(")
    assert "src='a'" in repr(graph.connection("a", "c"))


def test_write_under_jit_is_seen_by_the_caller(graph):
    @nnx.jit
    def zero(graph):
        graph.connection("a", "c").kernel[...] = 0.0

    zero(graph)
    assert not np.asarray(graph.connection("a", "c").kernel).any()


def test_custom_connection_has_a_transform_and_no_kernel(graph):
    view = graph.connection("b", "c", 1)
    assert isinstance(view.transform, Dense)
    assert graph.connection("b", "c").transform is None
    with pytest.raises(ValueError, match=r"kernel of 'b->c#1'.*with the transform Dense; use"):
        view.kernel  # noqa: B018
    with pytest.raises(ValueError, match=r"bias of 'b->c#1': expected a default connection"):
        view.bias  # noqa: B018


def test_unknown_connection_raises_with_those_nearby(graph):
    with pytest.raises(ValueError, match=r"'a' to 'c' with index 5; there are \['a->c', 'b->c'"):
        graph.connection("a", "c", 5)
    with pytest.raises(
        ValueError, match=r"'x' to 'y' with index 0; neither name begins or ends one"
    ):
        graph.connection("x", "y")
