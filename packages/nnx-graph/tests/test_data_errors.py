"""What cannot be written down or read: each says where, what was expected, and what came."""

import copy
import json

import pytest
from flax import nnx
from nnx_graph import (
    Connection,
    GraphSpec,
    LowRank,
    Named,
    Population,
    PopulationGraph,
    Unnamed,
    spec_from_dict,
    spec_from_json,
    spec_to_dict,
    spec_to_networkx,
)
from nnx_graph.testing import LeakyProbe

# ---- what is refused on writing ------------------------------------------------------------------


def one(**fields):
    return GraphSpec((Population(**{"name": "a", "size": 1, "output_to": "y"} | fields),), ())


def loop(**fields):
    return GraphSpec(one().populations, (Connection(src="a", dst="a", **fields),))


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (
            one(activation=lambda x: x),
            ValueError,
            r"spec_to_dict: populations\['a'\].activation: expected a function that has a name, "
            r"got .*lambda.*register_activation",
        ),
        (
            one(compute=Unnamed("Probe")),
            ValueError,
            r"populations\['a'\].compute: expected a module that has a name, got an instance of "
            r"Probe; register_module\('...', Probe\) and declare it by that name",
        ),
        (
            loop(delay=1, transform=Unnamed("Probe")),
            ValueError,
            r"connections\['a->a'\].transform: expected a module that has a name",
        ),
        (
            one(compute=Unnamed("GRU")),
            ValueError,
            r"got an instance of GRU; declare it by the name of its class, compute='gru', with "
            r"options as Named\('gru', ...\)",
        ),
        (
            loop(delay=1, transform=Unnamed("Dense")),
            ValueError,
            r"an instance of Dense; declare it by the name of its class, transform='dense'",
        ),
        (one(size=0), ValueError, r"populations\['a'\].size: expected at least 1, got 0"),
        (loop(delay=-1), ValueError, r"connections\['a->a'\].delay: expected at least 0, got -1"),
        (loop(index=1), ValueError, r"connections\['a->a#1'\].index: expected 0, .*got 1"),
        (
            GraphSpec((), (Connection(src="a", dst="b"),)),
            ValueError,
            r"connections\['a->b'\].src: .*as source, got 'a'; there are no populations yet",
        ),
    ],
)
def test_what_cannot_be_written_raises_with_its_place(spec, error, message):
    with pytest.raises(error, match=message):
        spec_to_dict(spec)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"a": 1}, TypeError, r"'a': attributes\['a'\]: expected .*got .*set"),
        ({"a": float("inf")}, ValueError, r"attributes\['a'\]: expected a finite number, got inf"),
        ({1: 2}, TypeError, r"attributes: expected names of type str, got 1"),
        ((("b", 1), ("b", 2)), ValueError, r"attributes: expected each name once, got 'b' twice"),
        ("ab", TypeError, r"attributes: expected a dict, got 'ab'"),
    ],
)
def test_attributes_that_are_no_plain_data_raise(given, error, message):
    given = {"a": {1}} if given == {"a": 1} else given
    with pytest.raises(error, match=message):
        one(attributes=given)


# ---- what is refused on reading ------------------------------------------------------------------


GOOD = {
    "format": "nnx-graph",
    "version": 1,
    "populations": [
        {"name": "eye", "size": 2, "input_from": "x", "activation": "tanh"},
        {"name": "arm", "size": 1, "output_to": "y", "compute": "gru"},
    ],
    "connections": [
        {"src": "eye", "dst": "arm", "delay": 1},
        {"src": "eye", "dst": "arm", "transform": {"name": "dense", "options": {}}},
    ],
}


def changed(*path, to):
    """The good data with another value at a path."""
    data = copy.deepcopy(GOOD)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return data


def without(*path):
    data = copy.deepcopy(GOOD)
    place = data
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return data


def test_data_written_by_hand_is_read():
    spec = spec_from_dict(GOOD)
    assert [c.name for c in spec.connections] == ["eye->arm", "eye->arm#1"]  # numbered as declared
    assert spec.connections[1].transform == Named("dense")
    assert PopulationGraph.from_dict(GOOD, nnx.Rngs(0)).spec == spec


