"""Levels, and where populations and connections go on a page."""

import itertools

import pytest
from nnx_graph import GraphSpec, Population
from nnx_graph._looking._layout import lay_out
from nnx_graph._looking._placement import place
from nnx_graph._looking._wiring import Wiring, make_wires

from ._pictures import spec_of, star


def page_of(spec, merged=False, **size):
    wires = make_wires(spec, merged)
    return wires, Wiring(spec, wires, dict.fromkeys(spec.names, 0.8)).page(**size)


def test_levels_grow_along_a_cycle_until_it_closes():
    layout = lay_out(spec_of("dabc", ("a", "b", 0), ("b", "c", 2), ("c", "d", 0), ("d", "a", 1)))
    assert layout.levels == {"d": 3, "a": 0, "b": 1, "c": 2}
    assert layout.backward == {"d->a"}


def test_self_loop_leads_back():
    assert lay_out(spec_of("a", ("a", "a", 1))).backward == {"a->a"}


def test_levels_are_distances_from_the_inputs_in_a_recurrent_network():
    names = ("far", "near", "eye")
    spec = spec_of(
        names, ("eye", "near", 1), ("near", "far", 1), ("far", "near", 1), ("near", "eye", 2)
    )
    eye = Population(name="eye", size=1, input_from="x")
    layout = lay_out(GraphSpec((*spec.populations[:2], eye), spec.connections))
    assert layout.levels == {"eye": 0, "near": 1, "far": 2}
    assert layout.backward == {"far->near", "near->eye"}


def test_connections_outside_of_cycles_lead_right_whatever_their_delay():
    layout = lay_out(spec_of("abcd", ("a", "d", 4), ("a", "b", 1), ("b", "c", 2), ("c", "d", 1)))
    assert layout.levels == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert not layout.backward


def test_a_cycle_without_delay_is_laid_out_too():
    layout = lay_out(spec_of("abc", ("a", "b", 0), ("b", "c", 0), ("c", "a", 0), ("c", "c", 0)))
    assert layout.levels == {"a": 0, "b": 1, "c": 2}
    assert layout.backward == {"c->a", "c->c"}


def test_untangling_puts_partners_side_by_side():
    pairs = [(f"a{i}", f"b{3 - i}", 0) for i in range(4)]
    names = [*(f"a{i}" for i in range(4)), *(f"b{i}" for i in range(4))]
    _, page = page_of(spec_of(names, *pairs))
    for a, b, _ in pairs:
        assert page.boxes[a].y == pytest.approx(page.boxes[b].y)


def test_a_long_connection_passes_beside_what_is_between():
    wires, page = page_of(spec_of("abc", ("a", "b", 0), ("b", "c", 0), ("a", "c", 1)))
    between = page.boxes["b"]
    (long,) = [c for w, c in zip(wires, page.curves, strict=True) if (w.src, w.dst) == ("a", "c")]
    passing = [y for segment in long for x, y in segment if abs(x - between.x) <= between.width / 2]
    assert passing
    assert all(abs(y - between.y) > between.height / 2 for y in passing)


def test_a_tall_level_becomes_several_columns():
    levels = {**{f"in{i}": 0 for i in range(60)}, "root": 1}
    room = dict.fromkeys(levels, (1.0, 1.0))
    wires = [(name, "root") for name in levels if name != "root"]
    placement = place(levels, wires, room, 0.2)
    counts = [sum(isinstance(item, str) for item in c) for c in placement.columns]
    assert counts == [20, 20, 20, 1]
    lanes = [sum(isinstance(item, tuple) for item in c) for c in placement.columns]
    assert lanes == [0, 20, 40, 0]


@pytest.mark.parametrize("merged", [False, True])
def test_boxes_of_a_column_keep_apart_and_on_the_page(merged):
    _, page = page_of(star(20).spec, merged, width=9.0, height=12.0)
    for a, b in itertools.combinations(page.boxes.values(), 2):
        apart = (
            abs(a.x - b.x) >= (a.width + b.width) / 2 or abs(a.y - b.y) > (a.height + b.height) / 2
        )
        assert apart
    for box in page.boxes.values():
        assert 0 <= box.x - box.width / 2 < box.x + box.width / 2 <= page.width + 1e-9
        assert 0 <= box.y - box.height / 2 < box.y + box.height / 2 <= page.height + 1e-9


def test_curves_begin_and_end_at_their_boxes():
    connections = [("a", "b", 0), ("b", "c", 1), ("c", "a", 2), ("a", "a", 1), ("b", "d", 1)]
    connections += [("d", "b", 1), ("a", "d", 0), ("d", "c", 3), ("c", "d", 3), ("e", "a", 0)]
    wires, page = page_of(spec_of("abcde", *connections))
    for wire, curve in zip(wires, page.curves, strict=True):
        for name, (x, y) in ((wire.src, curve[0][0]), (wire.dst, curve[-1][-1])):
            box = page.boxes[name]
            aside, above = abs(x - box.x) / (box.width / 2), abs(y - box.y) / (box.height / 2)
            assert max(aside, above) == pytest.approx(1.0)
        for before, after in itertools.pairwise(curve):
            assert before[-1] == after[0]


def test_merged_wires_join_all_between_two_populations():
    connections = [("a", "b", 0), ("b", "a", 3), ("a", "b", 2), ("b", "b", 1), ("a", "c", 1)]
    wires = make_wires(spec_of("abc", *connections[:2], *connections[3:]), merged=True)
    found = [(w.src, w.dst, w.delay, w.direction) for w in wires]
    assert found == [("a", "b", 3, "both"), ("b", "b", 1, "backward"), ("a", "c", 1, "forward")]
