"""Lesions, clamps, currents and recordings: what they do, where, when, and what they share."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from nnx_graph import Intervention, LowRank, PopulationGraph, with_graph
from nnx_graph.testing import LeakyProbe, build_graph, graph_descriptions, interpret
from nnx_stateful import (
    RowVariable,
    Sequential,
    extract_activations,
    initial_state,
    reset_rows,
    with_recording,
)
from nnx_stateful.testing import check_stateful_module, done_masks, to_float64

from ._graphs import SEVERAL_LEVELS, state_in_use

STEPS, ROWS = 5, 3


def chain(activation=None):
    """a -> b -> c, all weights 1, biases 0, 10 and 100."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 1, input_from="x")
    graph.add_population("b", 1, activation=activation)
    graph.add_output("c", 1)
    graph.connect("a", "b")
    graph.connect("b", "c", delay=1)
    graph.connect("b", "c")
    graph.finalize()
    for connection, bias in zip(graph.spec.connections, (10.0, 100.0, 0.0), strict=True):
        view = graph.connection(connection.src, connection.dst, connection.index)
        view.kernel[...], view.bias[...] = 1.0, bias
    return graph


@pytest.fixture(scope="module")
def intact():
    """The chain, for those who write nothing to it."""
    return chain()


def outputs(graph, xs=(1.0,), done=None, rows=1):
    """What c puts out at each step where x comes in; by row, if there are several."""
    state, found = initial_state(graph, rows), []
    for step, x in enumerate(xs):
        out = graph(state, {"x": jnp.full((rows, 1), x)})
        found.append(out.output["c"][:, 0].tolist())
        state = out.next_state if done is None else reset_rows(graph, out.next_state, done[step])
    return [x for (x,) in found] if rows == 1 else [list(row) for row in zip(*found, strict=True)]


# ---- against the interpreter ---------------------------------------------------------------------


@st.composite
def probings(draw, spec):
    """Arguments of one call: method, target, and keywords, drawn for ROWS rows and STEPS steps."""
    kind = draw(st.sampled_from(("lesion", "lesion", "clamp", "stimulate")))
    sizes = {p.name: p.size for p in spec.populations}
    if kind == "lesion":
        sizes |= {c.name: sizes[c.dst] for c in spec.connections}
    target = draw(st.sampled_from(sorted(sizes)))
    size = sizes[target]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shape = draw(st.sampled_from(((), (size,), (ROWS, 1), (ROWS, size))))
    value = rng.uniform(size=shape) * (1 if kind == "lesion" else 3)
    rows = draw(st.sampled_from((None, rng.random(ROWS) < 0.5)))
    tables = rng.random(STEPS - 1) < 0.5, rng.random((ROWS, STEPS - 1)) < 0.5
    schedules = (None, range(1, 3), slice(2, None), range(0, STEPS, 2), *tables)
    steps = draw(st.sampled_from(schedules))
    arguments = () if kind == "lesion" and draw(st.booleans()) else (value,)
    return kind, target, arguments, {"rows": rows, "steps": steps}


random_graphs = given(
    description=graph_descriptions(max_populations=4), data=st.data(), seed=st.integers(0, 99)
)


def check_against_interpreter(description, data, seed):
    done = data.draw(done_masks(STEPS, ROWS))
    xs = description.inputs(np.random.default_rng(seed), STEPS, ROWS)
    with jax.enable_x64(True):
        intact, probes = build_graph(description, seed)
        probed = to_float64(intact)
        for kind, target, arguments, keywords in data.draw(
            st.lists(probings(intact.spec), min_size=1, max_size=3)
        ):
            probed = getattr(probed, kind)(target, *arguments, **keywords)
        probed = probed.record(intact.spec.names)
        graphdef, variables = nnx.split(probed)

        @jax.jit
        def run(variables, state, xs, done):
            return nnx.merge(graphdef, variables).unroll(state, xs, done)

        out = run(variables, initial_state(probed, ROWS), xs, jnp.asarray(done))
        result = interpret(probed, xs, done, probes)
        for name, entry in extract_activations(out.metrics["populations"]).items():
            expected = [[row[name] for row in step] for step in result]
            np.testing.assert_allclose(entry, expected, rtol=1e-8, atol=1e-10)


