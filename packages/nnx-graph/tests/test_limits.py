"""Small descriptions that ask for more than a machine has: refused before any memory is taken."""

import bz2
import gzip
import itertools
import json
import time

import numpy as np
import pytest
import scipy.sparse
from flax import nnx
from nnx_graph import (
    Connection,
    GraphSpec,
    LearnableDelay,
    Limits,
    Population,
    PopulationGraph,
    read_graphml,
    spec_from_dict,
    spec_from_edges,
    spec_from_json,
    spec_from_networkx,
)

QUICK = 2.0
"""Seconds that a refusal may take on a loaded machine; it takes milliseconds."""


@pytest.fixture(autouse=True)
def quick():
    """Fails what takes long: refusing costs neither memory nor time."""
    start = time.perf_counter()
    yield
    assert time.perf_counter() - start < QUICK


def described(size=1, **connection):
    """A graph of one population and one connection, as JSON-like data."""
    return {
        "format": "nnx-graph",
        "version": 1,
        "populations": [{"name": "a", "size": size, "output_to": "y"}],
        "connections": [{"src": "a", "dst": "a", "delay": 1, **connection}],
    }


def learnable(maximum):
    return {"kind": "learnable-delay", "minimum": 1, "maximum": maximum}


ASKS = {
    "units": (described(size=10**12), r"size of 'a': expected at most 1000000 units in all .*10+;"),
    "delay": (described(delay=10**9), "delay of 'a->a': expected at most 100000 steps of delay"),
    "float": (described(delay=1e308), r"at most 100000 steps of delay, got about 10\*\*308; if"),
    "range": (described(delay=learnable(10**9)), "expected at most 100000 steps of delay"),
    "taps": (described(delay=learnable(50_000)), "1000 steps in the range of a learnable delay"),
    "weights": (described(size=10**5), "50000000 parameters, got 10000100000, of .*100000 for 'a"),
    "taps of weights": (
        described(size=1_000, delay=learnable(100)),
        "expected at most 50000000 parameters, got 100001000",
    ),
    "buffers": (
        described(size=1_000, delay=10_000),
        "16777216 bytes of ring buffers for each batch row, got 40000000, of which 40000000",
    ),
}


@pytest.mark.parametrize("ask", ASKS)
def test_small_description_of_a_huge_graph_is_refused(ask):
    data, message = ASKS[ask]
    with pytest.raises(ValueError, match=f"spec_from_dict: .*{message}"):
        spec_from_dict(data)
    with pytest.raises(ValueError, match=message):
        PopulationGraph.from_json(json.dumps(data), nnx.Rngs(0))


@pytest.mark.parametrize("ask", ASKS)
def test_declaration_of_a_huge_graph_by_hand_is_refused(ask):
    data, message = ASKS[ask]
    (population,), (connection,) = data["populations"], data["connections"]
    delay = connection["delay"]
    delay = LearnableDelay(1, delay["maximum"]) if isinstance(delay, dict) else delay
    spec = GraphSpec((Population(**population),), (Connection(src="a", dst="a", delay=delay),))
    with pytest.raises(ValueError, match=message):
        PopulationGraph.from_spec(spec, nnx.Rngs(0))


def test_huge_population_is_refused_where_it_is_added():
    graph = PopulationGraph(nnx.Rngs(0))
    with pytest.raises(
        ValueError,
        match=r"PopulationGraph: size of 'a': .*got 1000000000000; if that is meant, raise the "
        r"limit with limits=Limits\(max_units=...\)",
    ):
        graph.add_population("a", 10**12)
    graph.add_output("b", 1)
    with pytest.raises(ValueError, match="delay of 'b' to 'b': expected at most 100000 steps"):
        graph.connect("b", "b", delay=1e308)
    with pytest.raises(ValueError, match=r"max_taps=...\)"):
        graph.connect("b", "b", delay=LearnableDelay(0, 2_000))
    for number in range(9):
        graph.add_population(f"p{number}", 100_000)
    with pytest.raises(ValueError, match=r"size of 'last': .*got 1000001"):
        graph.add_population("last", 100_000)


def test_weights_beyond_the_limit_are_refused_by_finalize():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 20_000, input_from="x")
    graph.add_output("b", 20_000)
    graph.connect("a", "b")
    with pytest.raises(ValueError, match=r"finalize: connections: .*got 400020000, of .*'a->b'"):
        graph.finalize()


@pytest.mark.parametrize("place", ["compute", "aggregate", "transform"])
def test_large_modules_by_name_are_refused_before_they_are_made(place):
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 1, input_from="x")
    own = {"compute": {"compute": "gru"}, "aggregate": {"aggregate": "attention"}}.get(place, {})
    graph.add_population("b", 50_000, **own)
    graph.add_output("c", 50_000 if place == "transform" else 1)
    graph.connect("a", "b")
    graph.connect("b", "c", transform="dense" if place == "transform" else None)
    with pytest.raises(ValueError, match=r"50000000 parameters, got \d+, those of the graph befo"):
        graph.finalize()


