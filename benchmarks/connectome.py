"""What a graph of the size of a small connectome costs to build, compile and run.

Run with `uv run python benchmarks/connectome.py`. 279 populations, as many as
the somatic neurons of C. elegans that have connections (Varshney et al. 2011, PLoS Computational
Biology 7, e1001066), of 1 to 4 units; 2,000 connections with delays of 1 to 5 steps between
populations drawn in proportion to heavy-tailed weights, so that a few of them have many. Building
includes what the first graph of a process costs; compilations count without JAX's cache.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from nnx_graph import PopulationGraph

INPUTS, OUTPUTS = 20, 10


def connectome(populations: int, connections: int, seed: int = 0) -> PopulationGraph:
    """Returns a random graph; its first populations are inputs, the next ones outputs."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, populations)
    weights = rng.pareto(1.5, populations) + 0.3
    weights /= weights.sum()
    graph = PopulationGraph(nnx.Rngs(seed))
    for number, size in enumerate(map(int, sizes)):
        name = f"n{number}"
        if number < INPUTS:
            graph.add_input(name, size, input_from=name, activation=jnp.tanh)
        elif number < INPUTS + OUTPUTS:
            graph.add_output(name, size, activation=jnp.tanh)
        else:
            graph.add_population(name, size, activation=jnp.tanh)
    ends = (rng.choice(populations, connections, p=weights) for _ in range(2))
    delays = rng.integers(1, 6, connections)
    for src, dst, delay in zip(*ends, map(int, delays), strict=True):
        graph.connect(f"n{src}", f"n{dst}", delay=delay)
    graph.finalize()
    return graph


def timed(what: str, run: Callable[[], Any]) -> Any:
    """Runs, prints the seconds, and returns what came of it."""
    begun = time.perf_counter()
    result = jax.block_until_ready(run())
    print(f"{what:<32}{time.perf_counter() - begun:8.2f} s", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--populations", type=int, default=279)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1, help="of the batch")
    given = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)
    graph = timed("build", lambda: connectome(given.populations, given.connections))
    graphdef, params, rest = nnx.split(graph, nnx.Param, ...)
    state = graph.initialize_state(given.rows)
    xs = {p.name: jnp.ones((given.steps, given.rows, p.size)) for p in graph.spec.inputs}

    def unroll(params: Any, xs: Any) -> Any:
        return nnx.merge(graphdef, params, rest).unroll(state, xs).output

    def loss(params: Any, xs: Any) -> jax.Array:
        return sum((jnp.sum(y**2) for y in unroll(params, xs).values()), jnp.zeros(()))

    def step(params: Any, state: Any, x: Any) -> Any:
        return nnx.merge(graphdef, params, rest)(state, x).next_state

    first = jax.tree.map(lambda leaf: leaf[0], xs)
    one = timed("compile a step", jax.jit(step).lower(params, state, first).compile)

    def calls() -> Any:
        now = state
        for _ in range(given.steps):
            now = one(params, now, first)
        return now

    timed(f"run {given.steps} steps, one by one", calls)
    whole = timed(f"compile {given.steps} steps", jax.jit(unroll).lower(params, xs).compile)
    timed(f"run {given.steps} steps", lambda: whole(params, xs))
    slope = timed("compile their gradient", jax.jit(jax.grad(loss)).lower(params, xs).compile)
    timed("run their gradient", lambda: slope(params, xs))


if __name__ == "__main__":
    main()
