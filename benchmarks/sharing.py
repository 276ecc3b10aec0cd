"""What it costs to compile a graph in which many connections share one transform, beside few.

Run with `uv run python benchmarks/sharing.py`. Between two layers of populations of 8 units, 10 or
1,000 connections with delays of 0 to 2 steps share a module, or the weights of a default
connection; compiled is the gradient of a loss over a sequence. The two sizes in turn, medians,
without JAX's cache; the first compilation of the process does not count.
"""

import argparse
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from nnx_graph import PopulationGraph
from nnx_stateful import GRU, Dense

SIZE, STEPS, ROWS = 8, 8, 4
COUNTS = (10, 1000)
SHARED = {
    "Dense": {"transform": Dense(SIZE, SIZE, nnx.Rngs(1))},
    "GRU": {"transform": GRU(SIZE, SIZE, nnx.Rngs(1))},
    "default": {"share": "weights"},
}


def sharing_graph(count: int, options: dict[str, Any]) -> PopulationGraph:
    """Returns a graph of two layers with so many connections between them."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("in", SIZE, input_from="x")
    graph.add_output("out", SIZE)
    width = max(round(count**0.5), 2)
    for number in range(width):
        for layer in "ab":
            graph.add_population(f"{layer}{number}", SIZE, activation=jnp.tanh)
        graph.connect("in", f"a{number}", share="in")
        graph.connect(f"b{number}", "out", share="out")
    for number in range(count):
        src, dst = f"a{number % width}", f"b{number // width % width}"
        graph.connect(src, dst, delay=number % 3, **options)
    graph.finalize()
    return graph


def compile_seconds(graph: PopulationGraph) -> float:
    """Seconds to trace and compile the gradient of a loss."""
    graphdef, params, rest = nnx.split(graph, nnx.Param, ...)
    xs = {"x": jnp.ones((STEPS, ROWS, SIZE))}

    def loss(params: Any, rest: Any) -> jax.Array:
        local = nnx.merge(graphdef, params, rest)
        return jnp.sum(local.unroll(local.initialize_state(ROWS), xs).output["out"] ** 2)

    jax.clear_caches()
    begun = time.perf_counter()
    jax.jit(jax.grad(loss)).lower(params, rest).compile()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)
    print(f"{'shared':<10}" + "".join(f"{count:>8,}" for count in COUNTS) + "   seconds")
    for name, sharing in SHARED.items():
        graphs = {count: sharing_graph(count, sharing) for count in COUNTS}
        compile_seconds(graphs[COUNTS[0]])
        found: dict[int, list[float]] = {count: [] for count in COUNTS}
        for _ in range(options.rounds):
            for count, graph in graphs.items():
                found[count].append(compile_seconds(graph))
        cells = [f"{statistics.median(found[count]):8.2f}" for count in COUNTS]
        print(f"{name:<10}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
