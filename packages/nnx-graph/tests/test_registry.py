"""Names of activations and modules."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from nnx_graph import Named, PopulationGraph, Unnamed, register_activation, register_module
from nnx_graph._declaration._registry import activation_called, make_module, name_of_activation
from nnx_stateful import (
    ALIF,
    CTRNN,
    GRU,
    LIF,
    LRU,
    LSTM,
    Dense,
    LeakyIntegrator,
    Noise,
    OrnsteinUhlenbeckNoise,
)


def halve(x):
    return x / 2


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (jnp.tanh, "tanh"),
        (jax.nn.tanh, "tanh"),
        (nnx.tanh, "tanh"),
        (nnx.relu, "relu"),
        (jax.nn.silu, "swish"),
        (nnx.swish, "swish"),
        (None, "identity"),
        (jax.nn.identity, "identity"),
    ],
)
def test_activation_has_one_name_by_whichever_path_it_was_imported(function, name):
    assert name_of_activation(function) == name


@pytest.mark.parametrize("name", ["tanh", "relu", "sigmoid", "silu", "gelu", "elu", "softmax"])
def test_activation_called_by_name_is_that_of_jax(name):
    assert activation_called(name, "here") is getattr(jax.nn, name)


def test_function_without_a_name_has_none():
    assert name_of_activation(lambda x: x) is None
    assert name_of_activation([]) is None  # not hashable


def test_registered_activation_is_found_both_ways_under_its_first_name():
    register_activation("halve", halve)
    register_activation("half", halve)
    register_activation("half", halve)  # again, which changes nothing
    assert activation_called("half", "here") is activation_called("halve", "here") is halve
    assert name_of_activation(halve) == "halve"


class Unhashable:
    """A function that is equal to others of its kind, and so has no hash of its own."""

    def __call__(self, x):
        return x

    def __eq__(self, other):
        return isinstance(other, Unhashable)


def test_function_that_cannot_be_hashed_is_refused_and_leaves_no_trace():
    with pytest.raises(
        TypeError, match=r"'bare': expected a function that can be hashed, got .* of Unhashable"
    ):
        register_activation("bare", Unhashable())
    with pytest.raises(ValueError, match="expected the name of an activation, got 'bare'"):
        activation_called("bare", "here")
    register_activation("bare", halve)  # the name is free
    graph = PopulationGraph(nnx.Rngs(0))
    with pytest.raises(
        TypeError, match=r"activation of 'a': expected a function that can be hashed.*__hash__"
    ):
        graph.add_population("a", 1, activation=Unhashable())
    assert graph.spec.names == ()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("lstm", LSTM), ("gru", GRU), ("lru", LRU), ("dense", Dense), ("ctrnn", CTRNN)],
)
def test_registered_layers_have_the_sizes_of_their_place(name, kind):
    module = make_module(Named(name), "transform", 2, 3, nnx.Rngs(0))
    assert type(module) is kind
    out = jax.eval_shape(lambda x: module(module.initialize_state(5), x).output, jnp.ones((5, 2)))
    assert out.shape == (5, 3)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("leaky_integrator", LeakyIntegrator),
        ("ctrnn", CTRNN),
        ("noise", Noise),
        ("ornstein_uhlenbeck_noise", OrnsteinUhlenbeckNoise),
        ("lif", LIF),
        ("alif", ALIF),
    ],
)
def test_registered_dynamics_have_the_size_of_their_population(name, kind):
    module = make_module(Named(name), "compute", 3, 3, nnx.Rngs(0))
    assert type(module) is kind
    assert module.size == 3


@pytest.mark.parametrize("size", [3, 2])
def test_ctrnn_weighs_the_input_of_a_connection_and_takes_a_sum_as_it_is(size):
    transform = make_module(Named("ctrnn"), "transform", 3, size, nnx.Rngs(0))
    assert isinstance(transform, CTRNN)
    assert transform.kernel is not None
    assert transform.kernel.shape == (3, size)
    compute = make_module(Named("ctrnn", activation="relu"), "compute", 3, 3, nnx.Rngs(0))
    assert isinstance(compute, CTRNN)
    assert compute.kernel is None
    weighed = make_module(Named("ctrnn", in_features=3), "compute", 3, 3, nnx.Rngs(0))
    assert isinstance(weighed, CTRNN)
    assert weighed.kernel is not None


def test_dynamics_of_one_size_in_a_place_of_two_raise():
    with pytest.raises(
        ValueError, match=r"LIF: expected as many inputs as outputs, got 2 and 3; .*the compute"
    ):
        make_module(Named("lif"), "transform", 2, 3, nnx.Rngs(0))


def test_options_reach_the_module_and_functions_go_by_name():
    named = Named("dense", activation="tanh", use_bias=False)
    dense = make_module(named, "transform", 2, 3, nnx.Rngs(0))
    assert isinstance(dense, Dense)
    assert (dense.activation, dense.bias) == (jnp.tanh, None)
    gru = make_module(Named("gru", gate_fn="hard_sigmoid"), "transform", 2, 3, nnx.Rngs(0))
    assert isinstance(gru, GRU)
    assert gru.gate_fn is nnx.hard_sigmoid


def test_named_is_equal_and_hashable_where_its_options_are():
    one, other = Named("x", b=[1, 2], a=None), Named("x", a=None, b=(1, 2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Named("x", a=None)
    assert repr(one) == "Named('x', a=None, b=(1, 2))"


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (
            lambda: register_activation("tanh", halve),
            ValueError,
            r"register_activation: expected a new name, got 'tanh', which is that of .*tanh.*other",
        ),
        (
            lambda: register_module("gru", LSTM),
            ValueError,
            r"expected a new name, got 'gru', which is that of GRU; choose another, or declare by",
        ),
        (
            lambda: register_activation("", halve),
            ValueError,
            r"at least one character, got ''; name it",
        ),
        (lambda: register_activation(3, halve), TypeError, r"type str, got 3 of type int; use '3'"),
        (
            lambda: register_activation("three", 3),
            TypeError,
            r"register_activation: 'three': expected a function or class, got an instance of int",
        ),
        (
            lambda: register_module("one gru", GRU(1, 1, nnx.Rngs(0))),
            TypeError,
            r"register_module: 'one gru': expected a function or class, got an instance of GRU",
        ),
        (lambda: Named(GRU), TypeError, r"Named: expected a name of type str, got .*for example"),
        (
            lambda: Named("dense", activation=jnp.tanh),
            TypeError,
            r"Named\('dense'\): options\['activation'\]: expected None, a bool, int, float or str",
        ),
        (
            lambda: Named("lru", r_max=[0.5, float("nan")]),
            ValueError,
            r"options\['r_max'\]\[1\]: expected a finite number, got nan",
        ),
    ],
)
def test_bad_names_and_options_raise(act, error, message):
    with pytest.raises(error, match=message):
        act()


# ---- in a graph ----------------------------------------------------------------------------------


def declare(compute="gru", transform="dense", activation="tanh", rngs=None):
    graph = PopulationGraph(nnx.Rngs(0) if rngs is None else rngs)
    graph.add_input("a", 2, input_from="x", activation=activation)
    graph.add_population("b", 3, activation=activation, compute=compute)
    graph.add_output("c", 1, activation=activation)
    graph.connect("a", "b", transform=transform)
    graph.connect("b", "c")
    return graph


def test_graph_holds_names_in_its_declaration_and_makes_the_modules():
    graph = declare(compute=Named("gru", gate_fn="hard_sigmoid"))
    graph.finalize()
    a, b, c = graph.spec.populations
    assert a.activation is b.activation is c.activation is jnp.tanh
    assert b.compute == Named("gru", gate_fn="hard_sigmoid")
    assert graph.spec.connections[0].transform == Named("dense")
    assert isinstance(graph.connection("a", "b").transform, Dense)
    assert {type(module) for _, module in nnx.iter_modules(graph)} >= {GRU, Dense}


def test_instance_is_in_the_declaration_by_its_class_alone():
    graph = declare(compute=GRU(3, 3, nnx.Rngs(0)))
    (_, b, _) = graph.spec.populations
    assert b.compute == Unnamed("GRU")
    assert b.has_compute
    assert not graph.spec.connections[1].has_transform


def test_each_place_of_a_name_has_a_module_of_its_own():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 2, input_from="x")
    graph.add_output("b", 2)
    graph.connect("a", "b", transform="dense", delay=1, reciprocal=True)  # once for each direction
    graph.finalize()
    there, back = graph.connection("a", "b").transform, graph.connection("b", "a").transform
    assert there is not back
    assert bool((there.kernel[...] != back.kernel[...]).any())


def test_activations_that_are_the_same_are_one_function_in_the_declaration():
    graph = declare(activation=jax.nn.identity)
    assert {p.activation for p in graph.spec.populations} == {None}


def test_options_that_a_module_does_not_take_raise_with_their_place():
    graph = declare(compute=Named("gru", gates=3))
    with pytest.raises(TypeError, match="gates") as caught:
        graph.finalize()
    (note,) = caught.value.__notes__
    assert "in the compute of 'b', Named('gru', gates=3), made for 3 and 3 features" in note


def test_ctrnn_by_name_runs_in_both_places():
    graph = declare(compute="ctrnn", transform="ctrnn")
    graph.finalize()
    transform = graph.connection("a", "b").transform
    assert transform.kernel.shape == (2, 3)
    out = graph(graph.initialize_state(4), {"x": jnp.ones((4, 2))})
    assert out.output["c"].shape == (4, 1)


def test_name_that_makes_no_module_raises():
    register_module("no module", lambda i, o, *, rngs: jnp.tanh)
    with pytest.raises(
        TypeError, match=r"transform of 'a->b': expected Named\('no module'\) to make a Stateful"
    ):
        declare(transform="no module").finalize()


def test_module_that_makes_another_size_raises():
    register_module("too wide", lambda i, o, *, rngs: Dense(i, o + 1, rngs))
    with pytest.raises(ValueError, match=r"compute of 'b': expected output of shape \(2, 3\)"):
        declare(compute="too wide").finalize()
