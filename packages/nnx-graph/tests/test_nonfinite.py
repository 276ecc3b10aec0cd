"""NaN and inf in one row of a graph: other rows, and what follows a reset, are as without them."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from nnx_graph import LearnableDelay, Mask, Named, PopulationGraph
from nnx_graph.testing import GraphDescription, build_graph, graph_descriptions
from nnx_stateful import initial_state, scan_unroll

from ._graphs import SEVERAL_LEVELS, random_graph

STEPS, ROWS = 6, 3
BAD_STEP, BAD_ROW = 2, 1
DONE = np.zeros((STEPS, ROWS), bool)
DONE[BAD_STEP, BAD_ROW] = True
DONE[4, 0] = True
BAD = (jnp.nan, jnp.inf, -jnp.inf)


def untouched():
    """(T, B), the rows and steps that no bad number may reach: other rows, and after the reset."""
    clean = np.ones((STEPS, ROWS), bool)
    clean[: BAD_STEP + 1, BAD_ROW] = False
    return clean


def runner(graph):
    """``run(xs, buffers)``: outputs and last state of both ways, and gradients of clean outputs."""
    graphdef, variables = nnx.split(graph)
    state = initial_state(graph, ROWS)
    clean = jnp.asarray(untouched())[..., None]

    def outputs(variables, xs, buffers, unrolled):
        module = nnx.merge(graphdef, variables)
        start = {**state, "buffers": buffers}
        if unrolled:
            out = module.unroll(start, xs, DONE)
        else:
            out = scan_unroll(module, start, xs, DONE, None)
        return out.output, out.next_state

    def loss(xs, buffers, variables, unrolled):
        found, _ = outputs(variables, xs, buffers, unrolled)
        return sum(jnp.sum(jnp.where(clean, y, 0) ** 2) for y in found.values())

    @jax.jit
    def run(variables, xs, buffers):
        return [
            (
                outputs(variables, xs, buffers, unrolled),
                jax.grad(loss, argnums=(0, 1))(xs, buffers, variables, unrolled),
            )
            for unrolled in (True, False)
        ]

    return functools.partial(run, variables), state["buffers"]


def assert_contained(graph, xs, bad):
    """Puts a bad number into a row before its reset, and compares all that it must not touch.

    It is in the inputs of one step, and then in the buffers before the first.

    Args:
      graph: a finalized graph.
      xs: observation entries, (T, B, size).
      bad: the number.
    """
    run, buffers = runner(graph)
    xs = {name: jnp.asarray(x, jnp.float32) for name, x in xs.items()}
    dirty_xs = {name: x.at[BAD_STEP, BAD_ROW].set(bad) for name, x in xs.items()}
    dirty_buffers = {name: b.at[BAD_ROW].set(bad) for name, b in buffers.items()}
    expected = run(xs, buffers)
    for dirty in ((dirty_xs, buffers), (xs, dirty_buffers)):
        assert_equal_where_clean(run(*dirty), expected)


def assert_equal_where_clean(found, wanted):
    """Compares what two runs returned, outside of the bad row's first episode."""
    clean = untouched()
    others = np.arange(ROWS) != BAD_ROW
    for got, expected in zip(found, wanted, strict=True):
        ((outputs, last), (d_xs, d_buffers)), ((outputs_, last_), (d_xs_, d_buffers_)) = (
            got,
            expected,
        )
        pairs = [(a[clean], b[clean]) for a, b in _leaves(outputs, outputs_)]
        pairs += [(a[clean], b[clean]) for a, b in _leaves(d_xs, d_xs_)]
        pairs += [(a[others], b[others]) for a, b in _leaves(d_buffers, d_buffers_)]
        for a, b in [*pairs, *_leaves(last, last_)]:
            assert np.isfinite(np.asarray(a)).all()
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def _leaves(got, expected):
    return zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True)


# ---- rows and resets -----------------------------------------------------------------------------

contained = given(
    description=graph_descriptions(),
    bad=st.sampled_from(BAD),
    seed=st.integers(0, 2**16),
)


def check_description(description, bad, seed):
    graph, _ = build_graph(description, seed)
    xs = description.inputs(np.random.default_rng(seed), STEPS, ROWS)
    assert_contained(graph, xs, bad)


@pytest.mark.slow
@settings(max_examples=100)
@contained
def test_bad_rows_of_many_random_graphs_leave_others_and_later_episodes_alone(
    description, bad, seed
):
    check_description(description, bad, seed)


@pytest.mark.slow
def test_bad_row_of_a_cycle_of_several_levels_leaves_others_alone():
    check_description(SEVERAL_LEVELS, jnp.nan, 0)