def test_neurons_without_weights_are_counted_as_what_they_have():
    graph = PopulationGraph(nnx.Rngs(0), limits=Limits(max_parameters=2_000_000))
    graph.add_input("a", 1, input_from="x")
    graph.add_output("b", 300_000, compute="lif")
    graph.connect("a", "b")
    graph.finalize()
    assert graph.summary().parameters < 2_000_000


def test_raised_and_lowered_limits_hold_everywhere():
    data = described(delay=200_000)
    raised = Limits(max_delay=200_000)
    assert spec_from_json(json.dumps(data), limits=raised) == spec_from_dict(data, limits=raised)
    graph = PopulationGraph.from_dict(data, nnx.Rngs(0), limits=raised)
    assert graph.initialize_state(1)["buffers"]["level0_length200000"].shape == (1, 200_000, 1)
    with pytest.raises(ValueError, match="expected at most 1 populations, got 2"):
        PopulationGraph.from_edges([("a", "b")], 1, nnx.Rngs(0), limits=Limits(max_populations=1))
    graph = PopulationGraph(nnx.Rngs(0), limits=Limits(max_connections=1))
    graph.add_output("a", 1)
    graph.connect("a", "a", delay=1)
    with pytest.raises(ValueError, match="expected at most 1 connections, got 2"):
        graph.connect("a", "a", delay=1)


@pytest.mark.parametrize(
    ("limits", "error", "message"),
    [
        ({"max_delay": 0}, ValueError, "Limits: max_delay: expected at least 1, got 0"),
        ({"max_delay": None}, TypeError, "Limits: max_delay: expected an int, got None"),
        ({"max_units": 1e6}, TypeError, "Limits: max_units: expected an int, got 1000000.0"),
    ],
)
def test_bad_limits_raise(limits, error, message):
    with pytest.raises(error, match=message):
        Limits(**limits)


def test_limits_of_another_kind_raise():
    with pytest.raises(TypeError, match="limits: expected a Limits record or None, got 3 of type"):
        PopulationGraph(nnx.Rngs(0), limits=3)
    with pytest.raises(TypeError, match="spec_from_edges: limits: expected a Limits record"):
        spec_from_edges([], 1, limits={"max_delay": 3})


# ---- edges and networkx --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edges", "sizes", "message"),
    [
        ([(0, 10**12)], 1, "expected at most 10000 populations, got 1000000000001"),
        (itertools.repeat((0, 0)), 1, "expected at most 100000 connections, got 100001 or more"),
        (np.zeros((20_000, 20_000), bool), 1, "expected at most 10000 populations, got 20000"),
        (scipy.sparse.coo_matrix((10**6, 10**6)), 1, "most 10000 populations, got 1000000"),
        (np.ones((400, 400), bool), 1, "expected at most 100000 connections, got 160000"),
        ([(0, 1)], {0: 10**7, 1: 1}, "size of '0': expected at most 1000000 units"),
    ],
)
def test_edges_of_huge_graphs_are_refused(edges, sizes, message):
    with pytest.raises(ValueError, match=f"spec_from_edges: .*{message}"):
        spec_from_edges(edges, sizes)


def test_names_without_end_are_refused():
    with pytest.raises(ValueError, match="names: expected at most 10000 populations, got 10001"):
        spec_from_edges([], 1, names=map(str, itertools.count()))


def test_complete_networkx_graph_is_refused_before_it_is_read():
    networkx = pytest.importorskip("networkx")
    graph = networkx.complete_graph(5)
    with pytest.raises(ValueError, match="expected at most 19 connections, got 20"):
        spec_from_networkx(graph, size=1, delay=1, limits=Limits(max_connections=19))


# ---- JSON ----------------------------------------------------------------------------------------

GOOD = json.dumps(described())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "spec_from_json: expected lists and objects some levels deep, got more"),
        ('{"a":' * 100_000, "spec_from_json: expected lists and objects some levels deep"),
        (GOOD.replace('"size": 1', f'"size": {"9" * 100_000}'), "1000 digits, got one of 100000"),
        (GOOD.replace('"size": 1', f'"size": {"9" * 900}'), r"units .*, got about 10\*\*900"),
        (GOOD.replace('"delay": 1', '"delay": NaN'), "delay: expected a finite number, got nan"),
        (GOOD.replace('"delay": 1', '"delay": Infinity'), "expected a finite number, got inf"),
        (GOOD.replace('"delay": 1', '"delay": -1e400'), "expected a finite number, got -inf"),
        (
            GOOD.replace('"delay": 1', '"delay": 1, "delay": 2'),
            "each key of an object once, got 'd",
        ),
        (GOOD.replace('"a"', '"\\ud800"'), "expected .* characters that UTF-8 has, got"),
        (GOOD + " " * 10**7, "expected at most 1000000 bytes, got 100"),
        ("", "spec_from_json: expected JSON, got ''"),
        ("\ufeff" + GOOD, "spec_from_json: expected JSON, got .*BOM"),
    ],
)
def test_hostile_json_is_refused_with_its_reason(text, message):
    with pytest.raises(ValueError, match=message):
        spec_from_json(text, limits=Limits(max_file_bytes=1_000_000))