P, C = "populations", "connections"


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([], TypeError, r"spec_from_dict: expected a dict, got list; for JSON, use spec_from_json"),
        (without("format"), ValueError, r"format: expected 'nnx-graph', got None; pass what"),
        (changed("format", to="nx"), ValueError, r"format: expected 'nnx-graph', got 'nx'"),
        (changed("version", to=2), ValueError, r"version: expected 1, got 2; update nnx-graph"),
        (changed("version", to="1"), ValueError, r"version: expected 1, got '1'; write"),
        (changed("version", to=True), ValueError, r"version: expected 1, got True"),
        (changed("edges", to=[]), ValueError, r"name of a field, got 'edges'; there are 'format'"),
        (without(C), TypeError, r"connections: expected a list of dicts, got None"),
        (changed(P, to={"a": 1}), TypeError, r"populations: expected a list of dicts, got {"),
        (changed(P, 1, to="arm"), TypeError, r"populations\[1\]: expected a dict of fields, got"),
        (without(P, 1, "size"), ValueError, r"populations\[1\]: expected the field 'size', got"),
        (
            changed(P, 0, "sizes", to=2),
            ValueError,
            r"populations\[0\]: expected the name of a field, got 'sizes'; did you mean 'size'\?",
        ),
        (
            changed(P, 0, "size", to=2.0),
            TypeError,
            r"populations\[0\].size: expected an int, got 2",
        ),
        (changed(P, 0, "size", to=True), TypeError, r"populations\[0\].size: expected an int"),
        (changed(P, 0, "size", to=0), ValueError, r"populations\[0\].size: expected at least 1"),
        (changed(P, 0, "name", to=7), TypeError, r"populations\[0\].name: expected a str, got 7"),
        (changed(P, 0, "name", to=""), ValueError, r"populations\[0\].name: .*one character"),
        (changed(P, 0, "name", to="a#1"), ValueError, r"populations\[0\].name: .*without '#'"),
        (
            changed(P, 0, "name", to="arm"),
            ValueError,
            r"populations\[1\].name: expected a new population name, got 'arm', which exists",
        ),
        (
            changed(P, 0, "input_from", to=3),
            TypeError,
            r"populations\[0\].input_from: expected a str or None, got 3 of type int",
        ),
        (
            changed(P, 0, "input_from", to=""),
            ValueError,
            r"populations\[0\].input_from: .*one char",
        ),
        (
            changed(P, 0, "output_to", to="y"),
            ValueError,
            r"populations\[1\].output_to: .*an entry of its own, got 'y', which holds .*'eye'",
        ),
        (
            changed(P, 0, "activation", to="tahn"),
            ValueError,
            r"populations\[0\].activation: expected the name of an activation, got 'tahn'; did you "
            r"mean .*'tanh'",
        ),
        (
            changed(P, 0, "activation", to=1),
            TypeError,
            r"populations\[0\].activation: expected the name of an activation or None, got 1",
        ),
        (
            changed(P, 1, "compute", to="gruu"),
            ValueError,
            r"populations\[1\].compute: expected the name of a module, got 'gruu'; did you mean",
        ),
        (
            changed(P, 1, "compute", to=["gru"]),
            TypeError,
            r"populations\[1\].compute: expected the name of a module, or a dict of its name and "
            r"options or None, got",
        ),
        (
            changed(P, 1, "compute", to={"name": "gru", "option": {}}),
            ValueError,
            r"populations\[1\].compute: expected 'name' and 'options', got 'option'; did you mean",
        ),
        (
            changed(P, 1, "compute", to={"name": 3}),
            TypeError,
            r"populations\[1\].compute.name: expected a str, got 3",
        ),
        (
            changed(P, 1, "compute", to={"name": "gru", "options": {"a": {}}}),
            TypeError,
            r"populations\[1\].compute.options\['a'\]: expected None, a bool, int, float or str",
        ),
        (
            changed(P, 1, "attributes", to=[1]),
            TypeError,
            r"populations\[1\].attributes: expected a dict, got",
        ),
        (
            changed(P, 1, "attributes", to={"at": float("nan")}),
            ValueError,
            r"populations\[1\].attributes\['at'\]: expected a finite number, got nan",
        ),
        (
            changed("attributes", to={"at": {}}),
            TypeError,
            r"spec_from_dict: attributes\['at'\]: expected None, a bool",
        ),
        (
            changed(C, 1, "src", to="eyes"),
            ValueError,
            r"connections\[1\].src: .*as source, got 'eyes'; did you mean 'eye'",
        ),
        (
            changed(C, 1, "dst", to=None),
            TypeError,
            r"connections\[1\].dst: expected a str, got Non",
        ),
        (without(C, 1, "dst"), ValueError, r"connections\[1\]: expected the field 'dst', got"),
        (
            changed(C, 1, "delay", to=-1),
            ValueError,
            r"connections\[1\].delay: .*at least 0, got -1",
        ),
        (changed(C, 1, "delay", to="1"), TypeError, r"connections\[1\].delay: .*got '1' of type s"),
        (
            changed(C, 1, "index", to=0),
            ValueError,
            r"connections\[1\].index: expected 1, the number of connections from 'eye' to 'arm'",
        ),
        (
            changed(C, 1, to=None),
            TypeError,
            r"connections\[1\]: expected a dict of fields, got Non",
        ),
    ],
)
def test_bad_data_raises_with_its_place(data, error, message):
    with pytest.raises(error, match=message):
        spec_from_dict(data)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("graph.json", ValueError, r"spec_from_json: expected JSON, got 'graph.json': .*its text"),
        ('{"a": 1, "a": 2}', ValueError, r"each key of an object once, got 'a' twice"),
        ("[1, 2]", TypeError, r"spec_from_dict: expected a dict, got list"),
        (GOOD, TypeError, r"spec_from_json: expected JSON as a str, got dict"),
        (
            json.dumps(changed(P, 0, "attributes", to={"a": float("inf")})),
            ValueError,
            r"populations\[0\].attributes\['a'\]: expected a finite number, got inf",
        ),
    ],
)
def test_bad_json_raises(text, error, message):
    with pytest.raises(error, match=message):
        spec_from_json(text)