@settings(max_examples=3)
@random_graphs
def test_probed_graph_equals_interpreter(**drawn):
    check_against_interpreter(**drawn)


@pytest.mark.slow
@settings(max_examples=max(settings().max_examples // 3, 1))
@random_graphs
def test_many_probed_graphs_equal_interpreter(**drawn):
    check_against_interpreter(**drawn)


def test_vmap_over_clamp_values_equals_interpreter_for_each():
    graph, _ = build_graph(SEVERAL_LEVELS)
    rng = np.random.default_rng(0)
    xs = {"x": rng.normal(size=(STEPS, ROWS, 2)).astype(np.float32)}
    values = jnp.asarray(rng.random((2, 3)), jnp.float32)

    @jax.jit
    @jax.vmap
    def run(value):
        clamped = graph.clamp("b", value, steps=range(1, 4)).lesion("c->a", value[0])
        return clamped.unroll(initial_state(clamped, ROWS), xs).output["out"]

    with jax.default_matmul_precision("highest"):
        got = run(values)
    for value, own in zip(values, got, strict=True):
        clamped = graph.clamp("b", value, steps=range(1, 4)).lesion("c->a", value[0])
        result = interpret(clamped, xs, np.zeros((STEPS, ROWS), bool))
        expected = [[row["out"] for row in step] for step in result]
        np.testing.assert_allclose(own, expected, atol=2e-5)


# ---- by hand -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        (lambda g: g, [111.0, 122.0]),  # 1 -> 11 -> 11 + 100; then also 11 from a step ago
        (lambda g: g.lesion("a"), [110.0, 120.0]),
        (lambda g: g.lesion("b"), [100.0, 100.0]),
        (lambda g: g.lesion("c"), [0.0, 0.0]),
        (lambda g: g.lesion("a->b"), [100.0, 100.0]),  # the bias of b is that of the connection
        (lambda g: g.lesion("b->c"), [11.0, 11.0]),
        (lambda g: g.lesion("b->c#1"), [100.0, 111.0]),
        (lambda g: g.lesion(("b", "c", 1)), [100.0, 111.0]),
        (lambda g: g.lesion(("b", "c")), [11.0, 11.0]),
        (lambda g: g.lesion("b->c", 0.5), [61.0, 66.5]),
        (lambda g: g.lesion("b->c", 0.5).lesion("b->c", 0.5), [36.0, 38.75]),
        (lambda g: g.clamp("b", 3.0), [103.0, 106.0]),
        (lambda g: g.stimulate("b", 4.0).stimulate("b", 1.0), [116.0, 132.0]),
        (lambda g: g.clamp("b", 3.0).lesion("b"), [100.0, 100.0]),
        (lambda g: g.lesion("b").clamp("b", 3.0), [103.0, 106.0]),
        (lambda g: g.clamp("b", 4.0).lesion("b", 0.25), [103.0, 106.0]),
        (lambda g: g.clamp("b", 3.0).stimulate("b", 4.0), [103.0, 106.0]),
        (lambda g: g.lesion("b", steps=range(1)), [100.0, 111.0]),  # nothing had left b at step 0
        (lambda g: g.lesion("b", steps=range(1, 2)), [111.0, 111.0]),  # what had left it arrives
        (lambda g: g.lesion("b", steps=[False, True]), [111.0, 111.0]),
        (lambda g: g.lesion("b", steps=slice(1, None)), [111.0, 111.0]),
        (lambda g: g.lesion("b", steps=[True]), [100.0, 111.0]),
    ],
)
def test_probe_gives_what_it_says(intact, probe, expected):
    assert outputs(probe(intact), (1.0, 1.0)) == expected


def test_current_is_added_before_the_activation_and_output_replaced_after_it():
    graph = chain(activation=jnp.square)
    assert outputs(graph.stimulate("b", -9.0)) == [104.0]
    assert outputs(graph.clamp("b", -9.0)) == [91.0]
    assert outputs(graph.lesion("b", 0.5)) == [160.5]


