"""Dynamics of nnx-stateful as the compute of populations in a cycle: stepping equals unroll."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from nnx_graph import PopulationGraph
from nnx_stateful import (
    ALIF,
    CTRNN,
    LIF,
    LeakyIntegrator,
    Noise,
    OrnsteinUhlenbeckNoise,
    initial_state,
    scan_unroll,
)
from nnx_stateful.testing import assert_close

STEPS, ROWS, SIZE = 6, 4, 3
COMPUTES = {
    "leaky": LeakyIntegrator,
    "network": CTRNN,
    "white": Noise,
    "coloured": OrnsteinUhlenbeckNoise,
    "spiking": LIF,
    "adapting": ALIF,
}
OPTIONS = {
    "spiking": {"time_constant": 1.0, "threshold": 0.1, "refractory_steps": 1},
    "adapting": {"time_constant": 1.0, "threshold": 0.1, "learnable": True},
}


def ring_of_dynamics():
    """Each population drives the next, the last the first, with a delay of one step."""
    rngs = nnx.Rngs(0)
    graph = PopulationGraph(rngs)
    graph.add_input("in", SIZE, input_from="x")
    names = list(COMPUTES)
    for name, layer in COMPUTES.items():
        graph.add_population(name, SIZE, compute=layer(SIZE, rngs, **OPTIONS.get(name, {})))
    graph.add_output("out", SIZE)
    for src, dst in itertools.pairwise(names):
        graph.connect(src, dst)
    graph.connect("in", "leaky")
    graph.connect("in", "spiking")
    graph.connect(names[-1], names[0], delay=1)
    graph.connect(names[-1], "out")
    graph.finalize()
    return graph


def test_dynamics_in_a_cycle_unroll_as_they_step_and_replay():
    graph = ring_of_dynamics()
    graphdef, variables = nnx.split(graph)
    values = np.random.default_rng(0)
    xs = {"x": jnp.asarray(2 * values.standard_normal((STEPS, ROWS, SIZE)), jnp.float32)}
    done = jnp.asarray(values.random((STEPS, ROWS)) < 0.3)

    @jax.jit
    def both_ways_and_again(variables, state):
        graph = nnx.merge(graphdef, variables)
        unrolled = graph.unroll(state, xs, done)
        stepped = scan_unroll(graph, state, xs, done, None)
        return unrolled, stepped, graph.unroll(state, xs, done, unrolled.rollout_extras)

    state = initial_state(graph, ROWS)
    unrolled, stepped, replayed = both_ways_and_again(variables, state)
    assert_close("unrolled", stepped, unrolled, (1e-4, 1e-5))
    assert_close("replayed", unrolled, replayed, (1e-4, 1e-5))
    assert set(unrolled.next_state["computes"]) == set(COMPUTES)
    assert unrolled.output["out"].shape == (STEPS, ROWS, SIZE)
    for name in ("spiking", "adapting"):
        rate = unrolled.metrics["computes"][name]["firing_rate"]
        assert rate.shape == (STEPS, ROWS)
        assert 0 < rate.mean() < 1
