"""Peak of the host's memory while a large training state is saved.

Run with `uv run python benchmarks/checkpoint_memory.py --megabytes 300`; Linux only, since it reads
/proc. The state is one matrix with its two moments of Adam. The resident memory is sampled every 2
ms, from just before the function of `make_checkpoint_fn` is called until the save is done.
"""

import argparse
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
from flax import nnx
from nnx_ppo_train import TrainingState, make_checkpoint_fn
from nnx_stateful import Dense
from soak import MIB, Sampler, resident, state_bytes

WIDTH = 1000


def large_state(megabytes: float) -> TrainingState:
    """A training state of about so many MiB."""
    network = Dense(round(megabytes * MIB / 3 / 4 / WIDTH), WIDTH, nnx.Rngs(0))
    moments = [jax.tree.map(jnp.ones_like, nnx.state(network, nnx.Param)) for _ in range(2)]
    state = TrainingState(network, (), (), tuple(moments), (), jax.random.key(0), 0, None)
    return jax.block_until_ready(state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=300.0)
    parser.add_argument("--saves", type=int, default=3)
    options = parser.parse_args()
    state = large_state(options.megabytes)
    size = state_bytes(state) / MIB
    print(f"state {size:.0f} MiB")
    for number in range(options.saves):
        with tempfile.TemporaryDirectory() as folder, Sampler(every=0.002) as sampler:
            before, begun = resident(), sampler.seconds + time.monotonic()
            save = make_checkpoint_fn(Path(folder) / "checkpoints")
            save(state, 0)
            called = time.monotonic() - begun
            save.wait()
            took = time.monotonic() - begun
        peak = max(sample.resident for sample in sampler.samples) - before
        print(
            f"save {number}: {peak:.0f} MiB above {before:.0f} MiB, {peak / size:.2f} times the "
            f"state; the call {called:.2f} s, all {took:.2f} s"
        )


if __name__ == "__main__":
    main()
