"""Public functions of the package with arguments that are good, and values that are mostly bad."""

import copy
import functools
import itertools
import json
import tempfile
from collections.abc import Hashable
from pathlib import Path

import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import networkx
import numpy as np
from flax import nnx
from hypothesis import strategies as st
from nnx_graph import (
    AttentionPooling,
    BlockSparse,
    Connection,
    DistanceDependent,
    FixedProbability,
    GatedSum,
    GraphSpec,
    LearnableDelay,
    Limits,
    LowRank,
    Mask,
    Named,
    OneToOne,
    Population,
    PopulationGraph,
    Unnamed,
    draw_activity,
    draw_graph,
    read_graphml,
    register_activation,
    register_aggregation,
    register_module,
    spec_from_dict,
    spec_from_edges,
    spec_from_json,
    spec_from_networkx,
    spec_to_dict,
    spec_to_json,
    spec_to_networkx,
    with_graph,
    write_graphml,
)
from nnx_graph.testing import LeakyProbe

matplotlib.use("Agg")

LOOP = []
LOOP.append(LOOP)
DEEP = [1]
for _ in range(500):
    DEEP = [DEEP]

NUMBERS = (0, 1, 2, 3, -1, 7, 2.0, 2.5, -0.5, 1e308, 10**12, 10**30, 10**5000, -(10**5000))
ODD_NUMBERS = (float("nan"), float("inf"), -float("inf"), True, False, 1 + 2j)
TEXTS = ("", "a", "b", "out", "a->b", "a#1", "\ud800", "\0", "tanh", "gru", "sum", "mean", b"a")
ARRAYS = (
    np.array(2),
    np.float32(1.5),
    np.zeros((2, 2)),
    np.ones(2),
    np.full((2, 2), np.nan),
    np.zeros((0, 2)),
    np.array(["a"]),
    np.array([None, {}], object),
    jnp.arange(2),
    jnp.zeros((1, 2), bool),
)
RECORDS = (
    LearnableDelay(1, 2),
    OneToOne(),
    LowRank(1),
    Named("gru"),
    Named("nothing"),
    Unnamed("Probe"),
    Population(name="a", size=1),
    Connection(src="a", dst="b"),
    GraphSpec((), ()),
    Limits(),
    LeakyProbe(2, 2),
    LeakyProbe,
    nnx.Rngs(0),
    jnp.tanh,
    len,
    object(),
    object,
)
HOLDERS = ((), [], [1, [2, "a"]], ["a", "b"], [(0, 1)], {}, {"a": 1}, {1: "a"}, {"a"}, range(2))
OTHERS = (None, LOOP, DEEP, slice(2), slice("a", None), iter(()), ..., NotImplemented)

SCALARS = (*NUMBERS, *ODD_NUMBERS, *TEXTS)
scalars = st.sampled_from(SCALARS)
single = st.sampled_from((*SCALARS, *SCALARS, *ARRAYS, *RECORDS, *HOLDERS, *OTHERS))
junk = st.one_of(  # mostly of one draw, which is what takes the time
    single,
    single,
    single,
    single,
    st.lists(scalars, max_size=3),
    st.dictionaries(st.sampled_from(("a", "b", "kind", "name", "options")), scalars, max_size=2),
)


