"""Graphs with cycles, and the gradients through them, that several test modules use."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from nnx_graph import Connection, Population, PopulationGraph, Unnamed
from nnx_graph.testing import GraphDescription
from nnx_stateful import initial_state, scan_unroll

ACTIVATIONS = (None, jnp.tanh, nnx.swish)

SEVERAL_LEVELS = GraphDescription(
    (
        Population(name="in", size=2, input_from="x"),
        Population(name="a", size=1, activation=jnp.tanh),
        Population(name="b", size=3, activation=nnx.swish),
        Population(name="c", size=2, activation=jnp.tanh, output_to="c"),
        Population(name="d", size=3),
        Population(name="e", size=3, activation=jnp.tanh),
        Population(name="out", size=2, output_to="out"),
    ),
    (
        Connection(src="in", dst="a"),
        Connection(src="in", dst="c", delay=2),
        Connection(src="a", dst="b"),
        Connection(src="b", dst="c"),
        Connection(src="a", dst="c"),  # a, b, c: three levels of one cycle
        Connection(src="a", dst="c", delay=2, index=1),
        Connection(src="a", dst="c", delay=2, index=2),
        Connection(src="c", dst="a", delay=1),
        Connection(src="c", dst="b", delay=3),
        Connection(src="b", dst="b", delay=1),
        Connection(src="c", dst="c", delay=4),
        Connection(src="c", dst="c", delay=1, index=1),
        Connection(src="in", dst="d", delay=1),
        Connection(src="d", dst="e"),  # another cycle in the same unit
        Connection(src="e", dst="d", delay=2),
        Connection(src="c", dst="out", delay=5),  # remembered longer than the cycle needs
        Connection(src="e", dst="out"),
        Connection(src="d", dst="out", delay=1),
    ),
)


def random_graph(
    seed: int, populations: int, connections: int, customs: int = 0
) -> GraphDescription:
    """Draws a graph of populations of 1 to 4 units, three of them inputs and three outputs.

    Args:
      seed: of the draws.
      populations: how many, at least 6.
      connections: how many, of delays 0 to 4.
      customs: so many of the connections have a module of their own.
    """
    rng = np.random.default_rng(seed)
    drawn = []
    for number in range(populations):
        drawn.append(
            Population(
                name=f"p{number}",
                size=int(rng.integers(1, 5)),
                activation=ACTIVATIONS[rng.integers(len(ACTIVATIONS))],
                input_from=f"x{number}" if number < 3 else None,
                output_to=f"y{number}" if number >= populations - 3 else None,
            )
        )
    wires: list[Connection] = []
    for number in range(connections):
        src, dst = (int(end) for end in rng.integers(populations, size=2))
        delay = int(rng.integers(0 if src < dst else 1, 5))
        ends = f"p{src}", f"p{dst}"
        parallel = sum((c.src, c.dst) == ends for c in wires)
        wires.append(
            Connection(
                src=ends[0],
                dst=ends[1],
                delay=delay,
                index=parallel,
                transform=Unnamed("LeakyProbe") if number < customs else None,
            )
        )
    return GraphDescription(tuple(drawn), tuple(wires))


def state_in_use(graph: PopulationGraph, rows: int, seed: int = 0):
    """A carry state whose buffers hold something, their next slots somewhere."""
    rng = np.random.default_rng(seed)
    state = initial_state(graph, rows)
    buffers = {k: jnp.asarray(rng.normal(size=b.shape)) for k, b in state["buffers"].items()}
    index = {
        k: jnp.asarray(rng.integers(b.shape[1], size=rows), jnp.int32) for k, b in buffers.items()
    }
    return {**state, "buffers": buffers, "index": index}


def unroll(graph, state, xs, done):
    return graph.unroll(state, xs, done)


def step(graph, state, xs, done):
    return scan_unroll(graph, state, xs, done, None)


def make_loss(run, graph, state):
    """``loss(params, xs, buffers, done)``, a random projection of all that a run leaves behind."""
    graphdef, _, rest = nnx.split(graph, nnx.Param, ...)

    def loss(params, xs, buffers, done):
        out = run(nnx.merge(graphdef, params, rest), {**state, "buffers": buffers}, xs, done)
        leaves = jax.tree.leaves((out.output, out.regularization_loss, out.next_state))
        rng = np.random.default_rng(0)
        return sum(
            jnp.sum(leaf * rng.normal(size=leaf.shape))
            for leaf in leaves
            if jnp.issubdtype(leaf.dtype, jnp.floating)
        )

    return loss


def gradients_both_ways(graph, state, xs, done):
    """Gradients for parameters, inputs and first buffers: unrolled, and stepped."""

    def both(*arguments):
        return tuple(
            jax.grad(make_loss(run, graph, state), argnums=(0, 1, 2))(*arguments, done)
            for run in (unroll, step)
        )

    return jax.jit(both)(nnx.state(graph, nnx.Param), xs, state["buffers"])


def assert_equal_to_scale(got, expected, tolerance=1e-8):
    """Leaf by leaf, relative to the largest entry of any leaf."""
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    scale = max((float(jnp.abs(x).max()) for x in jax.tree.leaves(expected)), default=1.0)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale), got, expected
    )
