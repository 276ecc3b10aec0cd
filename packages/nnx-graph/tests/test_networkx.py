"""Declarations as graphs of networkx and as GraphML files."""

import sys
import tempfile
from pathlib import Path

import jax.numpy as jnp
import networkx
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
    read_graphml,
    spec_from_networkx,
    spec_to_networkx,
    write_graphml,
)

from ._specs import assert_same, written_specs

# ---- round trips ---------------------------------------------------------------------------------


@given(spec=written_specs())
def test_networkx_of_random_graphs_gives_equal_declarations(spec):
    graph = spec_to_networkx(spec)
    assert_same(spec_from_networkx(graph), spec)
    shuffled = networkx.MultiDiGraph(**graph.graph)  # edges in another order
    shuffled.add_nodes_from(graph.nodes(data=True))
    shuffled.add_edges_from(reversed(list(graph.edges(keys=True, data=True))))
    assert_same(spec_from_networkx(shuffled), spec)


@given(spec=written_specs())
def test_graphml_of_random_graphs_gives_equal_declarations(spec):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.graphml"
        write_graphml(spec, path)
        assert_same(read_graphml(path), spec)


LIMB = GraphSpec(
    (
        Population(name="eye", size=2, input_from="x", activation=jnp.tanh),
        Population(name="arm", size=1, output_to="y", compute=Named("lru", r_max=0.5)),
    ),
    (
        Connection(src="eye", dst="arm", delay=1, attributes=(("length", 2.5),)),
        Connection(src="arm", dst="eye", delay=2),
        Connection(src="eye", dst="arm", index=1, transform=Named("gru")),
    ),
    (("title", "limb"),),
)


def test_networkx_has_fields_and_kept_attributes_side_by_side():
    graph = PopulationGraph.from_spec(LIMB, nnx.Rngs(0)).to_networkx()
    assert isinstance(graph, networkx.MultiDiGraph)
    assert graph.graph == {"format": "nnx-graph", "version": 1, "title": "limb"}
    assert graph.nodes["eye"] == {
        "size": 2,
        "activation": "tanh",
        "input_from": "x",
        "output_to": None,
        "compute": None,
        "sign": None,
        "aggregate": None,
    }
    assert graph.nodes["arm"]["compute"] == {"name": "lru", "options": {"r_max": 0.5}}
    assert graph.edges["eye", "arm", 0] == {
        "delay": 1,
        "transform": None,
        "connectivity": None,
        "frozen": False,
        "share": None,
        "length": 2.5,
        "declared": 0,
    }
    assert graph.edges["eye", "arm", 1]["transform"] == "gru"
    assert PopulationGraph.from_networkx(graph, nnx.Rngs(0)).spec == LIMB


def test_graphml_is_text_that_other_tools_read(tmp_path):
    write_graphml(LIMB, tmp_path / "limb.graphml")
    plain = networkx.read_graphml(tmp_path / "limb.graphml")
    assert plain.nodes["eye"] == {"size": 2, "activation": "tanh", "input_from": "x"}
    assert plain.nodes["arm"]["compute"] == 'json:{"name": "lru", "options": {"r_max": 0.5}}'
    assert set(plain["eye"]["arm"]) == {"eye->arm", "eye->arm#1"}  # ids


# ---- graphs of other origin ----------------------------------------------------------------------


def test_undirected_edges_become_connections_both_ways():
    graph = networkx.Graph([("a", "b"), ("b", "b")])
    spec = spec_from_networkx(graph, size=3, delay=2)
    assert [(c.name, c.delay) for c in spec.connections] == [("a->b", 2), ("b->a", 2), ("b->b", 2)]
    assert [p.size for p in spec.populations] == [3, 3]


def test_parallel_edges_are_numbered_whatever_their_keys():
    graph = networkx.MultiDiGraph()
    graph.add_edge(1, 2, key="slow", delay=5)
    graph.add_edge(1, 2, key="fast")
    spec = spec_from_networkx(graph, size=1)
    assert [(c.name, c.delay) for c in spec.connections] == [("1->2", 5), ("1->2#1", 0)]


def test_attributes_go_before_defaults_and_arguments_name_inputs_and_outputs():
    graph = networkx.DiGraph([((0, 1), "b")])
    graph.nodes["b"].update(size=7, activation="relu", region="V1", at=np.array([0.5, 1.0]))
    spec = spec_from_networkx(graph, size=2, activation="tanh", inputs={(0, 1): "x"}, outputs=["b"])
    first, second = spec.populations
    assert (first.name, first.size, first.activation) == ("(0, 1)", 2, jnp.tanh)
    assert first.input_from == "x"
    assert (second.size, second.activation, second.output_to) == (7, nnx.relu, "b")
    assert second.attributes == (("region", "V1"), ("at", (0.5, 1.0)))


def test_defaults_of_a_graphml_file_count(tmp_path):
    graph = networkx.DiGraph([("a", "b")], node_default={"size": 4}, edge_default={"delay": 3})
    graph.nodes["a"]["size"] = 5
    graph.edges["a", "b"]["delay"] = 3
    networkx.write_graphml(graph, tmp_path / "file.graphml")
    spec = read_graphml(tmp_path / "file.graphml")
    assert [p.size for p in spec.populations] == [5, 4]
    assert spec.connections[0].delay == 3


def test_graph_of_another_origin_runs():
    ring = networkx.cycle_graph(4)
    graph = PopulationGraph.from_networkx(ring, nnx.Rngs(0), size=2, delay=1, outputs=[0])
    assert len(graph.spec.connections) == 8
    assert graph.initialize_state(3)["buffers"]["level0_length1"].shape == (3, 1, 8)