def test_each_row_has_its_own_dose(intact):
    doses = jnp.array([[0.0], [0.5], [1.0]])
    assert outputs(intact.lesion("b", doses), rows=3) == [[111.0], [105.5], [100.0]]
    chosen = jnp.array([False, True, True])
    assert outputs(intact.clamp("b", doses, rows=chosen), rows=3) == [[111.0], [100.5], [101.0]]


def test_schedule_counts_from_the_last_reset_of_each_row(intact):
    done = jnp.array([[False, False], [False, True], [False, False], [False, False]])
    graph = intact.clamp("b", 3.0, steps=range(1, 3)).lesion("b->c")
    assert outputs(graph, [1.0] * 4, done, rows=2) == [
        [11.0, 3.0, 3.0, 11.0],
        [11.0, 3.0, 11.0, 3.0],
    ]
    by_row = intact.lesion("b->c").lesion("c", steps=jnp.array([[True, False], [False, True]]))
    assert outputs(by_row, [1.0] * 3, rows=2) == [[0.0, 11.0, 11.0], [11.0, 0.0, 11.0]]


def test_complete_lesion_cuts_what_is_not_finite(intact):
    assert outputs(intact.lesion("a"), [np.nan]) == [110.0]
    assert outputs(intact.clamp("b", 1.0), [np.nan]) == [101.0]


@pytest.mark.parametrize("strength", [np.ones(1), np.ones((1, 1)), jnp.float32(1)])
def test_complete_lesion_by_array_cuts_what_is_not_finite(intact, strength):
    for x in (np.inf, np.nan):
        assert outputs(intact.lesion("a", strength), [x]) == [110.0]
    assert outputs(intact.lesion("a", [[1.0], [0.0]]), [np.inf], rows=2) == [[110.0], [np.inf]]

    def response(strength, x):
        cut = intact.lesion("a", strength)
        return cut(initial_state(cut, 1), {"x": jnp.full((1, 1), x)}).output["c"][0, 0]

    slopes = jax.grad(response, argnums=(0, 1))
    assert [float(slope) for slope in slopes(1.0, 3.0)] == [-3.0, 0.0]
    assert [float(slope) for slope in slopes(1.0, jnp.inf)] == [0.0, 0.0]


def test_lesioned_connection_equals_one_whose_weights_are_zero_exactly():
    graph, _ = build_graph(SEVERAL_LEVELS)
    x = {"x": jnp.asarray(np.random.default_rng(1).normal(size=(ROWS, 2)), jnp.float32)}
    view = graph.connection("in", "a")
    view.kernel[...], view.bias[...] = 1e8, 1e8  # whatever is left of it would show
    cut, state = graph.lesion("in->a"), state_in_use(graph, ROWS)
    got = cut(state, x).output
    view.kernel[...], view.bias[...] = 0.0, 0.0
    jax.tree.map(np.testing.assert_array_equal, got, graph(state, x).output)


def test_connections_of_each_kind_are_lesioned_alone():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 3, input_from="x")
    for name in ("b", "c", "d"):
        graph.add_output(name, 3)
    graph.connect("a", "b", share="w")
    graph.connect("a", "c", share="w", delay=1)
    graph.connect("a", "d", connectivity=LowRank(1))
    graph.connect("b", "d", frozen=True)
    graph.connect("b", "d", transform=LeakyProbe(3, 3))
    graph.finalize()
    xs = {"x": np.random.default_rng(0).normal(size=(3, 5, 3)).astype(np.float32)}
    for row, connection in enumerate(graph.spec.connections):  # each in a row of its own
        graph = graph.lesion(connection.name, 0.25, rows=np.arange(5) == row)
    out = jax.jit(lambda xs: graph.unroll(initial_state(graph, 5), xs).output)(xs)
    result = interpret(graph, xs, np.zeros((3, 5), bool), {"b->d#1": LeakyProbe(3, 3)})
    for entry, values in out.items():
        expected = [[row[entry] for row in step] for step in result]
        np.testing.assert_allclose(values, expected, atol=1e-5)


# ---- what is shared, and what is not -------------------------------------------------------------


