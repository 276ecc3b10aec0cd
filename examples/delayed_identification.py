"""Identification of a network with delays: who hears whom, and how late, from activity alone.

Six noisy linear units hear two of them each, after 1 to 8 steps. The model knows neither who nor
when: it predicts each from the past of all, over 36 connections whose weights begin at zero and
whose delays in the middle of their range. Each reads the whole range at first, and less as its
spread narrows (as the Gaussians of Hammouamri et al. 2023, arXiv:2306.17670, do).
"""

import random

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from nnx_graph import DelaySpread, LearnableDelay, PopulationGraph


@nnx.jit
def unroll(graph: PopulationGraph, xs: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return graph.unroll(graph.initialize_state(8), xs).output


def main(seed: int = 0, names: str = "ABCDEF", steps: int = 300) -> tuple[dict, dict]:
    """Returns the delays of the true connections, and of those found, by source and unit."""
    rng, units = random.Random(seed), list(names)
    edges = [(source, unit, rng.randint(1, 8)) for unit in units for source in rng.sample(units, 2)]
    truth = PopulationGraph.from_edges(edges, 1, nnx.Rngs(0), inputs=units, outputs=units)
    for source, unit, _ in edges:
        truth.connection(source, unit).kernel[...] = rng.choice([-1, 1]) * rng.uniform(0.27, 0.33)
    noise = jax.random.normal(jax.random.key(seed), (len(units), 500, 8, 1))
    activity = unroll(truth, dict(zip(units, noise, strict=True)))  # of each unit (500, 8, 1)

    past, now = ({f"{time} {unit}": unit for unit in units} for time in ("past", "now"))
    pairs, delay = [(source, unit) for source in past for unit in now], LearnableDelay(1, 10)
    model = PopulationGraph.from_edges(pairs, 1, nnx.Rngs(0), delay=delay, inputs=past, outputs=now)
    # Weights of zero, and delays in the middle.
    nnx.update(model, jax.tree.map(jnp.zeros_like, nnx.state(model, nnx.Param)))
    optimizer = nnx.Optimizer(model, optax.adam(0.05), wrt=nnx.Param)

    def loss(model):
        errors = jax.tree.map(optax.l2_loss, unroll(model, activity), activity)
        return sum(error.mean() for error in errors.values())

    @nnx.jit
    def step(model, optimizer, spread):
        nnx.update(model, jax.tree.map(lambda old: 0 * old + spread, nnx.state(model, DelaySpread)))
        optimizer.update(model, nnx.grad(loss)(model))

    for spread in jnp.geomspace(9.0, 1.0, steps):
        step(model, optimizer, spread)
    views = {(past[s], now[u]): model.connection(s, u) for s, u in pairs}
    found = {pair: float(v.delay[...]) for pair, v in views.items() if abs(v.kernel[0, 0]) > 0.15}
    return {(source, unit): delay for source, unit, delay in edges}, found


if __name__ == "__main__":
    there, found = main()
    for pair in sorted(there | found):
        print(*pair, f"true {there.get(pair)}, found {found.get(pair, jnp.nan):.2f}")
