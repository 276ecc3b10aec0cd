"""Summaries: the numbers agree with the graph, the tables with the numbers."""

import dataclasses
import io
import sys

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from nnx_graph import LearnableDelay, LowRank, OneToOne, PopulationGraph
from nnx_stateful import GRU, Dense, initial_state

from ._pictures import NASTY, star


def declared():
    """A graph with custom modules, one of which is used twice."""
    rngs = nnx.Rngs(0)
    shared = Dense(3, 3, rngs)
    graph = PopulationGraph(rngs)
    graph.add_input("eye", 6, input_from="vision", activation=jnp.tanh)
    graph.add_population("core", 3, activation=lambda x: 2 * x)
    graph.add_population("memory", 3, compute=GRU(3, 3, rngs), activation="swish")
    graph.add_output("hand", 2)
    graph.connect("eye", "core", delay=2)
    graph.connect("core", "memory", transform=shared)
    graph.connect("memory", "core", transform=shared, delay=5)
    graph.connect("memory", "hand")
    graph.connect("memory", "hand", delay=1, transform="lru")
    return graph


@pytest.fixture(scope="module")
def graph():
    graph = declared()
    graph.finalize()
    return graph


def size(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def printed_by_rich(what, width):
    console = pytest.importorskip("rich.console").Console(width=width, file=io.StringIO())
    console.print(what)
    return console.file.getvalue()


def test_populations_are_described(graph):
    eye, core, memory, hand = graph.summary().populations
    assert dataclasses.asdict(eye) == {
        "name": "eye",
        "size": 6,
        "role": "input",
        "activation": "tanh",
        "compute": None,
        "sign": None,
        "aggregate": None,
        "level": 0,
        "cycle": None,
        "parameters": 0,
        "buffer_bytes": 2 * 6 * 4,
    }
    assert [p.role for p in (core, memory, hand)] == ["internal", "internal", "output"]
    assert [p.activation for p in (core, memory, hand)] == ["<lambda>", "swish", None]
    assert [p.cycle for p in (core, memory, hand)] == [0, 0, None]
    assert (memory.compute, memory.parameters) == ("GRU", size(nnx.state(GRU(3, 3, nnx.Rngs(0)))))


def test_connections_are_described(graph):
    first, _, _, default, custom = graph.summary().connections
    assert dataclasses.asdict(first) == {
        "name": "eye->core",
        "src": "eye",
        "dst": "core",
        "delay": 2,
        "transform": None,
        "connectivity": None,
        "share": None,
        "frozen": False,
        "shape": (6, 3),
        "parameters": 6 * 3 + 3,
    }
    assert (default.name, default.transform) == ("memory->hand", None)
    assert (custom.name, custom.transform) == ("memory->hand#1", "lru")
    view = graph.connection("memory", "hand", 1)
    assert custom.parameters == size(nnx.state(view.transform, nnx.Param))


def test_totals_count_a_shared_module_once_and_what_is_stored(graph):
    summary = graph.summary()
    each = [*summary.populations, *summary.connections]
    dense = 3 * 3 + 3
    assert summary.parameters == sum(row.parameters for row in each) - dense
    assert summary.stored_parameters == size(nnx.state(graph, nnx.Param))
    buffers = initial_state(graph, 1)["buffers"]
    assert summary.buffer_bytes == sum(leaf.nbytes for leaf in jax.tree.leaves(buffers))


def test_bound_weights_are_counted_as_they_are_trained():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("eye", 6, input_from="vision")
    graph.add_population("core", 6, sign="inhibitory", activation="relu")
    graph.add_output("hand", 3)
    graph.connect("eye", "core", connectivity=OneToOne())
    graph.connect("eye", "hand", connectivity=LowRank(2))
    graph.connect("eye", "hand", frozen=True)
    graph.connect("core", "hand", delay=1, share="both")
    graph.connect("eye", "hand", delay=2, share="both")
    graph.finalize()
    summary = graph.summary()
    rows = [(c.connectivity, c.share, c.frozen, c.parameters) for c in summary.connections]
    assert rows == [
        ("one-to-one", None, False, 6 + 6),
        ("low-rank", None, False, 6 * 2 + 2 * 3 + 3),
        (None, None, True, 0),
        (None, "both", False, 6 * 3 + 3),
        (None, "both", False, 6 * 3 + 3),
    ]
    assert summary.populations[1].sign == "inhibitory"
    assert summary.parameters == 12 + 21 + 21
    assert summary.stored_parameters == size(nnx.state(graph, nnx.Param))
    for word in ("inhibitory", "one-to-one", "frozen", "both"):
        assert word in str(summary)


def test_aggregations_and_other_delays_are_shown_where_there_are_some(graph):
    assert "aggregate" not in str(graph.summary())
    other = PopulationGraph(nnx.Rngs(0))
    other.add_input("eye", 2, input_from="vision")
    other.add_output("hand", 2, aggregate="max")
    other.connect("eye", "hand", delay=[1, 4])
    other.connect("eye", "hand", delay=LearnableDelay(1, 8))
    other.connect("eye", "hand", delay=2.5)
    other.connect("eye", "hand", delay=3)
    summary = other.summary()
    assert [p.aggregate for p in summary.populations] == [None, "max"]
    assert [c.delay for c in summary.connections] == [(1, 4), LearnableDelay(1, 8), 2.5, 3]
    lines = [line.split() for line in str(summary).splitlines()]
    assert lines[2][:4] == ["population", "size", "role", "aggregate"]
    assert lines[4][:4] == ["hand", "2", "output", "max"]
    assert [line[1] for line in lines[7:11]] == ["1-4", "1..8", "2.5", "3"]


def test_parameters_of_delays_aggregations_and_shared_modules_are_counted():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("eye", 3, input_from="vision")
    graph.add_input("ear", 3, input_from="sound")
    graph.add_output("hand", 2, aggregate="gated")
    for source in ("eye", "ear"):
        graph.connect(source, "hand", transform="dense", share="module")
        graph.connect(source, "hand", delay=LearnableDelay(1, 3, per_unit=True), share="map")
    graph.connect("eye", "hand", delay=LearnableDelay(1, 4), frozen=True)
    graph.finalize()
    summary, dense = graph.summary(), 3 * 2 + 2
    assert [c.parameters for c in summary.connections] == [dense, dense + 3] * 2 + [1]
    (gate,) = [p.parameters for p in summary.populations if p.aggregate]
    assert gate == 2 * 2 + 5 * 2
    assert summary.parameters == 2 * dense + 3 + 3 + 1 + gate
    assert summary.stored_parameters == size(nnx.state(graph, nnx.Param))


def test_levels_are_those_of_the_ring_buffers():
    graph = star(3)
    graph.finalize()
    longest = {c.src: 0 for c in graph.spec.connections}
    for connection in graph.spec.connections:
        longest[connection.src] = max(longest[connection.src], connection.delay)
    rings = {
        f"level{p.level}_length{longest[p.name]}"
        for p in graph.summary().populations
        if p.name in longest
    }
    assert rings == set(initial_state(graph, 1)["buffers"])


def test_padding_is_told():
    graph = PopulationGraph(nnx.Rngs(0))
    for number in range(12):
        graph.add_input(f"in{number}", 3 + number % 2, input_from=f"x{number}")
        graph.add_output(f"out{number}", 2)
        graph.connect(f"in{number}", f"out{number}")
    graph.finalize()
    summary = graph.summary()
    assert summary.parameters == 6 * (3 * 2 + 2) + 6 * (4 * 2 + 2)
    assert summary.stored_parameters == size(nnx.state(graph, nnx.Param))
    assert summary.stored_parameters == 12 * (4 * 2 + 2) > 108
    assert f"108 parameters, {summary.stored_parameters} stored;" in str(summary)


def test_summary_before_finalize_has_what_is_declared(graph):
    early, late = declared().summary(), graph.summary()
    assert early.connections[0] == late.connections[0]
    assert early.connections[1] == dataclasses.replace(late.connections[1], parameters=None)
    unknown = {"level": None, "parameters": None, "buffer_bytes": None}
    expected = tuple(dataclasses.replace(row, **unknown) for row in late.populations)
    assert early.populations == expected
    assert (early.parameters, early.stored_parameters, early.buffer_bytes) == (None, None, None)
    assert "not finalized" in str(early)


def test_summary_of_an_empty_graph_says_so():
    text = str(PopulationGraph(nnx.Rngs(0)).summary())
    assert text.startswith("PopulationGraph: 0 populations (0 inputs, 0 outputs), 0 connections")


def test_text_has_one_aligned_line_for_each_row():
    graph = PopulationGraph(nnx.Rngs(0))
    for number in range(300):
        graph.add_input(f"population{number}", number + 1, input_from=f"x{number}")
    lines = str(graph.summary()).splitlines()
    title, *rows = lines[2:303]
    assert len(rows) == 300
    ends = {title.index("size") + len("size")}
    assert {row.rindex("  input") for row in rows} == ends
    assert [row.split()[0] for row in rows] == list(graph.spec.names)


def test_text_shows_names_of_any_characters_on_one_line():
    graph = PopulationGraph(nnx.Rngs(0))
    for name in (*NASTY, "脑", "e\u0301"):
        graph.add_output(name, 1)
    text = str(graph.summary())
    assert len(text.splitlines()) == len(NASTY) + 7
    assert "two\\nlines" in text
    rows = {line.split()[0]: line for line in text.splitlines() if line.endswith("output")}
    assert len(rows["脑"]) + 1 == len(rows["e\u0301"]) - 1 == len(rows["p0"])


def test_rich_prints_the_same_cells(graph):
    summary = graph.summary()
    shown = printed_by_rich(summary, 120)
    assert set(str(summary).split()) <= set(shown.split())


def test_rich_takes_names_literally_in_a_narrow_terminal():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_output("[bold]x[/bold]", 1)
    assert "[bold]x[/bold]" in printed_by_rich(graph.summary(), 40)


def test_text_needs_no_rich(monkeypatch, graph):
    monkeypatch.setitem(sys.modules, "rich", None)
    assert repr(graph.summary()) == str(graph.summary())