@pytest.mark.parametrize(
    ("modules", "error", "message"),
    [
        (
            {},
            ValueError,
            r"from_spec: compute of 'a': expected an instance of LeakyProbe, got none; "
            r"pass modules={'a': ...}",
        ),
        (
            {"a": LeakyProbe(1, 1), "a->a": LeakyProbe(1, 1)},
            ValueError,
            r"from_spec: modules: .*whose module has no name, got 'a->a'; there are 'a'",
        ),
        ({"a": LeakyProbe}, TypeError, r"compute of 'a': expected a StatefulModule, got the class"),
        ({"a": LeakyProbe(1, 2)}, ValueError, r"compute of 'a': expected output of shape"),
    ],
)
def test_modules_that_do_not_fit_the_declaration_raise(modules, error, message):
    spec = GraphSpec(
        one(compute=Unnamed("LeakyProbe")).populations, (Connection(src="a", dst="a", delay=1),)
    )
    with pytest.raises(error, match=message):
        PopulationGraph.from_spec(spec, nnx.Rngs(0), modules)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (GOOD, r"from_spec: expected a declaration, a GraphSpec, got dict; .*use from_dict"),
        (json.dumps(GOOD), r"expected a declaration, a GraphSpec, got str; .*use from_json"),
        (PopulationGraph(nnx.Rngs(0)), r"a GraphSpec, got PopulationGraph; pass its spec"),
        (None, r"a GraphSpec, got NoneType; pass the spec of a graph"),
        (GraphSpec(("a",), ()), r"populations\[0\]: expected a Population, got 'a' of type str"),
        (
            GraphSpec((), (("a", "b"),)),
            r"connections\[0\]: expected a Connection, got \('a', 'b'\)",
        ),
    ],
)
def test_what_is_no_declaration_raises_with_the_way_from_there(spec, message):
    with pytest.raises(TypeError, match=message):
        PopulationGraph.from_spec(spec, nnx.Rngs(0))


@pytest.mark.parametrize("write", [spec_to_dict, spec_to_networkx])
def test_graph_in_place_of_its_declaration_raises(write):
    graph = PopulationGraph(nnx.Rngs(0))
    with pytest.raises(TypeError, match=rf"{write.__name__}: .*got PopulationGraph; pass its spec"):
        write(graph)


@pytest.mark.parametrize(
    ("population", "connection", "error", "message"),
    [
        ({"sign": "plus"}, {}, ValueError, r"populations\[0\].sign: expected the sign 'excit"),
        ({}, {"connectivity": LowRank(2)}, ValueError, r"connections\[0\]: LowRank: .*at most 1"),
        ({}, {"connectivity": "one-to-one"}, TypeError, r"connections\[0\]: .*pass one of the rec"),
        ({}, {"frozen": 1}, TypeError, r"connections\[0\]: expected frozen=True or False, got 1"),
        ({}, {"frozen": True, "share": "w"}, ValueError, r"connections\[0\]: .*leave frozen out"),
        (
            {"sign": "inhibitory"},
            {"transform": Named("gru")},
            ValueError,
            r"connections\[0\]: expected a linear map from the inhibitory population 'a'",
        ),
    ],
)
def test_weights_that_calls_could_not_ask_for_raise_with_their_place(
    population, connection, error, message
):
    spec = GraphSpec(
        one(**population).populations, (Connection(src="a", dst="a", delay=1, **connection),)
    )
    with pytest.raises(error, match=message):
        PopulationGraph.from_spec(spec, nnx.Rngs(0))


def test_declaration_that_calls_could_not_make_raises():
    twice = GraphSpec(one().populations * 2, ())
    with pytest.raises(ValueError, match=r"from_spec: populations\[1\].name: .*'a', which exists"):
        PopulationGraph.from_spec(twice, nnx.Rngs(0))
    cycle = GraphSpec((*one().populations, Population(name="b", size=1)), loop().connections)
    cycle = GraphSpec(
        cycle.populations, (*cycle.connections, Connection(src="b", dst="b", delay=1))
    )
    with pytest.raises(ValueError, match="delay-0 cycle a -> a"):
        PopulationGraph.from_spec(cycle, nnx.Rngs(0))
