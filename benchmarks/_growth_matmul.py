"""Multiplies matrices without end for `growth.py`: how fast is this machine at its best?"""

import json
import sys
import time

import jax
import jax.numpy as jnp
from _speed_worker import peak_bytes

SIZE = 1024
FLOPS = 2 * SIZE**3
"""Of one product."""


def main(chunk: int) -> None:
    """Prints a line of JSON after so many products of two float32 matrices (SIZE, SIZE)."""
    left, right = jax.random.normal(jax.random.key(0), (2, SIZE, SIZE))
    product = jax.jit(jnp.matmul)
    jax.block_until_ready(product(left, right))
    while True:
        print(json.dumps({"time": time.monotonic(), "peak_bytes": peak_bytes()}), flush=True)
        for _ in range(chunk):
            out = product(left, right)
        jax.block_until_ready(out)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