def test_probes_share_the_variables_and_leave_the_graph_as_it_is():
    graph, _ = build_graph(SEVERAL_LEVELS)
    before = nnx.graphdef(graph)
    probed = graph.lesion("a").clamp("b", 1.0).stimulate("d", 1.0).record(["a", "c"])
    assert nnx.graphdef(graph) == before
    own = dict(nnx.iter_graph(graph))
    variables = {p: v for p, v in nnx.iter_graph(probed) if isinstance(v, nnx.Variable)}
    assert {p for p in variables if p not in own} == {
        ("interventions", 1, "value"),
        ("interventions", 2, "value"),
    }
    assert all(v is own[p] for p, v in variables.items() if p in own)
    assert [(i.kind, i.target) for i in probed.interventions] == [
        ("lesion", "a"),
        ("clamp", "b"),
        ("stimulate", "d"),
    ]
    assert probed.recorded == ("a", "c")
    assert isinstance(probed.interventions[0], Intervention)
    assert nnx.state(probed, nnx.Param) == nnx.state(graph, nnx.Param)


def test_write_and_optimiser_step_on_one_show_in_the_other():
    graph = chain()
    clamped = graph.clamp("a", 5.0)
    graph.connection("b", "c").bias[...] = 0.0
    assert outputs(clamped) == [15.0]
    optimizer = nnx.Optimizer(clamped, optax.sgd(1.0), wrt=nnx.Param)
    optimizer.update(clamped, jax.tree.map(jnp.ones_like, nnx.state(clamped, nnx.Param)))
    assert graph.connection("b", "c").bias[...].tolist() == [-1.0]
    assert clamped.interventions[0].value[...] == 5.0


def test_value_is_a_copy_of_what_was_passed():
    value = jnp.array([3.0])
    clamped = chain().clamp("b", value).stimulate("a", value)
    graphdef, variables = nnx.split(clamped)

    def step(variables):
        out = nnx.merge(graphdef, variables)
        out = out(initial_state(out, 1), {"x": jnp.ones((1, 1))})
        return variables, out.output

    donated = jax.jit(step, donate_argnums=0)(variables)  # refuses one buffer in two places
    assert donated[1]["c"].tolist() == [[103.0]]
    assert value.tolist() == [3.0]


def test_gradient_passes_beside_a_clamp_and_a_complete_lesion():
    graph = chain(activation=jnp.tanh)

    def gradients(probed, value):
        def loss(graph, value):
            return outputs_sum(graph.clamp("b", value) if probed == "clamp" else graph)

        return nnx.grad(loss, argnums=(0, 1))(
            graph.lesion("a->b") if probed == "lesion" else graph, value
        )

    def outputs_sum(graph):
        return graph(initial_state(graph, 1), {"x": jnp.full((1, 1), 0.1)}).output["c"].sum()

    for probed in ("clamp", "lesion"):
        found, of_value = gradients(probed, 0.5)
        views = nnx.merge(nnx.graphdef(graph), nnx.state(graph))
        nnx.update(views, found)
        assert views.connection("a", "b").kernel[...] == 0.0
        assert views.connection("b", "c", 1).kernel[...] == (0.5 if probed == "clamp" else 0.0)
        assert views.connection("b", "c").bias[...] == 1.0
        assert of_value == (1.0 if probed == "clamp" else 0.0)


def test_probed_graph_keeps_the_laws(intact):
    probed = intact.lesion("b->c", 0.5, steps=range(1, 3)).stimulate("b", 1.0).record("b")
    check_stateful_module(probed, {"x": jnp.ones((ROWS, 1))}, float64=True)


def test_probed_graph_survives_split_merge_and_recording(intact):
    probed = intact.lesion("b->c", jnp.full(1, 0.5), steps=range(1, 3)).clamp("b", 1.0)
    xs = (1.0, 2.0)
    assert outputs(nnx.merge(*nnx.split(probed)), xs) == outputs(probed, xs) == [101.0, 52.0 - 0.5]
    recording = with_recording(probed)
    out = recording(initial_state(probed, 1), {"x": jnp.ones((1, 1))})
    found = extract_activations(out.metrics)
    assert set(found) == {"", "populations/a", "populations/b", "populations/c"}
    assert found["populations/b"] == 1.0


# ---- recording -----------------------------------------------------------------------------------


