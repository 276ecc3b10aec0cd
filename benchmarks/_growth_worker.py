"""Trains a star of populations without end for `growth.py`."""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
from _published import as_published
from _speed_networks import Speed, star
from _speed_ours import PARTS
from _speed_worker import peak_bytes
from flax import nnx
from nnx_ppo_train import EvalConfig, TrainConfig, train_ppo


def main(
    n_envs: int, rollout_length: int, n_populations: int, size: int, delays: Sequence[int]
) -> None:
    """Prints a line of JSON at the start and after every iteration."""
    build = star(n_populations, size, tuple(delays))
    spec = Speed(build, n_envs=n_envs, rollout_length=rollout_length, is_graph=True)
    started = time.monotonic()
    network = spec.network(PARTS, nnx.Rngs(0))
    n_params = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(network, nnx.Param)))

    def tell(now: float) -> None:
        line = {"time": now, "peak_bytes": peak_bytes(), "n_params": n_params}
        print(json.dumps(line), flush=True)

    def log_fn(metrics: Any, steps: int) -> None:
        del metrics, steps
        tell(time.monotonic())

    tell(started)
    config = TrainConfig(ppo=as_published(**spec.ppo()), eval=EvalConfig(enabled=False))
    train_ppo(spec.env, network, config, log_fn=log_fn)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
