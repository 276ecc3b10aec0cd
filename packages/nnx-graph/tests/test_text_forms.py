"""Mermaid and Graphviz text, whatever the names are."""

import re

import pytest
from flax import nnx
from nnx_graph import (
    BlockSparse,
    Connection,
    DistanceDependent,
    FixedProbability,
    LearnableDelay,
    LowRank,
    Mask,
    OneToOne,
    PopulationGraph,
)
from nnx_graph._looking._marks import connection_label

from ._pictures import NASTY


@pytest.fixture
def graph():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("eye", 6, input_from="vision")
    graph.add_population("core", 16)
    graph.add_output("hand.left", 2)
    graph.connect("eye", "core", delay=3)
    graph.connect("core", "core", delay=1)
    graph.connect("core", "hand.left")
    graph.connect("hand.left", "core", delay=2)
    return graph


@pytest.fixture
def nasty():
    """Populations with all the names, in a ring; the sizes tell them apart."""
    graph = PopulationGraph(nnx.Rngs(0))
    for number, name in enumerate(NASTY):
        if number % 3 == 0:
            graph.add_input(name, number + 1, input_from=name)
        elif number % 3 == 1:
            graph.add_output(name, number + 1)
        else:
            graph.add_population(name, number + 1)
    for number, name in enumerate(NASTY):
        graph.connect(NASTY[number - 1], name, delay=number)
    return graph


def test_mermaid_of_a_small_graph(graph):
    assert graph.to_mermaid() == (
        "flowchart LR\n"
        '    p0(["eye (6)"])\n'
        '    p1["core (16)"]\n'
        '    p2{{"hand.left (2)"}}\n'
        "    p0 -->|3| p1\n"
        "    p1 -.->|1| p1\n"
        "    p1 --> p2\n"
        "    p2 -.->|2| p1\n"
    )


def test_dot_of_a_small_graph(graph):
    assert graph.to_dot() == (
        "digraph PopulationGraph {\n"
        "    rankdir=LR;\n"
        '    "eye" [label="eye (6)", shape=ellipse];\n'
        '    "core" [label="core (16)", shape=box];\n'
        '    "hand.left" [label="hand.left (2)", shape=hexagon];\n'
        '    "eye" -> "core" [label="3"];\n'
        '    "core" -> "core" [label="1", style=dashed, constraint=false];\n'
        '    "core" -> "hand.left";\n'
        '    "hand.left" -> "core" [label="2", style=dashed, constraint=false];\n'
        "}\n"
    )


