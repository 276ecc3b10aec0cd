"""Each container's routing and errors."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from nnx_stateful import (
    GRU,
    Apply,
    Concat,
    Container,
    Dense,
    Filter,
    Flattener,
    Map,
    Merge,
    Parallel,
    Scale,
    Sequential,
    Splitter,
    initial_state,
)
from nnx_stateful.testing import CounterProbe

X = jnp.arange(6.0).reshape(2, 3)


def run(module, x):
    rows = jax.tree.leaves(x)[0].shape[0]
    return module(initial_state(module, rows), x).output


# ---- construction ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Concat, Map, Merge, Parallel])
def test_named_container_takes_a_dict_or_keywords(kind):
    modules = {"b": Scale(1.0), "a": Scale(2.0)}
    assert kind(modules).child_names == kind(**modules).child_names == ("b", "a")
    with pytest.raises(TypeError, match=r"got both; move \['c'\] into the dict"):
        kind(modules, c=Scale(1.0))


@pytest.mark.parametrize("kind", [Concat, Map, Merge, Parallel])
def test_named_container_without_children_raises(kind):
    with pytest.raises(ValueError, match=f"{kind.__name__}: expected at least one child"):
        kind()
    with pytest.raises(ValueError, match=f"{kind.__name__}: expected at least one child"):
        kind({})


def test_sequential_without_children_raises():
    with pytest.raises(ValueError, match="Sequential: expected at least one child module, got"):
        Sequential([])


@pytest.mark.parametrize("kind", [Concat, Map, Merge, Parallel])
def test_named_container_of_a_list_raises(kind):
    with pytest.raises(TypeError, match="expected a dict of modules by name, got list"):
        kind([Scale(1.0)])


def test_sequential_of_one_module_raises():
    with pytest.raises(TypeError, match=r"got one Scale; write Sequential\(\[module\]\)"):
        Sequential(Scale(1.0))


@pytest.mark.parametrize(
    ("arguments", "got"),
    [
        ((None,), "NoneType"),
        (({"a": Scale(1.0)},), "dict"),
        ((Scale(1.0), Scale(2.0)), "2 arguments"),
    ],
)
def test_sequential_of_something_else_than_a_list_raises(arguments, got):
    with pytest.raises(TypeError, match=rf"Sequential: .* got {got}; write Sequential\(\[first"):
        Sequential(*arguments)


@pytest.mark.parametrize(
    ("factor", "kind"), [("2", TypeError), (None, TypeError), (float("nan"), ValueError)]
)
def test_scale_of_a_bad_factor_raises(factor, kind):
    with pytest.raises(kind, match="Scale: factor: expected a finite number, got"):
        Scale(factor)


@pytest.mark.parametrize(
    ("child", "kind"), [(jnp.tanh, "function|ufunc|PjitFunction"), (None, "NoneType"), (1, "int")]
)
def test_child_that_is_no_module_raises(child, kind):
    with pytest.raises(TypeError, match=rf"child 'a': expected a StatefulModule, got .*({kind})"):
        Parallel(a=child)
    with pytest.raises(TypeError, match=r"Sequential: child '1': expected a StatefulModule"):
        Sequential([Scale(1.0), child])


def test_nnx_layer_as_child_raises_saying_what_to_do():
    with pytest.raises(TypeError, match=r"got Linear; wrap .* an nnx layer in a StatefulModule"):
        Sequential([nnx.Linear(2, 2, rngs=nnx.Rngs(0))])


def test_child_name_that_is_no_str_raises():
    with pytest.raises(TypeError, match="expected child names of type str, got 1 of type int"):
        Parallel({1: Scale(1.0)})


def test_container_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Container({"a": Scale(1.0)})


# ---- order of children -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "net",
    [
        Concat(b=Scale(1.0), a=Scale(10.0)),
        Sequential([Dense(3, 3, nnx.Rngs(i)) for i in range(11)]),  # "10" sorts before "2"
    ],
    ids=["Concat", "Sequential"],
)
def test_order_of_children_survives_split_merge_and_jit(net):
    x = {"b": X, "a": X} if isinstance(net, Concat) else X
    expected = run(net, x)
    graphdef, variables = nnx.split(net)
    assert jnp.array_equal(run(nnx.merge(graphdef, variables), x), expected)
    assert jnp.array_equal(run(nnx.clone(net), x), expected)
    compiled = jax.jit(lambda v, x: run(nnx.merge(graphdef, v), x))(variables, x)
    assert jnp.allclose(compiled, expected, rtol=1e-5)


def test_sequential_gives_its_layers_by_index_and_in_order():
    layers = [Scale(float(i)) for i in range(3)]
    net = Sequential(layers)
    assert len(net) == 3
    assert net[1].factor == 1.0
    assert [layer.factor for layer in net] == [0.0, 1.0, 2.0]
    assert [layer.factor for layer in net.layers] == [0.0, 1.0, 2.0]


# ---- routing -----------------------------------------------------------------------------------


def test_map_drops_keys_that_no_child_consumes():
    out = run(Map(a=Scale(2.0)), {"a": X, "b": X, "c": X})
    assert list(out) == ["a"]
    assert jnp.array_equal(out["a"], 2 * X)


@pytest.mark.parametrize("kind", [Map, Concat])
def test_missing_entry_raises_listing_what_there_is(kind):
    net = kind(vision=Scale(1.0))
    with pytest.raises(KeyError, match=r"input has no entry 'vision'; it has \['pose', 'touch'\]"):
        run(net, {"touch": X, "pose": X})


@pytest.mark.parametrize("kind", [Map, Concat])
def test_array_where_a_dict_is_expected_raises(kind):
    with pytest.raises(TypeError, match=r"expected a dict input with entries \['a'\]"):
        run(kind(a=Scale(1.0)), X)


def test_parallel_gives_the_same_input_to_all():
    out = run(Parallel(b=Scale(1.0), a=Scale(2.0)), X)
    assert jnp.array_equal(out["a"], 2 * out["b"])


def test_concat_joins_in_order_of_construction():
    out = run(Concat(b=Scale(1.0), a=Scale(0.0)), {"a": X, "b": X})
    assert out.tolist() == [[0, 1, 2, 0, 0, 0], [3, 4, 5, 0, 0, 0]]


def test_merge_joins_dicts_and_refuses_a_key_twice():
    out = run(Merge(a=Splitter(x=1), b=Splitter(y=2)), X)
    assert {key: leaf.shape for key, leaf in out.items()} == {"x": (2, 1), "y": (2, 2)}
    with pytest.raises(ValueError, match="children 'a' and 'b' both return the entry 'x'"):
        run(Merge(a=Splitter(x=1), b=Splitter(x=1)), X)
    with pytest.raises(TypeError, match="Merge: child 'a': expected a dict output, got"):
        run(Merge(a=Scale(1.0)), X)


def test_splitter_cuts_in_order_and_drops_the_rest():
    out = run(Splitter(b=2), X)
    assert out["b"].tolist() == [[0, 1], [3, 4]]
    with pytest.raises(ValueError, match=r"at least 4 features \(b=2, a=2\), got shape \(2, 3\)"):
        run(Splitter(b=2, a=2), X)


def test_splitter_of_no_array_raises():
    with pytest.raises(TypeError, match="expected an array of at least 2 features, got list; pick"):
        run(Splitter(b=2), [X])


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "2"])
def test_splitter_with_a_bad_size_raises(size):
    kind = ValueError if type(size) is int else TypeError
    with pytest.raises(kind, match="Splitter: size of 'a': expected a positive int, got"):
        Splitter(a=size)


def test_splitter_without_sizes_raises():
    with pytest.raises(ValueError, match="Splitter: expected at least one named size"):
        Splitter()


def test_filter_picks_by_key_path_and_function():
    x = {"body": {"pose": X, "parts": [X, 2 * X]}, "eye": 3 * X}
    spec = {"a": "eye", "b": ("body", "pose"), "c": ("body", "parts", 1), "d": lambda x: -x["eye"]}
    out = run(Filter(spec), x)
    assert {key: float(leaf[0, 1]) for key, leaf in out.items()} == {
        "a": 3,
        "b": 1,
        "c": 2,
        "d": -3,
    }


def test_filter_of_a_missing_part_raises_listing_what_there_is():
    x = {"body": {"pose": X}}
    with pytest.raises(KeyError, match=r"entry 'a': .* part \('body', 'eye'\); found \['pose'\]"):
        run(Filter({"a": ("body", "eye")}), x)
    with pytest.raises(KeyError, match=r"no part \('eye',\); found \['body'\] at the top"):
        run(Filter({"a": "eye"}), x)


def test_filter_with_a_bad_spec_raises():
    with pytest.raises(TypeError, match="Filter: expected a dict of output key to part, got str"):
        Filter("a")
    with pytest.raises(ValueError, match="Filter: expected at least one entry"):
        Filter({})
    with pytest.raises(TypeError, match="Filter: entry 'a': expected a key, a tuple of keys or"):
        Filter({"a": 1})


def test_flattener_keeps_levels_and_their_kinds():
    x = {"a": [X, X.reshape(2, 3, 1)], "b": X[:, 0]}
    assert run(Flattener(), x).shape == (2, 7)
    kept = run(Flattener(preserve_levels=1), x)
    assert {key: leaf.shape for key, leaf in kept.items()} == {"a": (2, 6), "b": (2, 1)}
    deep = run(Flattener(preserve_levels=2), {"a": [X, X[:, 0]]})
    assert [leaf.shape for leaf in deep["a"]] == [(2, 3), (2, 1)]


def test_flattener_with_bad_levels_or_input_raises():
    with pytest.raises(ValueError, match="preserve_levels: expected an int of at least 0, got -1"):
        Flattener(-1)
    with pytest.raises(TypeError, match=r"expected 1 more level\(s\)"):
        run(Flattener(1), X)
    with pytest.raises(ValueError, match="expected at least one array to flatten"):
        Flattener()((), {})


def test_apply_of_something_that_cannot_be_called_raises():
    with pytest.raises(TypeError, match="Apply: expected a function, got int"):
        Apply(3)


def test_batch_of_one_row_keeps_its_axis():
    rngs = nnx.Rngs(0)
    net = Sequential(
        [
            Splitter(a=1, b=2),
            Concat(b=GRU(2, 1, rngs), a=CounterProbe()),
            Parallel(x=Dense(2, 1, rngs), y=Scale(1.0)),
            Flattener(),
        ]
    )
    state = initial_state(net, 1)
    assert net(state, X[:1]).output.shape == (1, 3)
    out = net.unroll(state, X[None, :1], jnp.zeros((1, 1), bool))
    assert out.output.shape == (1, 1, 3)
    assert out.regularization_loss.shape == (1, 1)


class Pair(NamedTuple):
    eye: jax.Array
    skin: jax.Array


def test_flattener_keeps_a_namedtuple():
    out = run(Flattener(1), Pair(jnp.ones((2, 3, 3)), X))
    assert isinstance(out, Pair)
    assert out.eye.shape == (2, 9)
