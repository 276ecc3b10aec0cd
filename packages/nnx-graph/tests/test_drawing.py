"""Pictures of graphs, where matplotlib is installed."""

import itertools
import sys

import pytest
from flax import nnx
from nnx_graph import LearnableDelay, PopulationGraph, draw_activity, draw_graph

from ._pictures import NASTY, new_figure, star


@pytest.fixture
def pyplot():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    yield pyplot
    pyplot.close("all")


def drawn(graph, **size):
    """Axes, and the texts on them, after rendering."""
    figure, canvas = new_figure(**size)
    ax = draw_graph(graph, figure.add_subplot())
    canvas.draw()
    return ax, [text.get_text() for text in ax.texts]


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_draw_graph_of_something_else_raises():
    with pytest.raises(TypeError, match="expected a PopulationGraph, got Linear"):
        draw_graph(nnx.Linear(1, 1, rngs=nnx.Rngs(0)), None)
    with pytest.raises(ValueError, match="at least one population, got none"):
        draw_graph(PopulationGraph(nnx.Rngs(0)), None)


@pytest.mark.parametrize("bodies", [1, 18])
def test_draw_graph_shows_every_population_and_delay_once(bodies):
    graph = star(bodies)
    ax, texts = drawn(graph)
    boxes = [text for text in texts if "(" in text]
    delays = [text for text in texts if text.isdigit()]
    assert sorted(boxes) == sorted(f"{p.name} ({p.size})" for p in graph.spec.populations)
    assert sorted(delays) == sorted(str(c.delay) for c in graph.spec.connections if c.delay)
    assert legend_of(ax) == ["input", "output", "forward", "leads back", "delay (steps)"]


def test_a_large_graph_has_a_legend_for_delays_and_a_line_for_a_pair():
    ax, texts = drawn(star(40))
    assert len(texts) == 42
    assert not [text for text in texts if text.isdigit()]
    kinds = ["input", "output", "forward", "leads back", "both ways"]
    assert legend_of(ax) == [*kinds, "delay 0", "delay 1", "delay 2", "delay 3"]
    lines = [patch for patch in ax.patches if not patch.get_fill()]
    assert len(lines) == 42  # 40 pairs, root to value, root to root


def test_many_delays_share_line_widths():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_output("a", 1)
    for delay in range(1, 71):
        graph.connect("a", "a", delay=delay)
        graph.add_input(f"in{delay}", 1, input_from=f"x{delay}")
        graph.connect(f"in{delay}", "a", delay=delay)
    ax, _ = drawn(graph)
    assert legend_of(ax)[-4:] == [
        "delay 1 to 17",
        "delay 18 to 35",
        "delay 36 to 52",
        "delay 53 to 70",
    ]


@pytest.mark.parametrize("bodies", [3, 18, 40])
def test_names_fit_into_their_boxes_and_the_figure(bodies):
    figure, canvas = new_figure()
    ax = draw_graph(star(bodies), figure.add_axes((0.0, 0.0, 1.0, 1.0)))
    canvas.draw()
    texts = [text for text in ax.texts if "(" in text.get_text()]
    names = [text.get_window_extent() for text in texts]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(names, 2))
    outlines = [p.get_window_extent() for p in ax.patches if p.get_zorder() == 3]
    for name in names:
        assert any(box.x0 <= name.x0 and name.x1 <= box.x1 for box in outlines)
    for box in outlines:
        assert all(figure.bbox.contains(*corner) for corner in box.corners())


def test_draw_without_axes_makes_a_figure_that_grows_with_the_graph(pyplot):
    small, large = star(2).draw(), star(40).draw()
    assert small.figure.number in pyplot.get_fignums()
    assert large.figure.get_figheight() > 2 * small.figure.get_figheight()
    assert small.texts[0].get_fontsize() == large.texts[0].get_fontsize() == 8.0


def test_draw_shows_a_graph_that_is_not_finalized_and_never_can_be():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 1, input_from="x")
    graph.add_output("b", 1)
    graph.connect("a", "b")
    graph.connect("b", "a")
    assert legend_of(drawn(graph)[0]) == ["input", "output", "forward", "leads back"]


