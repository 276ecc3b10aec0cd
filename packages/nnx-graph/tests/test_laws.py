"""The laws of stateful modules, for fixed and random graphs."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from nnx_graph import PopulationGraph
from nnx_graph.testing import LeakyProbe, build_graph, graph_descriptions
from nnx_stateful import GRU, Delay, Dense, VariationalBottleneck
from nnx_stateful.testing import StreamProbe, check_stateful_module

ROWS = 3


def memory_graph():
    """Every kind of custom module, inside and outside of a cycle, and parallel connections."""
    rngs = nnx.Rngs(0)
    graph = PopulationGraph(rngs)
    graph.add_input("eye", 2, input_from="vision")
    graph.add_input("ear", 2, input_from="sound", activation=jnp.tanh)
    graph.add_population("cortex", 4, compute=GRU(4, 4, rngs))
    graph.add_output("hand", 2, output_to="action")
    graph.connect("eye", "cortex", transform=Dense(2, 4, rngs))
    graph.connect("ear", "cortex", delay=2, transform=LeakyProbe(2, 4))
    graph.connect("cortex", "cortex", delay=1, transform=Delay(jnp.zeros(4), 1))
    graph.connect("cortex", "cortex", delay=3)
    graph.connect("cortex", "hand", transform=VariationalBottleneck(2, rngs))
    graph.connect("hand", "eye", delay=2)
    graph.finalize()
    return graph, {"vision": 2, "sound": 2}


def oscillator():
    graph = PopulationGraph(nnx.Rngs(1))
    graph.add_population("a", 2, activation=jnp.tanh)
    graph.add_output("b", 1)
    graph.connect("a", "b")
    graph.connect("b", "a", delay=2)
    graph.finalize()
    graph.connection("a", "b").bias[...] = 1.0
    return graph, {"clock": 1}


def feedforward():
    graph = PopulationGraph(nnx.Rngs(2))
    graph.add_input("a", 2, input_from="x")
    graph.add_output("b", 1)
    graph.connect("a", "b")
    graph.finalize()
    return graph, {"x": 2}


def with_streams():
    graph = PopulationGraph(nnx.Rngs(3))
    graph.add_input("a", 2, input_from="x")
    graph.add_output("b", 2)
    graph.connect("a", "b", transform=StreamProbe(nnx.Rngs(4)), delay=1)
    graph.finalize()
    return graph, {"x": 2}


def sample(widths, rows=ROWS):
    random = np.random.default_rng(0)
    return {key: jnp.asarray(random.normal(size=(rows, n)), float) for key, n in widths.items()}


@pytest.mark.fast("memory_graph")
@pytest.mark.parametrize("make", [memory_graph, oscillator, feedforward])
def test_graph_keeps_the_laws(make):
    graph, widths = make()
    check_stateful_module(graph, sample(widths), float64=True)


def test_graph_with_random_streams_keeps_the_laws():
    graph, widths = with_streams()
    check_stateful_module(graph, sample(widths))


@pytest.mark.slow
@settings(max_examples=max(settings().max_examples // 10, 1))
@given(description=graph_descriptions(max_populations=3), seed=st.integers(0, 2**16))
def test_random_graph_keeps_the_laws(description, seed):
    graph, _ = build_graph(description, seed)
    widths = {p.input_from: p.size for p in graph.spec.inputs}
    check_stateful_module(graph, sample(widths or {"clock": 1}), float64=True)
