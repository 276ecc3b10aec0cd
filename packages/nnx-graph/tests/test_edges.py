"""Declarations from adjacency matrices and lists of edges."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_graph import PopulationGraph, spec_from_edges


class Sparse:
    """What is used of SciPy's sparse arrays."""

    def __init__(self, dense):
        self.shape = dense.shape
        self.toarray = dense.copy


MATRIX = np.array([[0, 1, 0], [0, 2.5, -1], [1, 0, 0]])
DELAY = np.array([[9, 1, 9], [9, 2, 0], [3, 9, 9]])
ARROWS = [("0->1", 1), ("1->1", 2), ("1->2", 0), ("2->0", 3)]


def arrows(spec):
    return [(c.name, c.delay) for c in spec.connections]


@pytest.mark.parametrize(
    "matrix", [MATRIX, MATRIX != 0, jnp.asarray(MATRIX), Sparse(MATRIX)], ids=lambda m: type(m)
)
def test_matrix_is_read_source_by_destination(matrix):
    spec = spec_from_edges(matrix, 4, delay=DELAY)
    assert spec.names == ("0", "1", "2")
    assert arrows(spec) == ARROWS
    assert {p.size for p in spec.populations} == {4}


def test_list_of_edges_keeps_its_order_and_parallel_ones():
    spec = spec_from_edges([("b", "a"), ("a", "b", 3), ("b", "a", 1)], {"a": 1, "b": 2}, delay=5)
    assert spec.names == ("a", "b")
    assert arrows(spec) == [("b->a", 5), ("a->b", 3), ("b->a#1", 1)]
    assert [p.size for p in spec.populations] == [1, 2]


@pytest.mark.parametrize(
    ("edges", "sizes", "names", "expected"),
    [
        ([("b", "a"), ("a", "c")], 1, None, ("b", "a", "c")),
        ([(0, 2), (np.int64(2), 0)], 1, None, ("0", "1", "2")),
        ([(0, 1)], [1, 2, 3], None, ("0", "1", "2")),
        ([(0, "z")], np.array([1, 2]), ("y", "z"), ("y", "z")),
        ([], 1, ("y",), ("y",)),
        ([], {"y": 1, "x": 2}, None, ("y", "x")),
        ([], 1, None, ()),
        (iter([[0, 1]]), 1, None, ("0", "1")),
    ],
)
def test_names_come_from_where_there_are_some(edges, sizes, names, expected):
    assert spec_from_edges(edges, sizes, names=names).names == expected


def test_populations_are_referred_to_by_name_or_number():
    spec = spec_from_edges(
        MATRIX,
        [1, 2, 3],
        names=["a", "b", "c"],
        activation={"a": "tanh", 1: nnx.relu},
        inputs={0: "x", "b": "x"},
        outputs=[2, "a"],
        delay=DELAY,
    )
    assert [p.size for p in spec.populations] == [1, 2, 3]
    assert [p.activation for p in spec.populations] == [jnp.tanh, nnx.relu, None]
    assert [p.input_from for p in spec.populations] == ["x", "x", None]
    assert [p.output_to for p in spec.populations] == ["a", None, "c"]


def test_one_activation_serves_all():
    spec = spec_from_edges(MATRIX, 1, activation="swish")
    assert {p.activation for p in spec.populations} == {nnx.swish}


def test_graph_of_a_matrix_carries_each_source_to_its_destinations():
    graph = PopulationGraph.from_edges(
        np.array([[0, 1], [0, 0]]), 1, nnx.Rngs(0), inputs={0: "x"}, outputs={1: "y"}, delay=1
    )
    graph.connection("0", "1").kernel[...] = 1.0
    out = graph.unroll(graph.initialize_state(1), {"x": jnp.arange(1.0, 4).reshape(3, 1, 1)})
    assert out.output["y"].ravel().tolist() == [0, 1, 2]


def test_every_cell_of_a_large_matrix_is_a_connection():
    rng = np.random.default_rng(0)
    matrix = np.zeros((279, 279), bool)
    matrix.flat[rng.choice(matrix.size, 2000, replace=False)] = True
    spec = spec_from_edges(matrix, rng.integers(1, 9, 279), delay=rng.integers(0, 9, matrix.shape))
    back = np.zeros_like(matrix)
    for c in spec.connections:
        back[int(c.src), int(c.dst)] = True
    np.testing.assert_array_equal(back, matrix)


