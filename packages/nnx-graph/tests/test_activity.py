"""Pictures of recorded activity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_graph import PopulationGraph, draw_activity
from nnx_stateful import Sequential, extract_activations, with_recording

from ._pictures import new_figure


def wave(steps, units, height=1.0):
    return height * np.sin(np.arange(steps)[:, None] + np.arange(units))


def drawn(recording, width=6, height=5, **options):
    figure, canvas = new_figure(width, height)
    ax = draw_activity(recording, figure.add_subplot(), **options)
    canvas.draw()
    return ax


def names_of(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def numbers_of(ax):
    (right,) = ax.child_axes
    return [text.get_text() for text in right.get_yticklabels()]


@pytest.fixture(scope="module")
def recorded():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("eye", 3, input_from="x", activation=jnp.tanh)
    graph.add_output("hand", 2)
    graph.connect("eye", "hand", delay=1)
    graph.finalize()
    network = with_recording(Sequential([graph]))
    xs = {"x": jax.random.normal(jax.random.key(0), (4, 2, 3))}
    return network.unroll(network.initialize_state(2), xs)


def test_raster_shows_the_units_of_each_population(recorded):
    ax = drawn(recorded.metrics["0"]["populations"], row=1)
    assert names_of(ax) == ["eye", "hand"]
    eye, hand = (image.get_array() for image in ax.images)
    assert eye.shape == (3, 4)
    np.testing.assert_allclose(hand, recorded.output["hand"][:, 1].T, rtol=1e-6)
    largest = float(np.abs(recorded.output["hand"][:, 1]).max())
    assert ax.images[1].get_clim() == pytest.approx((-largest, largest))
    assert numbers_of(ax)[1] == f"{largest:.3g}"


def test_extracted_activations_are_the_same_recording(recorded):
    found = drawn(extract_activations(recorded.metrics))
    direct = drawn(recorded.metrics["0"]["populations"])
    assert names_of(found) == names_of(direct)
    for a, b in zip(found.images, direct.images, strict=True):
        np.testing.assert_array_equal(a.get_array(), b.get_array())


def test_populations_are_chosen_and_ordered(recorded):
    names = ["hand", "eye"]
    assert names_of(drawn(recorded.metrics["0"]["populations"], populations=names)) == names
    assert names_of(drawn({"a": wave(5, 2), "b": wave(5, 1)}, populations=["b"])) == ["b"]


def test_bands_lie_below_each_other_on_the_axes():
    ax = drawn({f"p{number}": wave(10, 1 + 3 * number) for number in range(60)})
    edges = [sorted(image.get_extent()[2:]) for image in ax.images]
    flat = [edge for band in edges for edge in band]
    assert flat == sorted(flat)
    low, high = sorted(ax.get_ylim())
    assert low <= flat[0] < flat[-1] <= high
    assert ax.get_xlim() == (-0.5, 9.5)


def test_trace_shows_few_units_and_the_mean_of_many():
    few, many = wave(9, 4, 2.0), wave(9, 5, 3.0)
    ax = drawn({"few": few, "many": many}, kind="trace")
    assert len(ax.lines) == 4 + 1
    assert len(ax.collections) == 1
    mean, spread = many.mean(axis=1), many.std(axis=1)
    low, high = (mean - spread).min(), (mean + spread).max()
    assert numbers_of(ax) == [f"{few.min():.3g} to {few.max():.3g}", f"{low:.3g} to {high:.3g}"]
    drawn_mean = ax.lines[-1].get_ydata()
    band = ax.patches[1].get_extents().transformed(ax.transData.inverted())
    share = (max(band.y0, band.y1) - drawn_mean) / abs(band.y1 - band.y0)
    np.testing.assert_allclose(low + share * (high - low), mean, atol=1e-9)


@pytest.mark.parametrize("kind", ["raster", "trace"])
def test_silent_and_broken_populations_are_drawn(kind):
    lost = np.full((5, 6), np.nan)
    ax = drawn({"silent": np.zeros((5, 6)), "lost": lost, "spikes": wave(5, 2) > 0}, kind=kind)
    assert names_of(ax) == ["silent", "lost", "spikes"]
    assert numbers_of(ax)[:2] == {"raster": ["0", "0"], "trace": ["0 to 0", "0 to 0"]}[kind]


def test_names_are_taken_literally():
    ax = drawn({"$x$": wave(4, 2), "two\nlines": wave(4, 2)})
    assert names_of(ax) == ["$x$", "two\\nlines"]
    assert not any(text.get_parse_math() for text in ax.get_yticklabels())


@pytest.mark.parametrize("kind", ["raster", "trace"])
def test_without_axes_the_figure_grows_with_the_populations(kind):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    heights = []
    for count in (3, 60):
        recording = {f"p{number}": wave(10, 20) for number in range(count)}
        ax = draw_activity(recording, kind=kind)
        heights.append(ax.figure.get_figheight())
        pitch = np.diff(ax.get_yticks()).min() * 72  # a band is in inches at full size
        assert ax.get_yticklabels()[0].get_fontsize() <= pitch
        pyplot.close(ax.figure)
    assert 3 * heights[0] < heights[1] < 16


@pytest.mark.parametrize(
    ("recording", "options", "message"),
    [
        ({}, {}, "at least one population, got none"),
        ({"a": wave(3, 2)}, {"populations": ["b"]}, r"got 'b'; there are \['a'\]"),
        ({"a": wave(3, 2)}, {"kind": "heat"}, r"one of \['raster', 'trace'\], got 'heat'"),
        ({"a": np.zeros(3)}, {}, r"output of 'a': expected shape .*, got \(3,\)"),
        ({"a": np.zeros((3, 2, 1))}, {"row": 2}, "expected a row below 2, got 2"),
        ({"a": wave(3, 2), "b": wave(4, 2)}, {}, r"of one length, got {'a': 3, 'b': 4}"),
        (
            {"0/populations/a": wave(3, 2), "1/populations/a": wave(3, 2)},
            {},
            r"one graph, got those of graphs at \['0', '1'\]",
        ),
    ],
)
def test_draw_activity_explains_mistakes(recording, options, message):
    figure, _ = new_figure()
    with pytest.raises(ValueError, match=message):
        draw_activity(recording, figure.add_subplot(), **options)


@pytest.mark.parametrize(
    ("recording", "options", "message"),
    [
        ([1], {}, r"a dict of outputs by population, got list; pass out.metrics\['populations'\]"),
        ({"populations": {"a": wave(3, 2)}}, {}, r"output of 'populations': .*got dict; pass"),
        ({"a": [[1], [2, 3]]}, {}, r"output of 'a': expected an array \(T, size\).*got list"),
        ({"a": wave(3, 2)}, {"populations": 3}, r"populations: expected names, got 3 of type int"),
        ({"a": wave(3, 2)}, {"row": 0.5}, r"row: expected an int, got 0.5 of type float"),
        ({"a": wave(3, 2)}, {"ax": 3}, r"draw_activity: expected ax to be axes .*, got int; pass"),
    ],
)
def test_draw_activity_of_other_kinds_raises(recording, options, message):
    figure, _ = new_figure()
    with pytest.raises(TypeError, match=message):
        draw_activity(recording, **{"ax": figure.add_subplot()} | options)


def test_one_population_is_chosen_by_its_name():
    assert names_of(drawn({"ab": wave(5, 2), "c": wave(5, 1)}, populations="ab")) == ["ab"]