def test_attributes_that_are_nested_too_deep_are_refused():
    nested = [1]
    for _ in range(300):
        nested = [nested]
    itself = []
    itself.append(itself)
    for value in (nested, itself):
        with pytest.raises(ValueError, match="expected lists that are at most 100 deep"):
            spec_from_dict(described() | {"attributes": {"a": value}})


# ---- files ---------------------------------------------------------------------------------------

GRAPHML = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="node" attr.name="size" attr.type="int"/>
  <key id="d1" for="node" attr.name="output_to" attr.type="string"/>
  <graph edgedefault="directed">
    <node id="a"><data key="d0">2</data><data key="d1">y</data></node>
    <node id="b"><data key="d0">2</data></node>
    <edge source="b" target="a" id="e"/>
  </graph>
</graphml>
"""
BOMB = """<?xml version="1.0"?>
<!DOCTYPE g [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
"""


@pytest.fixture(scope="module")
def expanding():
    """1.5 MB that become 1.5 GB, and would go on."""
    return gzip.compress(b" " * 10**6) * 1_500


@pytest.fixture
def path(tmp_path):
    pytest.importorskip("networkx")
    return tmp_path / "g.graphml"


def test_good_file_is_read(path):
    path.write_text(GRAPHML)
    assert [c.name for c in read_graphml(path).connections] == ["b->a"]
    for ending, compress in (("gz", gzip.compress), ("bz2", bz2.compress)):
        packed = path.with_suffix(f".{ending}")
        packed.write_bytes(compress(GRAPHML.encode()))
        assert read_graphml(str(packed)) == read_graphml(path)


def test_compressed_file_that_expands_without_end_is_refused(path, expanding):
    packed = path.with_suffix(".gz")
    packed.write_bytes(expanding)
    with pytest.raises(ValueError, match="expected at most 67108864 bytes, got 67108865 or more"):
        read_graphml(packed)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "read_graphml: expected GraphML, got b'': no element found"),
        (GRAPHML[:300], "expected GraphML, got .*: .*export the graph anew"),
        (GRAPHML.replace('"d1">y', '"d9">y'), "expected GraphML, got .*networkx says: .*d9"),
        (GRAPHML.replace(">2<", ">two<"), "expected GraphML, got .*networkx says: ValueError"),
        (GRAPHML.replace(">2<", f">{'9' * 100_000}<"), "networkx says: ValueError"),
        (GRAPHML.replace('id="b"', 'id="a"'), "expected a node once for each id .*got 'a' twice"),
        (GRAPHML.replace('"d1">y', '"d0">1'), "expected the data of an element once .*got 'd0'"),
        (GRAPHML.replace('target="a"', ""), r"got one with \['id', 'source'\]; add the target"),
        (GRAPHML.replace("target=", "t" * 9000 + "="), r"'t+\.\.\.t+'\]; add the target"),
        (GRAPHML.replace('target="a"', 'target="c"'), "id of a node as target of an edge, got 'c'"),
        (GRAPHML.replace("<graph ", "<hyper ").replace("/graph>", "/hyper>"), "networkx says"),
        (BOMB + GRAPHML.split("?>")[1], "without entities of its own, got 'a', whose text may"),
        ("<a>" * 100_000, "expected at most 100 elements within each other"),
        (GRAPHML.replace("utf-8", "utf-9"), "expected GraphML.*unknown encoding"),
        (GRAPHML.encode().replace(b">y<", b">\xff<"), "expected GraphML, got .*not well-formed"),
        ("{}", "expected GraphML, got b'{}'"),
    ],
)
def test_malformed_graphml_is_refused_with_its_reason(path, content, message):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        read_graphml(path)


def test_files_that_are_not_what_their_ending_says_are_refused(path):
    whole = gzip.compress(GRAPHML.encode())
    flipped = whole[:40] + bytes([whole[40] ^ 255]) + whole[41:]
    contents = {"gz": (GRAPHML.encode(), whole[:-20], flipped), "bz2": (GRAPHML.encode(), b"BZh9")}
    for ending, found in contents.items():
        packed = path.with_suffix(f".{ending}")
        for content in found:
            packed.write_bytes(content)
            with pytest.raises(ValueError, match=r"expected (a whole compressed file|GraphML)"):
                read_graphml(packed)


def test_paths_that_hold_no_file_raise(path, tmp_path):
    with pytest.raises(FileNotFoundError):
        read_graphml(path)
    with pytest.raises(IsADirectoryError):
        read_graphml(tmp_path)
    with pytest.raises(TypeError, match="read_graphml: expected the path of a file, got 3 of type"):
        read_graphml(3)
    with pytest.raises(ValueError, match="a character that no path has"):
        read_graphml("a\0b")


def test_file_with_too_many_nodes_is_refused_before_networkx_reads_it(path):
    path.write_text(GRAPHML)
    with pytest.raises(ValueError, match="expected at most 1 populations, got 2 or more"):
        read_graphml(path, limits=Limits(max_populations=1))