@pytest.mark.parametrize(
    ("edges", "options", "error", "message"),
    [
        (
            np.ones((2, 3)),
            {},
            ValueError,
            r"edges: .*of shape \(N, N\).*got \(2, 3\)",
        ),
        (np.ones(4), {}, ValueError, r"edges: .*got \(4,\); for a list of edges, pass a list"),
        (np.array([["a"]]), {}, TypeError, r"edges: expected an array of numbers, got <U1"),
        (
            np.array([[0, np.nan], [0, 0]]),
            {},
            ValueError,
            r"edges\[0, 1\]: .*finite.*, got nan",
        ),
        (3, {}, TypeError, r"edges: expected an array \(N, N\) or a list of pairs, got 3"),
        ("ab", {}, TypeError, r"edges: expected an array \(N, N\) or a list of pairs, got 'ab'"),
        (
            [(0, 1), (0,)],
            {},
            TypeError,
            r"edges\[1\]: expected \(source, destination\).*\(0,\)",
        ),
        ([[0, 1], "ab"], {}, TypeError, r"edges\[1\]: expected \(source, destination\) or .*'ab'"),
        ([(0, 1), (0, -1)], {}, ValueError, r"edges: .*at least 0, got -1; count from 0"),
        ([(0, "b")], {}, TypeError, r"edges: .*got 'b' of type str; .*names="),
        ([(0, 5)], {"sizes": [1, 1]}, ValueError, r"edges\[0\]: .*below 2, got 5"),
        ([(0, "c")], {"names": "ab"}, TypeError, r"names: expected a list of names, got 'ab'"),
        ([("eye", "amr")], {"names": ["eye", "arm"]}, ValueError, r"edges\[0\]: .*mean 'arm'"),
        ([(0, 1, -1)], {}, ValueError, r"edges\[0\].delay: expected at least 0, got -1"),
        ([(0, 1, 1.5)], {}, TypeError, r"edges\[0\].delay: expected an int, got 1.5"),
        ([(0, 1)], {"delay": 0.5}, TypeError, r"edges\[0\].delay: expected an int, got 0.5"),
        (MATRIX, {"delay": DELAY[:2]}, ValueError, r"delay: expected an array of shape \(3, 3\)"),
        (MATRIX, {"delay": DELAY - 1}, ValueError, r"edges\[1, 2\].delay: .*at least 0, got -1"),
        (
            MATRIX,
            {"delay": DELAY * 0.5},
            TypeError,
            r"edges\[0, 1\].delay: .* int, got 0.5",
        ),
        (MATRIX, {"sizes": [1, 2]}, ValueError, r"sizes: expected 3 populations.*got 2"),
        (MATRIX, {"names": ["a"]}, ValueError, r"edges: expected 1 populations.*got 3"),
        (MATRIX, {"names": ["a", "b", "a"]}, ValueError, r"names\[2\]: .*new population name"),
        (MATRIX, {"names": ["a", "b", 3]}, TypeError, r"names\[2\]: .*type str, got 3"),
        (MATRIX, {"sizes": [1, 0, 1]}, ValueError, r"'1'.size: expected at least 1, got 0"),
        (MATRIX, {"sizes": 1.5}, TypeError, r"'0'.size: expected an int, got 1.5"),
        ([], {"sizes": {0: 1}}, TypeError, r"names\[0\]: .*type str, got 0 of type int; use '0'"),
        (
            MATRIX,
            {"sizes": {0: 1, 2: 1}, "names": ["a", "b", "c"]},
            ValueError,
            r"sizes: expected a size of each population, got none of 'b'; add it",
        ),
        (MATRIX, {"activation": "tahn"}, ValueError, r"activation of '0': .*did you mean"),
        (MATRIX, {"activation": {"3": "tanh"}}, ValueError, r"activation: .*got '3'; there are"),
        (MATRIX, {"inputs": [3]}, ValueError, r"inputs: .*below 3, got 3"),
        (MATRIX, {"outputs": 0}, TypeError, r"outputs: expected a list of populations, .*got 0"),
        (MATRIX, {"outputs": {0: "y", 1: "y"}}, ValueError, r"'1'.output_to: .*of '0'; choose"),
    ],
)
def test_bad_edges_and_options_raise(edges, options, error, message):
    with pytest.raises(error, match=r"^(spec_from_edges|PopulationGraph): ") as caught:
        spec_from_edges(edges, **{"sizes": 1} | options)
    assert caught.match(message)
