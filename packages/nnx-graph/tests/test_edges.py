"""Declarations from adjacency matrices and lists of edges."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_graph import LearnableDelay, LowRank, Named, OneToOne, PopulationGraph, spec_from_edges


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
        ([(1, 0)], {1: 5, np.int64(0): 3}, None, ("0", "1")),
        ([("b", "a")], {0: 5, 1: 3}, None, ("b", "a")),
        (MATRIX, {0: 1, 1: 1, 2: 1}, None, ("0", "1", "2")),
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


def test_sizes_by_number_are_those_of_the_numbers():
    spec = spec_from_edges([(1, 0)], {1: 5, 0: 3})
    assert [(p.name, p.size) for p in spec.populations] == [("0", 3), ("1", 5)]
    assert arrows(spec) == [("1->0", 0)]


def test_delays_are_those_that_connections_take():
    spec = spec_from_edges(MATRIX, 4, delay=DELAY * 0.5)
    assert arrows(spec) == [(name, delay / 2) for name, delay in ARROWS]
    spec = spec_from_edges([("a", "b"), ("b", "a", (1, 2.5))], 2, delay=LearnableDelay(1, 4))
    assert arrows(spec) == [("a->b", LearnableDelay(1, 4)), ("b->a", (1, 2.5))]


def test_edges_that_are_listed_again_run_in_parallel():
    spec = spec_from_edges([("a", "b"), ("a", "b"), ("a", "b", 3)], 1)
    assert arrows(spec) == [("a->b", 0), ("a->b#1", 0), ("a->b#2", 3)]


def test_weights_of_all_connections_are_bound_and_signs_given_by_population():
    options = {"sign": {0: "excitatory", "b": "inhibitory"}, "names": ["a", "b", "c"]}
    spec = spec_from_edges(MATRIX, 2, connectivity="one-to-one", share="w", delay=1, **options)
    assert [p.sign for p in spec.populations] == ["excitatory", "inhibitory", None]
    assert {(c.connectivity, c.share, c.frozen) for c in spec.connections} == {
        (OneToOne(), "w", False)
    }
    spec = spec_from_edges(MATRIX, 2, connectivity=LowRank(1))
    assert {c.connectivity for c in spec.connections} == {LowRank(1)}
    spec = spec_from_edges(MATRIX, 2, frozen=True, sign="excitatory")
    assert {c.frozen for c in spec.connections} == {True}
    assert {p.sign for p in spec.populations} == {"excitatory"}


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
        ([(0, 1, "1")], {}, TypeError, r"edges\[0\].delay: expected a number, .*got '1'"),
        ([(0, 1)], {"delay": True}, TypeError, r"edges\[0\].delay: expected a number, .*got True"),
        ([(0, 1)], {"delay": [1, 2]}, ValueError, r"edges\[0\].delay: expected 1 delays, .*got 2"),
        (MATRIX, {"delay": DELAY[:2]}, ValueError, r"delay: expected an array of shape \(3, 3\)"),
        (MATRIX, {"delay": DELAY - 1}, ValueError, r"edges\[1, 2\].delay: .*at least 0, got -1"),
        (MATRIX, {"delay": DELAY > 2}, TypeError, r"edges\[0, 1\].delay: .*number, .*got False"),
        (MATRIX, {"sizes": [1, 2]}, ValueError, r"sizes: expected 3 populations.*got 2"),
        (MATRIX, {"names": ["a"]}, ValueError, r"edges: expected 1 populations.*got 3"),
        (MATRIX, {"names": ["a", "b", "a"]}, ValueError, r"names\[2\]: .*new population name"),
        (MATRIX, {"names": ["a", "b", 3]}, TypeError, r"names\[2\]: .*type str, got 3"),
        (MATRIX, {"sizes": [1, 0, 1]}, ValueError, r"'1'.size: expected at least 1, got 0"),
        (MATRIX, {"sizes": 1.5}, TypeError, r"'0'.size: expected an int, got 1.5"),
        (
            [],
            {"sizes": {"a": 1, 0: 1}},
            TypeError,
            r"names\[1\]: .*type str, got 0 of type int; use '0'",
        ),
        (
            [(0, 2)],
            {"sizes": {0: 1, 2: 1}},
            ValueError,
            r"sizes: expected a size of each population, got none of '1'; add it",
        ),
        (
            [(0, 1)],
            {"sizes": {"1": 3, "0": 4}},
            ValueError,
            r"edges\[0\]: .*got the number 0, which is that of '1' and the name of another; write",
        ),
        (
            MATRIX,
            {"sizes": {"a": 1, "b": 1, "c": 1, 0: 2}, "names": ["a", "b", "c"]},
            ValueError,
            r"sizes: expected each population once, got 'a' twice; remove one",
        ),
        (
            MATRIX,
            {"inputs": [0, "0"]},
            ValueError,
            r"inputs: expected each population once, got '0",
        ),
        (MATRIX, {"outputs": {0: "y", "0": "z"}}, ValueError, r"outputs: .*once, got '0' twice"),
        (MATRIX, {"sign": "plus"}, ValueError, r"'0'.sign: expected the sign 'excitatory' or "),
        (MATRIX, {"sign": {3: "excitatory"}}, ValueError, r"sign: .*below 3, got 3"),
        (MATRIX, {"connectivity": "mask"}, ValueError, r"connectivity: .*got 'mask'; pass Mask\("),
        (MATRIX, {"connectivity": LowRank(2)}, ValueError, r"edges\[0, 1\]: LowRank: .*at most 1"),
        (MATRIX, {"frozen": 1}, TypeError, r"edges\[0, 1\]: expected frozen=True or False, got 1"),
        (
            MATRIX,
            {"share": "w", "sizes": [1, 2, 1]},
            ValueError,
            r"edges\[1, 1\]: expected sizes \(1, 2\) as of '0->1', with which it shares",
        ),
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


def test_populations_that_edges_reach_join_their_messages_as_told():
    spec = spec_from_edges([("a", "b"), ("a", "c")], 2, aggregate="mean", outputs=["c"])
    assert [p.aggregate for p in spec.populations] == [None, Named("mean"), Named("mean")]
    spec = spec_from_edges([("a", "b"), ("a", "c")], 2, aggregate={"c": "max"})
    assert [p.aggregate for p in spec.populations] == [None, None, Named("max")]
    with pytest.raises(ValueError, match="aggregate of 'b': expected the name of an aggregation"):
        spec_from_edges([("a", "b")], 2, aggregate="average")
