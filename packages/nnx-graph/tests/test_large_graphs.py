"""Graphs of many populations: columns gathered, products batched, programs that stay small."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.extend.core import jaxprs_in_params
from nnx_graph import PopulationGraph
from nnx_graph._engine._selection import MAX_SLICES
from nnx_graph.testing import build_graph, interpret
from nnx_stateful import initial_state
from nnx_stateful.testing import to_float64

from ._graphs import (
    assert_equal_to_scale,
    gradients_both_ways,
    make_loss,
    random_graph,
    state_in_use,
    step,
    unroll,
)

STEPS, ROWS = 6, 2
DONE = np.random.default_rng(3).random((STEPS, ROWS)) < 0.2


# ---- what they compute ---------------------------------------------------------------------------


def reaches_batches_and_gathers(graph):
    """Whether its cycle has batched products, and gathers what comes back."""
    packing = graph.circuit.packing
    cyclic = [unit for unit in packing.units if unit.cyclic]
    batched = any(
        len(packing.blocks[index].reads) > 1
        for unit in cyclic
        for level in unit.levels
        for index in level.inner_blocks
    )
    gathered = any(
        len(selection.pieces) > MAX_SLICES for unit in cyclic for _, selection in unit.backs
    )
    return batched and gathered


@pytest.mark.fast("3")
@pytest.mark.parametrize("customs", [0, 3])
def test_random_graph_of_40_populations_equals_the_interpreter(customs):
    description = random_graph(seed=1, populations=40, connections=200, customs=customs)
    xs = description.inputs(np.random.default_rng(2), STEPS, ROWS)
    with jax.enable_x64(True):
        graph, probes = build_graph(description)
        graph = to_float64(graph)
        assert reaches_batches_and_gathers(graph)
        result = interpret(graph, xs, DONE, probes)
        expected = {
            p.output_to: np.stack([[row[p.name] for row in step] for step in result])
            for p in graph.spec.outputs
        }
        graphdef, variables = nnx.split(graph)
        for run in (unroll, step):
            compiled = jax.jit(
                lambda variables, *a, run=run: run(nnx.merge(graphdef, variables), *a)
            )
            out = compiled(variables, initial_state(graph, ROWS), xs, DONE)
            assert_equal_to_scale(out.output, expected, tolerance=1e-10)


@functools.cache
def large_cycle():
    """A graph in float64, a state in use, and inputs."""
    description = random_graph(seed=0, populations=32, connections=110)
    graph = to_float64(build_graph(description)[0])
    assert reaches_batches_and_gathers(graph)
    xs = description.inputs(np.random.default_rng(5), STEPS, ROWS)
    return graph, state_in_use(graph, ROWS), xs


@pytest.mark.slow
def test_gradients_of_a_large_cycle_equal_those_of_stepping():
    with jax.enable_x64(True):
        assert_equal_to_scale(*gradients_both_ways(*large_cycle(), DONE))


@pytest.mark.slow
def test_vmap_over_parameters_runs_several_graphs_at_once():
    with jax.enable_x64(True):
        graph, state, xs = large_cycle()
        loss = make_loss(unroll, graph, state)

        def run(params):
            return jax.value_and_grad(loss)(params, xs, state["buffers"], DONE)

        factors, params = np.array([-1.0, 0.5, 1.0]), nnx.state(graph, nnx.Param)
        got = jax.jit(jax.vmap(run))(jax.tree.map(lambda x: jnp.multiply.outer(factors, x), params))
        alone = jax.jit(run)
        for place, factor in enumerate(factors):
            expected = alone(jax.tree.map(lambda x, factor=factor: factor * x, params))
            assert_equal_to_scale(jax.tree.map(lambda x, i=place: x[i], got), expected)


# ---- what they compile ---------------------------------------------------------------------------


def star(count):
    """Populations around a root, connected with it both ways, delays taken in turn."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 4, input_from="x")
    graph.add_population("root", 5, activation=nnx.swish)
    graph.connect("in", "root")
    for number in range(count):
        graph.add_population(f"body{number}", 3, activation=nnx.swish)
        graph.connect("root", f"body{number}", delay=1 + number % 3, reciprocal=True)
    graph.add_output("out", 2)
    graph.connect("root", "out")
    graph.finalize()
    return graph


def ring(count):
    """Populations that each hear two of the others, each pair another."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", 4, input_from="x")
    for number in range(count):
        graph.add_population(f"p{number}", 3, activation=nnx.swish)
    for number in range(count):
        graph.connect(f"p{number}", f"p{(number + 1) % count}", delay=1)
        graph.connect(f"p{number}", f"p{(number + 4) % count}", delay=2)
    graph.connect("in", "p0")
    graph.add_output("out", 2)
    graph.connect("p1", "out")
    graph.finalize()
    return graph


def count_equations(jaxpr):
    """The equations of a program, those of the programs inside it included."""
    return sum(
        1 + sum(map(count_equations, jaxprs_in_params(equation.params))) for equation in jaxpr.eqns
    )


@pytest.mark.fast("gradient-*", "step-star")
@pytest.mark.parametrize("build", [star, ring])
@pytest.mark.parametrize("program", ["step", "unroll", "gradient"])
def test_programs_do_not_grow_with_the_number_of_populations(build, program):
    def equations(count):
        graph = build(count)
        graphdef, params = nnx.split(graph)
        state, xs = initial_state(graph, ROWS), {"x": jnp.ones((STEPS, ROWS, 4))}

        def run(params):
            module = nnx.merge(graphdef, params)
            if program == "step":
                return module(state, {"x": xs["x"][0]})
            return module.unroll(state, xs, DONE)

        def gradient(params):
            return jax.grad(lambda params: jnp.sum(run(params).output["out"]))(params)

        traced = jax.make_jaxpr(gradient if program == "gradient" else run)(params)
        return count_equations(traced.jaxpr)

    assert equations(10) == equations(60)