def with_options():
    """A graph with every kind of weights, delays and aggregations, in and out of a cycle."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 3, input_from="x", activation="sigmoid", sign="excitatory")
    for name, aggregate in (("b", None), ("c", "max"), ("d", "attention"), ("e", "gated")):
        graph.add_population(name, 3, activation="tanh", aggregate=aggregate)
    graph.add_population("f", 3, compute=Named("gru"))
    graph.add_output("out", 2, aggregate="mean")
    graph.connect("a", "b", connectivity=Mask(np.eye(3)))
    graph.connect("b", "b", delay=LearnableDelay(1, 3, initial=1.5))
    graph.connect("b", "c", delay=0.5)
    graph.connect("a", "c", delay=2, frozen=True)
    graph.connect("c", "d", share="w")
    graph.connect("d", "c", share="w", delay=(1, 2, 2.5))
    graph.connect("d", "e")
    graph.connect("e", "d", delay=3)
    graph.connect("e", "f", transform="lstm")
    graph.connect("f", "out", delay=1)
    graph.connect("c", "out", delay=LearnableDelay(0, 2))
    graph.finalize()
    return graph


def test_bad_row_of_a_graph_with_all_options_leaves_others_alone():
    xs = {"x": np.random.default_rng(0).normal(size=(STEPS, ROWS, 3))}
    assert_contained(with_options(), xs, jnp.nan)


# ---- populations ---------------------------------------------------------------------------------


def twice(description):
    """A graph beside a copy of itself, whose names and observation entries begin with a "q"."""

    def copied(record, *fields):
        given = {field: getattr(record, field) for field in fields}
        return dataclasses.replace(
            record, **{field: f"q{name}" for field, name in given.items() if name is not None}
        )

    populations = [copied(p, "name", "input_from", "output_to") for p in description.populations]
    connections = [copied(c, "src", "dst") for c in description.connections]
    return GraphDescription(
        (*description.populations, *populations), (*description.connections, *connections)
    )


@pytest.fixture(scope="module")
def copies():
    """Outputs of two graphs in one, and gradients of those of the copy; the original has NaN."""
    description = twice(random_graph(seed=1, populations=20, connections=70))
    graph, _ = build_graph(description)
    graphdef, params, rest = nnx.split(graph, nnx.Param, ...)
    packing = graph.circuit.packing
    assert max(len(block.reads) for block in packing.blocks) > 1  # products of both in one batch
    state = initial_state(graph, ROWS)

    def loss(params, xs):
        out = nnx.merge(graphdef, params, rest).unroll(state, xs, DONE).output
        return sum(jnp.sum(y**2) for name, y in out.items() if name.startswith("q")), out

    xs = {
        name: jnp.asarray(x if name.startswith("q") else jnp.full_like(x, jnp.nan), jnp.float32)
        for name, x in description.inputs(np.random.default_rng(2), STEPS, ROWS).items()
    }
    gradient = jax.jit(jax.grad(loss, argnums=(0, 1), has_aux=True))
    (d_params, d_xs), outputs = gradient(params, xs)
    return outputs, nnx.merge(graphdef, d_params, rest), d_xs


def test_bad_population_does_not_reach_those_that_it_is_not_connected_to(copies):
    outputs, _, _ = copies
    assert not any(np.isfinite(y).all() for name, y in outputs.items() if name[0] != "q")
    assert all(np.isfinite(y).all() for name, y in outputs.items() if name[0] == "q")


def test_bad_population_leaves_gradients_of_those_that_it_is_not_connected_to(copies):
    _, gradients, d_xs = copies
    assert all(np.isfinite(x).all() for name, x in d_xs.items() if name[0] == "q")
    for c in gradients.spec.connections:
        if c.src.startswith("q"):
            view = gradients.connection(c.src, c.dst, c.index)
            assert np.isfinite(view.kernel).all()
            assert np.isfinite(view.bias).all()


# ---- lesions -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forked():
    """Two sources of two destinations, which one product computes."""
    graph = PopulationGraph(nnx.Rngs(0))
    for name in "ab":
        graph.add_input(name, 2, input_from=name)
    for name in "cd":
        graph.add_output(name, 3)
        graph.connect("a", name)
        graph.connect("b", name)
    graph.finalize()
    return graph


@pytest.mark.parametrize("bad", BAD)
def test_lesioned_connection_carries_no_bad_number(forked, bad):
    xs = {"a": jnp.full((2, 2), bad).at[1].set(1.0), "b": jnp.ones((2, 2))}
    cut = forked.lesion("a->c")
    out = cut(cut.initialize_state(2), xs).output
    expected = forked.lesion("a->c")(cut.initialize_state(2), xs | {"a": jnp.ones((2, 2))}).output
    np.testing.assert_allclose(out["c"], expected["c"], rtol=1e-6)
    assert not np.isfinite(out["d"][0]).any()
    np.testing.assert_allclose(out["d"][1], expected["d"][1], rtol=1e-6)


def test_lesioned_and_clamped_populations_put_out_no_bad_number(forked):
    xs = {"a": jnp.full((2, 2), jnp.nan), "b": jnp.ones((2, 2))}
    for changed in (forked.lesion("a"), forked.clamp("a", 2.0)):
        out = changed(changed.initialize_state(2), xs).output
        assert all(np.isfinite(y).all() for y in out.values())