def balanced():
    """A population without a sign, and one of each sign, in a cycle."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("eye", 3, input_from="x")
    graph.add_population("exc", 3, sign="excitatory", aggregate="max")
    graph.add_population("inh", 3, sign="inhibitory")
    graph.connect("eye", "exc")
    graph.connect("exc", "inh", connectivity="one-to-one", share="$w")
    graph.connect("inh", "exc", delay=[1, 2, 4], share="$w")
    graph.connect("exc", "exc", delay=LearnableDelay(1, 8), frozen=True)
    return graph


def heads_of(ax):
    return [patch for patch in ax.patches if patch.get_zorder() == 1 and hasattr(patch, "get_xy")]


def test_signs_are_told_by_the_heads_of_arrows():
    ax, _ = drawn(balanced())
    signs = ["either sign", "excitatory", "inhibitory"]
    assert sorted(legend_of(ax)[-3:]) == signs
    heads = heads_of(ax)
    assert sorted(len(head.get_xy()) - 1 for head in heads) == [3, 3, 3, 4]
    assert [head.get_facecolor()[:3] for head in heads].count((1.0, 1.0, 1.0)) == 1
    unsigned = drawn(star(2))[0]
    assert not set(signs) & set(legend_of(unsigned))


def test_signs_are_told_of_a_large_graph_at_both_ends_of_a_line():
    graph = balanced()
    for number in range(31):
        graph.add_population(f"p{number}", 1, sign="inhibitory")
        graph.connect("exc", f"p{number}")
        graph.connect(f"p{number}", "exc", delay=1)
    ax, texts = drawn(graph)
    corners = [len(head.get_xy()) - 1 for head in heads_of(ax)]
    assert corners.count(4) == 31 + 1
    assert corners.count(3) == 31 + 3
    assert len(texts) == 3 + 31  # names alone


def test_delays_and_bound_weights_are_written_beside_their_connections():
    ax, texts = drawn(balanced())
    assert "exc (3, max)" in texts
    assert {"one-to-one, =$w", "1-4, =$w", "1..8, frozen"} <= set(texts)
    assert "shared" in legend_of(ax)


def test_long_labels_overlap_neither_boxes_nor_each_other():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 8, input_from="x")
    graph.add_output("b", 8)
    graph.connect("a", "b", connectivity="one-to-one", delay=2, share="a name")
    graph.connect("b", "a", delay=[1, 1, 1, 1, 2, 2, 2, 4], share="others")
    figure, canvas = new_figure()
    ax = draw_graph(graph, figure.add_axes((0.0, 0.0, 1.0, 1.0)))
    canvas.draw()
    labels = [text.get_window_extent() for text in ax.texts if "=" in text.get_text()]
    boxes = [patch.get_window_extent() for patch in ax.patches if patch.get_zorder() == 3]
    assert len(labels) == len(boxes) == 2
    assert not any(a.overlaps(b) for a, b in itertools.combinations([*labels, *boxes], 2))


@pytest.mark.parametrize(
    ("ax", "message"),
    [
        (lambda figure: 3, r"draw_graph: expected ax to be axes of matplotlib, or None, got int"),
        (lambda figure: figure, r"got Figure; pass figure.add_subplot\(\)"),
        (lambda figure: figure.subplots(2), r"got ndarray; pass one of them"),
    ],
)
def test_draw_on_what_is_no_axes_raises(ax, message):
    figure, _ = new_figure()
    with pytest.raises(TypeError, match=message):
        star(1).draw(ax(figure))


def test_draw_takes_names_literally():
    graph = PopulationGraph(nnx.Rngs(0))
    for name in NASTY:
        graph.add_output(name, 1)
    _, texts = drawn(graph)
    assert "$x$ & &lt; %% (1)" in texts
    assert "two\\nlines (1)" in texts


def test_drawing_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"draw_graph: .*pip install nnx-graph\[drawing\]"):
        star(1).draw()
    with pytest.raises(ImportError, match=r"draw_activity: .*pip install nnx-graph\[drawing\]"):
        draw_activity({"a": [[0.0]]})