@pytest.fixture
def bound():
    """Signs, bound weights, delays of all kinds and an aggregation."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("eye", 4, input_from="vision")
    graph.add_population("exc", 4, sign="excitatory", aggregate="max")
    graph.add_population("inh", 4, sign="inhibitory")
    graph.add_output("arm", 2)
    graph.connect("eye", "exc", connectivity=FixedProbability(0.25))
    graph.connect("exc", "inh", connectivity=OneToOne(), delay=2.5)
    graph.connect("inh", "exc", delay=[1, 2, 3, 4])
    graph.connect("inh", "arm", share='o|"_')
    graph.connect("exc", "arm", share='o|"_', delay=LearnableDelay(1, 8))
    graph.connect("exc", "exc", frozen=True, delay=1)
    return graph


def test_mermaid_shows_signs_bound_weights_delays_and_aggregations(bound):
    assert bound.to_mermaid() == (
        "flowchart LR\n"
        '    p0(["eye (4)"])\n'
        '    p1["exc (4, max)"]\n'
        '    p2["inh (4)"]\n'
        '    p3{{"arm (2)"}}\n'
        '    p0 -->|"p=0.25"| p1\n'
        '    p1 -->|"2.5, one-to-one"| p2\n'
        '    p2 -.-o|"1-4"| p1\n'
        '    p2 --o|"=o#124;#34;#95;"| p3\n'
        '    p1 -->|"1..8, =o#124;#34;#95;"| p3\n'
        '    p1 -.->|"1, frozen"| p1\n'
    )


def test_dot_shows_signs_bound_weights_delays_and_aggregations(bound):
    assert bound.to_dot() == (
        "digraph PopulationGraph {\n"
        "    rankdir=LR;\n"
        '    "eye" [label="eye (4)", shape=ellipse];\n'
        '    "exc" [label="exc (4, max)", shape=box];\n'
        '    "inh" [label="inh (4)", shape=box];\n'
        '    "arm" [label="arm (2)", shape=hexagon];\n'
        '    "eye" -> "exc" [label="p=0.25", arrowhead=empty];\n'
        '    "exc" -> "inh" [label="2.5, one-to-one"];\n'
        '    "inh" -> "exc" [label="1-4", style=dashed, constraint=false, arrowhead=tee];\n'
        '    "inh" -> "arm" [label="=o|\\"_", arrowhead=tee];\n'
        '    "exc" -> "arm" [label="1..8, =o|\\"_"];\n'
        '    "exc" -> "exc" [label="1, frozen", style=dashed, constraint=false];\n'
        "}\n"
    )


@pytest.mark.parametrize(
    ("connectivity", "label"),
    [
        (DistanceDependent(0.1), "distance 0.1"),
        (BlockSparse(2), "2 blocks"),
        (LowRank(3), "rank 3"),
        (Mask([[True]]), "mask"),
    ],
)
def test_each_connectivity_has_a_label(connectivity, label):
    connection = Connection(src="a", dst="b", connectivity=connectivity)
    assert connection_label(connection) == label


def test_finalizing_changes_neither_text(graph):
    before = graph.to_mermaid(), graph.to_dot()
    graph.finalize()
    assert (graph.to_mermaid(), graph.to_dot()) == before


def test_mermaid_labels_have_no_markup_and_read_as_the_names(nasty):
    lines = nasty.to_mermaid().splitlines()
    assert lines[0] == "flowchart LR"
    nodes, arrows = lines[1 : len(NASTY) + 1], lines[len(NASTY) + 1 :]
    names = []
    label = r'"((?:[\w .-]|#\d+;)*) \((\d+)\)"'
    shapes = (rf"\(\[{label}\]\)", rf"{{{{{label}}}}}", rf"\[{label}\]")
    for number, line in enumerate(nodes):
        match = re.fullmatch(rf"    p{number}{shapes[number % 3]}", line)
        assert match, line
        assert int(match[2]) == number + 1
        name = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), match[1])
        names.append(name.replace("\\n", "\n").replace("\\t", "\t").replace("\\x00", "\x00"))
    assert names == list(NASTY)
    assert len(arrows) == len(NASTY)
    for line in arrows:
        assert re.fullmatch(r"    p\d+ (-->|-\.->)(\|\d+\|)? p\d+", line), line


def test_mermaid_encodes_what_markdown_could_read():
    graph = PopulationGraph(nnx.Rngs(0))
    for name in ("body_0", "v1.left-2", "_em_", "1. one", "a__b"):
        graph.add_output(name, 1)
    labels = re.findall(r'"(.*) \(1\)"', graph.to_mermaid())
    assert labels == ["body_0", "v1.left-2", "#95;em#95;", "1#46; one", "a#95;#95;b"]


QUOTED = r'"((?:[^"\\\n]|\\[^\n])*)"'  # a quoted string of DOT on one line


def test_dot_follows_the_grammar_and_names_nodes_apart(nasty):
    first, second, *body, last = nasty.to_dot().splitlines()
    assert (first, second, last) == ("digraph PopulationGraph {", "    rankdir=LR;", "}")
    nodes, edges = body[: len(NASTY)], body[len(NASTY) :]
    ids = []
    for number, line in enumerate(nodes):
        options = rf"\[label={QUOTED}, shape=(?:ellipse|box|hexagon)\]"
        match = re.fullmatch(rf"    {QUOTED} {options};", line)
        assert match, line
        assert match[2].endswith(f" ({number + 1})")
        ids.append(match[1])
    assert len(set(ids)) == len(NASTY)
    assert [plain_text(name) for name in ids] == list(NASTY)
    assert len(edges) == len(NASTY)
    for number, line in enumerate(edges):
        options = r'(?: \[(?:label="\d+")?(?:, )?(?:style=dashed, constraint=false)?\])?'
        match = re.fullmatch(rf"    {QUOTED} -> {QUOTED}{options};", line)
        assert match, line
        assert (match[1], match[2]) == (ids[number - 1], ids[number])


def plain_text(quoted):
    """What a quoted string stands for where escapes are read, as in a label."""
    known = {"n": "\n", "t": "\t", "x00": "\x00"}
    return re.sub(r"\\(n|t|x00|.)", lambda found: known.get(found[1], found[1]), quoted)


def test_dot_labels_show_entities_as_they_are_written(nasty):
    assert 'label="$x$ &amp; &amp;lt; %% (12)"' in nasty.to_dot()
