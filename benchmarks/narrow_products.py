"""What a narrow product and its gradients cost on a CPU: column by column, beside one product.

Run with `uv run python benchmarks/narrow_products.py`. A policy's head multiplies rows to a few
columns: those of a step, or of a whole sequence. `nnx_stateful.multiply_rows` does so column by
column up to a width, which this script is to set: the two forms in turn, medians; each figure is
the product with both of its gradients.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

ROWS = (32, 512, 4096)
FEATURES = (32, 256, 1600)
COLUMNS = (1, 2, 3, 6, 8)
REPEATS = 20


def by_columns(x: Array, kernel: Array) -> Array:
    return jnp.stack([x @ column for column in kernel.T], axis=-1)


def repeated(multiply: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A program that multiplies and derives `REPEATS` times, one after the other."""

    def once(total: Array, x: Array, kernel: Array) -> Array:
        y, pullback = jax.vjp(multiply, jax.lax.optimization_barrier(x + total), kernel)
        d_x, d_kernel = jax.lax.optimization_barrier(pullback(y))
        return total + 1e-9 * (d_x[0, 0] + d_kernel[0, 0])

    def program(x: Array, kernel: Array) -> Array:
        return jax.lax.fori_loop(0, REPEATS, lambda _, total: once(total, x, kernel), jnp.zeros(()))

    return jax.jit(program)


def microseconds(program: Callable[[Array, Array], Array], x: Array, kernel: Array) -> float:
    begun = time.perf_counter()
    jax.block_until_ready(program(x, kernel))
    return (time.perf_counter() - begun) / REPEATS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(f"{'rows':>6}{'features':>9}{'columns':>8}{'at once':>9}{'apart':>9}   microseconds")
    for rows, features, columns in itertools.product(ROWS, FEATURES, COLUMNS):
        x = jax.random.normal(jax.random.key(0), (rows, features))
        kernel = jax.random.normal(jax.random.key(1), (features, columns))
        programs = [repeated(jnp.matmul), repeated(by_columns)]
        found: list[list[float]] = [[], []]
        for turn in range(options.rounds + 1):
            for program, times in zip(programs, found, strict=True):
                spent = microseconds(program, x, kernel)
                times += [spent] if turn else []  # the first turn compiles
        cells = "".join(f"{statistics.median(times):9.1f}" for times in found)
        print(f"{rows:6}{features:9}{columns:8}{cells}", flush=True)


if __name__ == "__main__":
    main()