def test_record_puts_the_outputs_of_some_populations_into_the_metrics(intact):
    xs = {"x": jnp.ones((2, 1, 1))}
    for record in (lambda g: g.record(["b", "a"]), lambda g: g.record("b").record(["a"])):
        watched = record(intact)
        out = watched.unroll(initial_state(watched, 1), xs)
        found = extract_activations(out.metrics)
        assert {name: x.ravel().tolist() for name, x in found.items()} == {
            "populations/a": [1.0, 1.0],
            "populations/b": [11.0, 11.0],
        }
    assert "populations" not in intact.unroll(initial_state(intact, 1), xs).metrics


def test_recording_alone_does_not_step_through_unroll(intact):
    graph = intact.record("b")
    state, xs = initial_state(graph, 1), {"x": jnp.ones((2, 1, 1))}

    def program(graph):
        return str(jax.make_jaxpr(lambda xs: graph.unroll(state, xs).metrics)(xs))

    assert "scan" not in program(graph)
    assert "scan" in program(graph.clamp("b", 1.0))


# ---- inside a network ----------------------------------------------------------------------------


def test_with_graph_changes_the_graph_of_a_network_and_shares_the_rest():
    graph = chain()
    network = Sequential([ToDict(1, 1), graph])
    probed = with_graph(network, lambda g: g.lesion("b").record("b"))
    x, state = jnp.ones((1, 1)), initial_state(network, 1)
    assert network(state, x).output["c"] == 111.0
    out = probed(state, x)
    assert out.output["c"] == 100.0
    assert extract_activations(out.metrics) == {"1/populations/b": 0.0}
    network.child_modules[0].seen[...] = 7
    graph.connection("b", "c").bias[...] = 1.0
    assert probed.child_modules[0].seen[...] == 7
    assert probed(state, x).output["c"] == 1.0
    assert not graph.interventions
    assert with_graph(graph, lambda g: g.clamp("c", 2.0)).interventions[0].kind == "clamp"


class ToDict(LeakyProbe):
    """A probe whose output is the observation of a graph."""

    def __call__(self, state, x, rollout_extras=None):
        out = super().__call__(state, x, rollout_extras)
        return out.replace(output={"x": out.output})


