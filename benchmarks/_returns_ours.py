"""One training run of `returns_vs_nnx_ppo.py` with nnx-ppo-train; prints its result as JSON."""

import json
import sys
import time
import types

import nnx_stateful
from _evaluation import network_return
from _published import as_published
from _return_tasks import TASKS
from flax import nnx
from nnx_ppo_train import (
    CategoricalSampler,
    EvalConfig,
    NormalTanhSampler,
    PPOAdapter,
    TrainConfig,
    deterministic,
    train_ppo,
)

PARTS = types.SimpleNamespace(
    CategoricalSampler=CategoricalSampler,
    Dense=nnx_stateful.Dense,
    Flattener=nnx_stateful.Flattener,
    LSTM=nnx_stateful.LSTM,
    NormalTanhSampler=NormalTanhSampler,
    Normalizer=nnx_stateful.Normalizer,
    PPOAdapter=PPOAdapter,
    Parallel=nnx_stateful.Parallel,
    Sequential=nnx_stateful.Sequential,
)


def main(task: str, seed: int, n_steps: int | None) -> dict[str, float]:
    spec = TASKS[task]
    network = spec.network(PARTS, spec.env, nnx.Rngs(seed))
    config = TrainConfig(
        ppo=as_published(**spec.ppo(n_steps)), eval=EvalConfig(enabled=False), seed=seed
    )
    started = time.perf_counter()
    train_ppo(spec.env, network, config)
    seconds = time.perf_counter() - started
    acting = deterministic(network)
    return {"return": network_return(acting, spec.evaluated), "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
