"""Layout of pictures, and the pictures themselves where matplotlib is installed."""

import itertools

import pytest
from flax import nnx
from nnx_graph import Connection, GraphSpec, Population, PopulationGraph, draw_graph
from nnx_graph._layout import lay_out


def spec_of(names, *connections):
    return GraphSpec(
        tuple(Population(name=name, size=1) for name in names),
        tuple(Connection(src=a, dst=b, delay=delay) for a, b, delay in connections),
    )


def star(bodies):
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_population("root", 4)
    for number in range(bodies):
        graph.add_input(f"body{number}", 2, input_from=f"b{number}")
        graph.connect(f"body{number}", "root", delay=1 + number % 3, reciprocal=True)
    graph.add_output("value", 1)
    graph.connect("root", "value")
    graph.connect("root", "root", delay=2)
    return graph


def test_levels_grow_along_connections_that_close_no_cycle():
    layout = lay_out(spec_of("dcba", ("a", "b", 0), ("b", "c", 2), ("c", "d", 0), ("d", "a", 1)))
    assert {name: level for name, (level, _) in layout.positions.items()} == dict(
        zip("abcd", range(4), strict=True)
    )
    assert layout.backward == {"d->a"}


def test_self_loop_leads_back():
    assert lay_out(spec_of("a", ("a", "a", 1))).backward == {"a->a"}


def test_positions_are_distinct_and_levels_centred():
    layout = lay_out(star(20).spec)
    assert len(set(layout.positions.values())) == len(layout.positions) == 22
    for _, group in itertools.groupby(
        sorted(layout.positions.values()), key=lambda place: place[0]
    ):
        assert sum(height for _, height in group) == pytest.approx(0)


def test_untangling_puts_partners_side_by_side():
    pairs = [(f"a{i}", f"b{3 - i}", 0) for i in range(4)]
    layout = lay_out(spec_of([*(f"a{i}" for i in range(4)), *(f"b{i}" for i in range(4))], *pairs))
    for a, b, _ in pairs:
        assert layout.positions[a][1] == layout.positions[b][1]


def test_draw_graph_of_something_else_raises():
    with pytest.raises(TypeError, match="expected a PopulationGraph, got Linear"):
        draw_graph(nnx.Linear(1, 1, rngs=nnx.Rngs(0)), None)
    with pytest.raises(ValueError, match="at least one population, got none"):
        draw_graph(PopulationGraph(nnx.Rngs(0)), None)


def drawn(graph):
    """The texts of the picture, after rendering."""
    agg = pytest.importorskip("matplotlib.backends.backend_agg")
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(9, 6))
    ax = figure.add_subplot()
    draw_graph(graph, ax)
    agg.FigureCanvasAgg(figure).draw()
    return figure.bbox, [text for text in ax.texts if text.get_text()]


@pytest.mark.parametrize("bodies", [1, 18])
def test_draw_graph_shows_every_population_and_delay_once(bodies):
    graph = star(bodies)
    texts = [text.get_text() for text in drawn(graph)[1]]
    boxes = [text for text in texts if "(" in text]
    delays = [text for text in texts if text.isdigit()]
    assert sorted(boxes) == sorted(f"{p.name} ({p.size})" for p in graph.spec.populations)
    assert sorted(delays) == sorted(str(c.delay) for c in graph.spec.connections if c.delay)


def test_draw_graph_keeps_boxes_apart_and_inside():
    frame, texts = drawn(star(18))
    boxes = [t.get_bbox_patch().get_window_extent() for t in texts if "(" in t.get_text()]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    corners = [corner for box in boxes for corner in box.corners()]
    assert all(frame.contains(*corner) for corner in corners)