def base_graph():
    """A graph under construction, to which a call adds something."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 2, input_from="x")
    graph.add_population("b", 2)
    graph.add_output("out", 2, output_to="y")
    return graph


def finished_graph():
    """A finalized graph that interventions, views and pictures are made of."""
    graph = base_graph()
    graph.connect("a", "b", delay=LearnableDelay(1, 2))
    graph.connect("b", "out", connectivity=LowRank(1))
    graph.connect("out", "b", delay=1, transform=LeakyProbe(2, 2))
    graph.finalize()
    return graph


DATA = {
    "format": "nnx-graph",
    "version": 1,
    "attributes": {"species": "fly", "at": [1, 2.5]},
    "populations": [
        {"name": "a", "size": 2, "input_from": "x", "sign": "excitatory", "activation": "relu"},
        {"name": "b", "size": 2, "compute": {"name": "lif", "options": {}}},
        {"name": "out", "size": 2, "output_to": "y", "aggregate": "mean", "attributes": {"k": 1}},
    ],
    "connections": [
        {"src": "a", "dst": "b", "delay": [1, 2.5], "connectivity": {"kind": "one-to-one"}},
        {
            "src": "b",
            "dst": "out",
            "delay": {"kind": "learnable-delay", "minimum": 1, "maximum": 3},
        },
        {"src": "b", "dst": "b", "delay": 2, "share": "w", "transform": "gru", "index": 0},
        {"src": "a", "dst": "out", "frozen": True, "connectivity": {"kind": "mask", "entries": []}},
    ],
}
DATA["connections"][3]["connectivity"]["entries"] = [[True, False], [True, True]]


@st.composite
def changed_data(draw):
    """The data of a graph with up to two of their parts replaced, removed or given twice."""
    data = copy.deepcopy(DATA)
    own = {id(data), *(id(part) for name in ("populations", "connections") for part in data[name])}
    own |= {id(part) for part in data.values()}  # what is put there belongs to others, too
    for _ in range(draw(st.integers(1, 2))):
        parent, place = data, None
        while isinstance(parent, dict | list) and parent:
            keys = sorted(parent, key=str) if isinstance(parent, dict) else range(len(parent))
            place = draw(st.sampled_from(list(keys)))
            if not isinstance(parent[place], dict | list) or draw(st.integers(0, 2)) == 0:
                break
            if not parent[place] or id(parent[place]) not in own:
                break
            parent = parent[place]
        if place is None:
            continue
        action = draw(st.sampled_from(("put", "put", "put", "remove", "add")))
        if action == "put":
            parent[place] = draw(junk)
        elif action == "remove":
            del parent[place]
        elif isinstance(parent, list):
            parent.append(draw(st.one_of(junk, st.just(parent[place]))))
        else:
            parent[draw(st.sampled_from(("kind", "name", "index", "zzz", 3)))] = draw(junk)
    return data


def evaluated(data):
    """Builds the graph of data that are good, without its arrays."""
    spec = spec_from_dict(data)
    return nnx.eval_shape(lambda: PopulationGraph.from_spec(spec, nnx.Rngs(0)))


@st.composite
def changed_text(draw, text):
    """A text with a few stretches cut out, doubled, or replaced."""
    pieces = ("", '"', "[", "{", "]", "}", ",", "<", ">", "&a;", "null", "NaN", "1e999", "\ud800")
    pieces += ("9" * 5000, "-1", "\0", "true", "<node/>", "]]>", "\\u", "a")
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        middle = draw(st.sampled_from((*pieces, text[start:end] * 2)))
        text = text[:start] + middle + text[end:]
    return text


def some(call, **good):
    """A strategy of calls with one to three of the arguments replaced by what is mostly bad."""

    def drawn(names, values):
        given = good | dict(zip(names, values, strict=False))
        return lambda: call(**given)

    names = [names for n in (1, 2, 3) for names in itertools.combinations(sorted(good), n)]
    return st.builds(drawn, st.sampled_from(names), st.tuples(junk, junk, junk))


def written(text):
    """Reads a text as a GraphML file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.graphml")
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return read_graphml(path)


def graphml_text():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.graphml")
        write_graphml(spec_from_dict(DATA), path)
        return path.read_text()


def through_networkx(node, edge, about, name, value):
    """Reads a graph of networkx with an attribute of any kind."""
    graph = spec_to_networkx(spec_from_dict(DATA))
    name = name if isinstance(name, Hashable) else "size"
    for attributes in (
        *((graph.nodes["b"],) if node is True else ()),
        *((graph.edges["b", "out", 0],) if edge is True else ()),
        *((graph.graph,) if about is True else ()),
    ):
        attributes[name] = value
    return spec_from_networkx(graph)


def write_all(population, connection, attributes):
    """Writes a declaration of records with fields of any kind in every form."""
    good = {"name": "a", "size": 2, "output_to": "y"}
    spec = GraphSpec(
        (Population(**(good | population)),),
        (Connection(**({"src": "a", "dst": "a", "delay": 1} | connection)),),
        attributes,
    )
    for write in (spec_to_dict, spec_to_json, spec_to_networkx):
        write(spec)


def field(record):
    """A field of a record with any value, as a dict."""
    return st.dictionaries(
        st.sampled_from(sorted(record.__dataclass_fields__)), junk, min_size=1, max_size=2
    )


def draw_and_close(draw, **arguments):
    try:
        return draw(**arguments)
    finally:
        plt.close("all")


def made(kind, rngs, **arguments):
    """Makes a module without its arrays."""
    if not isinstance(rngs, nnx.Rngs):
        return kind(rngs=rngs, **arguments)
    return nnx.eval_shape(lambda: kind(rngs=nnx.Rngs(0), **arguments))


def read_and_write(graph, part, value):
    """Writes a part of the weights of each connection that has it."""
    for connection in graph.spec.connections:
        parts = getattr(graph.connection(connection.src, connection.dst), part)
        for own in parts if isinstance(parts, tuple) else (parts,):
            own[...] = value