# ---- what is refused -----------------------------------------------------------------------------


def edge(**attributes):
    graph = networkx.DiGraph()
    graph.add_node("a", size=1)
    graph.add_node("b", size=1)
    graph.add_edge("a", "b", **attributes)
    return graph


def node(name="a", **attributes):
    graph = networkx.Graph()
    graph.add_node(name, **attributes)
    return graph


def about(**attributes):
    return networkx.DiGraph(**attributes)


@pytest.mark.parametrize(
    ("graph", "error", "message"),
    [
        (
            [(0, 1)],
            TypeError,
            r"expected a graph of networkx, got \[\(0, 1\)\]",
        ),
        (networkx.Graph([(1, "1")]), ValueError, r"different names, got 1 and '1', .*both '1'"),
        (node(), ValueError, r"nodes\['a'\].size: expected a number of units, .*pass size="),
        (node(size="3"), TypeError, r"nodes\['a'\].size: expected an int, got '3' of type str"),
        (node(size=0), ValueError, r"nodes\['a'\].size: expected at least 1, got 0"),
        (node("a->b", size=1), ValueError, r"nodes\['a->b'\].name: .*without '->'"),
        (node(size=1, activation="tahn"), ValueError, r"nodes\['a'\].activation: .*did you mean"),
        (
            node(size=1, tags={"x"}),
            TypeError,
            r"nodes\['a'\]\['tags'\]: .*of type set",
        ),
        (node(size=1, at=float("nan")), ValueError, r"nodes\['a'\]\['at'\]: .*finite number"),
        (edge(delay="1"), TypeError, r"edges\['a', 'b'\].delay: expected an int or a float or"),
        (edge(delay=[1, 2]), ValueError, r"edges\['a', 'b'\].delay: expected 1 delays, .*got 2"),
        (edge(frozen=True, share="w"), ValueError, r"edges\['a', 'b'\]: .*leave frozen out"),
        (edge(delay=-1), ValueError, r"edges\['a', 'b'\].delay: expected at least 0, got -1"),
        (edge(declared="x"), TypeError, r"edges\['a', 'b'\].declared: expected an int or None"),
        (edge(transform="gruu"), ValueError, r"edges\['a', 'b'\].transform: .*did you mean 'gru'"),
        (about(format="nnx-graph", version=9), ValueError, r"version: expected 1, got 9; update"),
        (about(by={}), TypeError, r"attributes of the graph\['by'\]: expected None, a bool"),
    ],
)
def test_bad_graph_raises_with_its_place(graph, error, message):
    with pytest.raises(error, match=message):
        spec_from_networkx(graph)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"inputs": ["c"]},
            ValueError,
            r"inputs: expected a node of the graph, got 'c'; ",
        ),
        ({"outputs": "a"}, TypeError, r"outputs: expected a list of populations.*write \['a'\]"),
        (
            {"inputs": {"a": 3}},
            TypeError,
            r"nodes\['a'\].input_from: .*str or None, got 3",
        ),
        (
            {"outputs": {"a": "y", "b": "y"}},
            ValueError,
            r"nodes\['b'\].output_to: .*of 'a'",
        ),
        ({"activation": "tahn"}, ValueError, r"expected the name of an activation, got 'tahn'"),
        ({"delay": -1}, ValueError, r"edges\['a', 'b'\].delay: expected at least 0, got -1"),
    ],
)
def test_bad_options_raise(options, error, message):
    with pytest.raises(error, match=message):
        spec_from_networkx(edge(), **options)


def test_cycle_without_delay_raises_with_the_cure():
    with pytest.raises(ValueError, match=r"cycle 0 -> 1 -> 0.*connect\('1', '0', delay=1\)"):
        PopulationGraph.from_networkx(
            networkx.path_graph(2), nnx.Rngs(0), size=1, inputs=[0], outputs=[1]
        )


def spec_with(node_attributes=(), edge_attributes=(), graph_attributes=(), name="a"):
    return GraphSpec(
        (Population(name=name, size=1, attributes=node_attributes),),
        (Connection(src=name, dst=name, delay=1, attributes=edge_attributes),),
        graph_attributes,
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            spec_with((("size", 3),)),
            r"nodes\['a'\].attributes: .*got 'size'; rename",
        ),
        (spec_with((), (("declared", 3),)), r"edges\['a', 'a', 0\].attributes: .*got 'declared'"),
        (spec_with((), (), (("version", 3),)), r"spec_to_networkx.attributes: .*got 'version'"),
        (spec_with((), (), (("id", 3),)), r"write_graphml: attributes: .*got 'id'"),
        (spec_with(name="a\0"), r"the name of a population: .*that XML has, got 'a\\x00'"),
        (spec_with(((" \ud800", 1),)), r"the name of an attribute: .*that XML has, got ' \\ud800'"),
    ],
)
def test_what_a_file_cannot_hold_raises(spec, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_graphml(spec, tmp_path / "file.graphml")


def test_broken_json_in_a_file_raises_with_its_place(tmp_path):
    graph = node(size=1, compute="json:{")
    networkx.write_graphml(graph, tmp_path / "file.graphml")
    with pytest.raises(ValueError, match=r"read_graphml: nodes\['a'\].compute: expected JSON"):
        read_graphml(tmp_path / "file.graphml")


def test_missing_networkx_raises_with_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r"spec_to_networkx: .*pip install nnx-graph\[networkx\]"):
        spec_to_networkx(LIMB)