def test_with_graph_needs_to_know_which():
    two = Sequential([chain(), chain()])
    with pytest.raises(ValueError, match=r"one graph, got those at 'child_modules/0', '.*path="):
        with_graph(two, lambda g: g)
    with pytest.raises(ValueError, match=r"path of a graph, got 'child_module/1'; did you mean"):
        with_graph(two, lambda g: g, "child_module/1")
    with pytest.raises(ValueError, match=r"with one graph, got none; pass a network with"):
        with_graph(Sequential([LeakyProbe(1, 1)]), lambda g: g)
    with pytest.raises(TypeError, match=r"return a PopulationGraph, got NoneType; return what"):
        with_graph(chain(), lambda g: None)
    probed = with_graph(two, lambda g: g.lesion("a"), "child_modules/1")
    assert [len(graph.interventions) for graph in probed.child_modules] == [0, 1]


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probe", "error", "message"),
    [
        (
            lambda g: g.lesion("d"),
            ValueError,
            r"PopulationGraph.lesion: expected the name of a population or connection, got 'd'; "
            r"there are 'a', 'b', 'c'",
        ),
        (lambda g: g.lesion("a->c"), ValueError, r"got 'a->c'; did you mean '.->.'"),
        (lambda g: g.lesion(("b", "c", 2)), ValueError, r"got 'b->c#2'; did you mean 'b->c#1'"),
        (
            lambda g: g.lesion(3),
            TypeError,
            r"name of a population or connection, got 3 of type int",
        ),
        (lambda g: g.clamp("a->b", 1.0), ValueError, r"clamp: expected the name of a population,"),
        (lambda g: g.record(["a", "e"]), ValueError, r"record: expected the name of a population"),
        (lambda g: g.record(5), TypeError, r"record: expected names of populations, got 5 of type"),
        (
            lambda g: g.clamp("b", jnp.ones(3)),
            ValueError,
            r"clamp\('b'\): expected value of shape \(\), \(1,\), \(B, 1\) or \(B, 1\), got \(3,\)",
        ),
        (
            lambda g: g.stimulate("b", jnp.ones((2, 3))),
            ValueError,
            r"stimulate\('b'\): expected current of shape .* got \(2, 3\)",
        ),
        (lambda g: g.clamp("b", "high"), TypeError, r"expected value to be numbers, got 'high'"),
        (lambda g: g.clamp("b", 1j), TypeError, r"expected value to be numbers, got 1j"),
        (
            lambda g: g.clamp("b", [[1.0], [1.0, 2.0]]),
            ValueError,
            r"clamp\('b'\): expected value to be numbers, got a list that makes no array .*length",
        ),
        (
            lambda g: g.clamp("b", np.nan),
            ValueError,
            r"clamp\('b'\): .*value to be numbers, got nan",
        ),
        (
            lambda g: g.stimulate("b", [[0.0], [np.nan]]),
            ValueError,
            r"stimulate\('b'\): expected current to be numbers, got nan",
        ),
        (lambda g: g.lesion("b", True), TypeError, r"strength to be numbers, got True"),
        (lambda g: g.clamp("b", [True]), TypeError, r"value to be numbers, got list of bool"),
        (
            lambda g: g.lesion("b", [[0.5], [1.5]]),
            ValueError,
            r"lesion\('b'\): expected a strength from 0 .* to 1 .*, got 1.5; pass the share",
        ),
        (
            lambda g: g.lesion("b", rows=[0, 2]),
            TypeError,
            r"expected rows to be booleans of shape \(B,\), got list of int64",
        ),
        (
            lambda g: g.lesion("b", rows=[[True]]),
            ValueError,
            r"expected rows of shape \(B,\), one boolean for each row, got \(1, 1\)",
        ),
        (
            lambda g: g.lesion("b", steps=3),
            TypeError,
            r"steps to be a range, a slice or bool.*, got 3",
        ),
        (
            lambda g: g.lesion("b", steps=range(-1, 4)),
            ValueError,
            r"steps that begin at 0 or later .* got range\(-1, 4\); steps count from 0",
        ),
        (lambda g: g.lesion("b", steps=slice(4, 4)), ValueError, r"hold at least one.*slice\(4, 4"),
        (lambda g: g.lesion("b", steps=slice(None, None, -1)), ValueError, r"ascending order, got"),
        (
            lambda g: g.lesion("b", steps=jnp.ones((1, 1, 1), bool)),
            ValueError,
            r"expected steps of shape \(N,\) or \(B, N\), .* got \(1, 1, 1\); pass a range",
        ),
    ],
)
def test_bad_probe_is_told_at_the_call(intact, probe, error, message):
    with pytest.raises(error, match=message):
        probe(intact)


@pytest.mark.parametrize(
    ("probe", "what"),
    [
        (lambda g: g.lesion("b", jnp.ones((2, 1))), "lesion.*strength"),
        (lambda g: g.clamp("b", jnp.ones((2, 1))), "clamp.*value"),
        (lambda g: g.stimulate("b", 1.0, rows=[True, False]), "stimulate.*rows"),
        (lambda g: g.lesion("b->c", steps=jnp.ones((2, 4), bool)), "lesion.*steps"),
    ],
)
def test_other_number_of_rows_is_told_by_the_run(intact, probe, what):
    probed = probe(intact)
    assert any(isinstance(v, RowVariable) for _, v in nnx.iter_graph(probed))
    with pytest.raises(ValueError, match=rf"{what}, got 3 rows; run it with as many"):
        probed(initial_state(probed, 3), {"x": jnp.ones((3, 1))})


def test_schedule_needs_the_step_in_the_carry_state(intact):
    scheduled = intact.lesion("a", steps=range(2))
    state, x = intact.initialize_state(1), {"x": jnp.ones((1, 1))}
    assert "step" not in intact.lesion("a").initialize_state(1)
    with pytest.raises(ValueError, match=r"an entry 'step', .* got entries \['buffers', 'index'\]"):
        scheduled(state, x)
    out = scheduled(state | {"step": jnp.zeros(1, jnp.int32)}, x)
    assert out.output["c"] == 110.0
    assert out.next_state["step"] == 1


def test_probe_before_finalize_raises():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_output("a", 1)
    for probe in (lambda: graph.lesion("a"), lambda: graph.record("a")):
        with pytest.raises(RuntimeError, match="call finalize"):
            probe()