def entry_points():
    """Strategies of calls, by what they call."""
    graph = finished_graph()
    kinds = {"activation": None, "compute": None, "sign": None, "aggregate": None}
    text = json.dumps(DATA)
    adding = {
        "add_input": {"name": "new", "size": 2, "input_from": "z", **kinds},
        "add_population": {"name": "new", "size": 2, **kinds},
        "add_output": {"name": "new", "size": 2, "output_to": "z", **kinds},
        "connect": {
            "src": "a",
            "dst": "b",
            "transform": None,
            "delay": 1,
            "reciprocal": False,
            "connectivity": None,
            "frozen": False,
            "share": None,
        },
    }
    records = {
        LearnableDelay: {"minimum": 1, "maximum": 3, "initial": 2, "per_unit": True, "spread": 1},
        FixedProbability: {"probability": 0.5, "seed": 1},
        DistanceDependent: {"scale": 1, "peak": 1, "profile": "gaussian", "ring": True, "seed": 0},
        BlockSparse: {"blocks": 2, "probability": 0.5, "seed": 1},
        Mask: {"entries": [[1]]},
        LowRank: {"rank": 1},
        Limits: {"max_delay": 1, "max_file_bytes": 1},
        Population: {"name": "a", "size": 1, "attributes": {}, "aggregate": None},
        Connection: {"src": "a", "dst": "b", "delay": 1, "attributes": {}},
        GraphSpec: {"populations": (), "connections": (), "attributes": ()},
    }
    pooling = {"n_messages": 2, "size": 4, "rngs": nnx.Rngs(0), "heads": 2}
    acting = {
        "lesion": {"target": "a->b", "strength": 0.5, "rows": None, "steps": range(2)},
        "clamp": {"population": "b", "value": 0.5, "rows": [True], "steps": None},
        "stimulate": {"population": "b", "current": [1.0, 2.0], "rows": None, "steps": [True]},
        "record": {"populations": ["a"]},
        "connection": {"src": "a", "dst": "b", "index": 0},
    }
    edges = {
        "edges": [("a", "b"), ("b", "a", 2)],
        "sizes": 2,
        "names": None,
        "delay": 1,
        "activation": None,
        "aggregate": None,
        "sign": None,
        "connectivity": None,
        "frozen": False,
        "share": None,
        "inputs": ["a"],
        "outputs": {"b": "y"},
        "limits": None,
    }
    foreign = {"graph": networkx.path_graph(3), "size": 2, "delay": 1, "activation": None}
    foreign |= {"inputs": [0], "outputs": None, "limits": None}

    def method(name, make):
        return lambda **arguments: getattr(make(), name)(**arguments)

    points = {name: some(method(name, base_graph), **good) for name, good in adding.items()}
    points |= {name: some(method(name, lambda: graph), **good) for name, good in acting.items()}
    points |= {kind.__name__: some(kind, **good) for kind, good in records.items()}
    parts = st.sampled_from(("kernel", "bias", "factors", "delay", "delay_spread"))
    written_graph = finished_graph()
    points["view"] = st.builds(
        lambda part, value: lambda: read_and_write(written_graph, part, value), parts, junk
    )
    points["AttentionPooling"] = some(functools.partial(made, AttentionPooling), **pooling)
    del pooling["heads"]
    points["GatedSum"] = some(functools.partial(made, GatedSum), **pooling)
    points["PopulationGraph"] = some(
        PopulationGraph, rngs=nnx.Rngs(0), compute_dtype=None, limits=None
    )
    points["from_spec"] = some(
        lambda **arguments: PopulationGraph.from_spec(**arguments),
        spec=GraphSpec((), ()),
        rngs=nnx.Rngs(0),
        modules=None,
        limits=None,
    )
    points["spec_from_dict"] = changed_data().map(lambda data: lambda: spec_from_dict(data))
    points["finalize"] = changed_data().map(lambda data: lambda: evaluated(data))
    points["spec_from_json"] = changed_text(text).map(lambda text: lambda: spec_from_json(text))
    points["read_graphml"] = changed_text(graphml_text()).map(lambda text: lambda: written(text))
    points["spec_from_edges"] = some(spec_from_edges, **edges)
    points["spec_from_networkx"] = some(spec_from_networkx, **foreign) | some(
        through_networkx, node=True, edge=False, about=False, name="size", value=2
    )
    points["writing"] = st.builds(
        lambda *arguments: lambda: write_all(*arguments),
        field(Population),
        field(Connection),
        st.just(()) | junk,
    )
    points["register"] = st.builds(
        lambda register, name, function: lambda: register(name, function),
        st.sampled_from((register_activation, register_module, register_aggregation)),
        st.sampled_from(("", "tanh", "gru", "mean", "attention", None, 3, b"a", ["a"])),
        junk,
    )
    points["draw_graph"] = some(
        lambda **arguments: draw_and_close(draw_graph, **arguments), graph=graph, ax=None
    )
    points["draw_activity"] = some(
        lambda **arguments: draw_and_close(draw_activity, **arguments),
        recording={"populations/a": np.ones((3, 1, 2)), "populations/b": np.ones((3, 1, 2))},
        ax=None,
        populations=None,
        kind="trace",
        row=0,
    )
    points["with_graph"] = some(with_graph, network=graph, change=lambda g: g, path=None)
    points["initialize_state"] = some(graph.initialize_state, batch_size=2)
    state = graph.initialize_state(1)
    points["call"] = some(
        lambda x, entry: graph(state, {"x": entry} if x is True else x),
        x=True,
        entry=jnp.ones((1, 2)),
    )
    return points
