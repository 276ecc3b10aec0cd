"""Masks, signs, frozen and shared weights: what they compute, and what training leaves alone."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from nnx_graph import (
    BlockSparse,
    DistanceDependent,
    FixedProbability,
    FrozenWeight,
    LowRank,
    Mask,
    OneToOne,
    PopulationGraph,
)
from nnx_graph._declaration._connectivity import mask_of
from nnx_stateful import Scale
from nnx_stateful.testing import to_float64

from ._graphs import assert_equal_to_scale, gradients_both_ways, state_in_use

STEPS, ROWS, SIZE = 5, 3, 4
DONE = np.zeros((STEPS, ROWS), bool)
DONE[1, 0] = DONE[3, 2] = True
STAIRS = np.tril(np.ones((SIZE, SIZE), bool))


def bound_graph(seed=0):
    """A cycle in which every kind of weight takes part."""
    graph = PopulationGraph(nnx.Rngs(seed))
    graph.add_input("a", SIZE, input_from="x", sign="excitatory")
    graph.add_population("b", SIZE, activation=nnx.softplus, sign="inhibitory")
    graph.add_population("c", SIZE, activation=jnp.tanh)
    graph.add_output("y", SIZE)
    graph.connect("a", "b", connectivity=FixedProbability(0.5, seed=3))
    graph.connect("a", "c", share="common")
    graph.connect("b", "c", share="common", delay=1)
    graph.connect("c", "b", connectivity=Mask(STAIRS), delay=2)
    graph.connect("b", "b", connectivity=OneToOne(), delay=1)
    graph.connect("c", "c", frozen=True, delay=1)
    graph.connect("c", "y", connectivity=LowRank(2))
    graph.connect("b", "y", connectivity=BlockSparse(2))
    graph.finalize()
    return graph


def kernels(graph):
    """All kernels as they act, by connection name."""
    return {
        c.name: np.asarray(graph.connection(c.src, c.dst, c.index).kernel[...])
        for c in graph.spec.connections
    }


@pytest.fixture(scope="module")
def trained():
    """A graph before and after 1,000 updates that pull hard, with weight decay."""
    graph = bound_graph()
    before = kernels(graph), np.asarray(graph.connection("c", "c").bias[...])
    graphdef, params, rest = nnx.split(graph, nnx.Param, ...)
    frozen = nnx.state(graph, FrozenWeight)
    optimizer = optax.adamw(0.05, weight_decay=0.1)
    xs = {"x": jnp.asarray(np.random.default_rng(0).standard_normal((STEPS, ROWS, SIZE)))}
    xs = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), xs)

    def loss(params, target):
        graph = nnx.merge(graphdef, params, rest)
        out = graph.unroll(graph.initialize_state(ROWS), xs, DONE)
        return jnp.mean((out.output["y"] - target) ** 2)

    def update(carry, key):
        params, state = carry
        target = 5 * jax.random.normal(key, (STEPS, ROWS, SIZE))
        grads = jax.grad(loss)(params, target)
        changes, state = optimizer.update(grads, state, params)
        return (optax.apply_updates(params, changes), state), None

    @jax.jit
    def train(params):
        keys = jax.random.split(jax.random.key(0), 1000)
        return jax.lax.scan(update, (params, optimizer.init(params)), keys)[0][0]

    nnx.update(graph, train(params))
    return graph, before, frozen


def test_masked_weights_stay_zero(trained):
    graph, (before, _), _ = trained
    after = kernels(graph)
    masks = {
        "a->b": mask_of(FixedProbability(0.5, seed=3), "a->b", SIZE, SIZE),
        "c->b": STAIRS,
        "b->b": np.eye(SIZE, dtype=bool),
        "b->y": BlockSparse(2).mask(SIZE, SIZE),
    }
    for name, mask in masks.items():
        assert not after[name][~mask].any()
        assert np.count_nonzero(after[name]) == np.count_nonzero(mask)
        assert not np.array_equal(after[name], before[name])


def test_signs_hold_after_training(trained):
    after = kernels(trained[0])
    assert (after["a->b"] >= 0).all()
    assert (after["a->c"] >= 0).all()
    for name in ("b->c", "b->b", "b->y"):
        assert (after[name] <= 0).all()
        assert after[name].any()


def test_frozen_weights_are_bit_identical(trained):
    graph, (before, bias), frozen = trained
    np.testing.assert_array_equal(kernels(graph)["c->c"], before["c->c"])
    np.testing.assert_array_equal(graph.connection("c", "c").bias[...], bias)
    assert jax.tree.leaves(frozen)


def test_low_rank_stays_low(trained):
    values = np.linalg.svd(kernels(trained[0])["c->y"], compute_uv=False)
    assert values[1] > 1e-3 * values[0]
    assert values[2] < 1e-5 * values[0]


def test_shared_weights_stay_equal(trained):
    after = kernels(trained[0])
    np.testing.assert_array_equal(after["a->c"], -after["b->c"])  # of opposite sign by Dale


def test_unrolling_equals_stepping_with_gradients():
    with jax.enable_x64(True):
        graph = to_float64(bound_graph())
        xs = {"x": np.random.default_rng(1).standard_normal((STEPS, ROWS, SIZE))}
        assert_equal_to_scale(*gradients_both_ways(graph, state_in_use(graph, ROWS), xs, DONE))


def test_gradients_of_shared_weights_add_up():
    def outputs(share):
        graph = PopulationGraph(nnx.Rngs(0))
        graph.add_input("a", 2, input_from="x")
        graph.add_input("b", 2, input_from="z")
        graph.add_output("y", 3)
        for name in "ab":
            graph.connect(name, "y", share="common" if share else None)
        graph.finalize()
        value = jnp.arange(6.0).reshape(2, 3)
        for name in "ab":
            graph.connection(name, "y").kernel[...] = value
        return graph

    x = {"x": jnp.array([[1.0, 2.0]]), "z": jnp.array([[3.0, -1.0]])}

    def gradient(graph):
        def loss(graph):
            return jnp.sum(graph(graph.initialize_state(1), x).output["y"] ** 2)

        return nnx.grad(loss)(graph)

    shared, own = outputs(True), outputs(False)
    (of_shared,) = gradient(shared)["circuit"]["common"]["kernels"].values()
    of_own = jax.tree.leaves(gradient(own)["circuit"]["weights"][0]["kernel"])[0]
    np.testing.assert_allclose(jax.tree.leaves(of_shared)[0], of_own[0, :2] + of_own[0, 2:])


def test_initial_weights_are_drawn_for_the_inputs_that_there_are():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 200, input_from="x")
    graph.add_output("y", 200)
    graph.connect("a", "y", connectivity=FixedProbability(0.1))
    graph.finalize()
    sums = (kernels(graph)["a->y"] ** 2).sum(axis=0)  # of variance 1 over the number of inputs
    assert abs(sums.mean() - 1) < 0.1


def test_initial_weights_that_are_shared_are_drawn_for_the_inputs_that_there_are():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 200, input_from="x")
    graph.add_output("y", 200)
    graph.connect("a", "y", connectivity=FixedProbability(0.1), share="w")
    graph.finalize()
    assert abs((kernels(graph)["a->y"] ** 2).sum(axis=0).mean() - 1) < 0.1


def test_connections_of_one_seed_have_patterns_of_their_own():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 30, input_from="x")
    graph.add_output("y", 30)
    for _ in range(2):
        graph.connect("a", "y", connectivity=FixedProbability(0.5))
    graph.finalize()
    first, second = (kernels(graph)[name] != 0 for name in ("a->y", "a->y#1"))
    assert 0.4 < (first == second).mean() < 0.6


def test_distance_dependent_connections_are_local():
    near = DistanceDependent(0.05, profile="gaussian").mask(100, 100)
    distance = np.abs(np.arange(100)[:, None] - np.arange(100)) / 100
    assert near.any()
    assert distance[near].max() < 0.3
    assert DistanceDependent(0.05, ring=True).mask(100, 100)[0, 95:].any()


def test_views_write_what_is_behind():
    graph = bound_graph()
    graph.connection("c", "c").kernel[...] = jnp.eye(SIZE)
    np.testing.assert_array_equal(graph.connection("c", "c").kernel[...], np.eye(SIZE))
    graph.connection("c", "b").kernel[...] = jnp.ones((SIZE, SIZE))
    np.testing.assert_array_equal(graph.connection("c", "b").kernel[...], STAIRS)
    graph.connection("b", "b").kernel[...] = 2.0
    np.testing.assert_array_equal(graph.connection("b", "b").kernel[...], -2 * np.eye(SIZE))
    left, right = graph.connection("c", "y").factors
    np.testing.assert_allclose(left[...] @ right[...], graph.connection("c", "y").kernel[...])
    with pytest.raises(ValueError, match="write the view's factors"):
        graph.connection("c", "y").kernel[...] = 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"connectivity": OneToOne()},
            r"connect\('a', 'y'\): OneToOne: expected populations of one",
        ),
        ({"connectivity": Mask([[1]])}, r"Mask: expected entries of shape \(3, 2\)"),
        ({"connectivity": BlockSparse(3)}, "BlockSparse: expected at most 2 blocks"),
        ({"connectivity": LowRank(1), "frozen": True}, "expected weights of its own to freeze"),
        ({"connectivity": LowRank(1), "share": "w"}, "expected a full kernel to share"),
        ({"share": "w", "frozen": True}, "expected weights of its own to freeze"),
        ({"share": "of b"}, r"expected sizes \(2, 2\) as of 'b->y', with which it shares"),
        ({"transform": "lstm", "frozen": True}, "expected a linear map for frozen"),
        (
            {"transform": Scale(1.0), "share": "w"},
            "expected a linear map or a module by name to share as 'w', got an instance of Scale",
        ),
        (
            {"transform": "gru", "share": "of a"},
            r"expected a linear map as of 'a->y', with which it shares .* got Named\('gru'\)",
        ),
        (
            {"connectivity": "one-to-oen"},
            r"expected a connectivity, or the name of one, got 'one-to-oen'; did you mean 'one-to",
        ),
        (
            {"connectivity": "low-rank"},
            r"needs no numbers .*\('one-to-one'\), got 'low-rank'; pass LowRank\(\.\.\.\)",
        ),
        (
            {"connectivity": Mask(np.ones((3, 2))), "delay": 1, "reciprocal": True},
            r"shape \(2, 3\)",
        ),
        ({"share": "new", "delay": 1, "reciprocal": True}, r"expected sizes \(3, 2\) as of 'a->y"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_call_and_changes_nothing(options, message):
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 3, input_from="x")
    graph.add_input("b", 2, input_from="z")
    graph.add_output("y", 2)
    graph.connect("b", "y", share="of b")
    graph.connect("a", "y", share="of a")
    before = graph.spec
    with pytest.raises(ValueError, match=message):
        graph.connect("a", "y", **options)
    assert graph.spec == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"connectivity": np.eye(2)}, r"expected connectivity such as OneToOne\(\)"),
        ({"frozen": "yes"}, "expected frozen=True or False, got 'yes' of type str"),
        ({"share": 1}, "expected share to be a name, got 1"),
        ({"share": ["w"]}, "expected share to be a name, got"),
        ({"share": ""}, "expected share to be a name, got ''"),
    ],
)
def test_options_of_another_kind_are_refused_at_the_call(options, message):
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_output("y", 2)
    with pytest.raises(TypeError, match=rf"connect\('y', 'y'\): {message}"):
        graph.connect("y", "y", delay=1, **options)
    assert graph.spec.connections == ()


def test_connectivity_goes_by_the_name_of_its_kind():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_output("y", 2)
    graph.connect("y", "y", delay=1, connectivity="one-to-one")
    assert graph.spec.connections[0].connectivity == OneToOne()


def test_name_to_share_that_is_used_once_changes_nothing():
    def declared(share):
        graph = PopulationGraph(nnx.Rngs(0))
        graph.add_input("a", 3, input_from="x")
        graph.add_output("y", 2)
        graph.connect("a", "y", share=share)
        graph.finalize()
        graph.connection("a", "y").kernel[...] = jnp.arange(6.0).reshape(3, 2)
        return graph(graph.initialize_state(1), {"x": jnp.ones((1, 3))}).output["y"]

    np.testing.assert_array_equal(declared("alone"), declared(None))


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedProbability(0.0),
        lambda: DistanceDependent(0.0),
        lambda: DistanceDependent(1.0, peak=2.0),
        lambda: DistanceDependent(1.0, profile="box"),
        lambda: BlockSparse(0),
        lambda: BlockSparse(2, probability=-1.0),
        lambda: FixedProbability(0.5, seed=-1),
        lambda: Mask([1, 0]),
        lambda: Mask([[0.3, 1.0]]),
        lambda: Mask([["no"]]),
        lambda: Mask([[1], [1, 0]]),
        lambda: LowRank(0),
    ],
)
def test_impossible_connectivity_is_refused(make):
    with pytest.raises(ValueError, match="expected"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedProbability("0.5"),
        lambda: FixedProbability(0.5, seed=None),
        lambda: DistanceDependent(0.1, ring="no"),
        lambda: BlockSparse(1.5),
        lambda: LowRank(True),
    ],
)
def test_connectivity_of_another_kind_is_refused(make):
    with pytest.raises(TypeError, match="expected"):
        make()


def test_numbers_of_other_libraries_become_plain():
    record = FixedProbability(np.float32(0.5), seed=np.int64(3))
    assert hash(record) == hash(FixedProbability(0.5, seed=3))


def test_a_rank_has_no_sign():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 3, input_from="x", sign="excitatory")
    graph.add_output("y", 2)
    with pytest.raises(ValueError, match="expected a full kernel from the excitatory population"):
        graph.connect("a", "y", connectivity=LowRank(1))


def test_an_unknown_sign_is_refused():
    graph = PopulationGraph(nnx.Rngs(0))
    with pytest.raises(ValueError, match="sign of 'a': expected the sign 'excitatory' or 'inhib"):
        graph.add_input("a", 3, input_from="x", sign="positive")
    assert graph.spec.names == ()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"activation": "tanh"}, r"'inh' \(inhibitory, tanh\); use an activation without negative"),
        ({"activation": jnp.tanh}, r"'inh' \(inhibitory, tanh\)"),
        ({}, r"'inh' \(inhibitory, identity\)"),
        ({"activation": "relu"}, None),
        ({"activation": "softplus"}, None),
        ({"compute": "lif"}, None),
        ({"activation": lambda x: x}, None),
    ],
)
def test_sign_of_a_population_that_can_be_negative_is_warned_of(options, told):
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("rates", 2, input_from="x", sign="excitatory")
    graph.add_population("inh", 2, sign="inhibitory", **options)
    graph.add_output("y", 2, activation="tanh", sign="inhibitory")  # sends nothing
    graph.connect("rates", "inh")
    graph.connect("inh", "y")
    if told is None:
        graph.finalize()  # warnings are errors here
        return
    with pytest.warns(UserWarning, match=told) as found:
        graph.finalize()
    assert found[0].filename == __file__
