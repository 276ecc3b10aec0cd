"""One training run of `returns_vs_nnx_ppo.py` with nnx-ppo-train; prints its result as JSON."""

import json
import sys
import time
import types

import nnx_stateful
from _evaluation import network_return
from _return_tasks import TASKS
from flax import nnx
from nnx_ppo_train import (
    CategoricalSampler,
    EvalConfig,
    NormalTanhSampler,
    PPOAdapter,
    PPOConfig,
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


def main(task: str, seed: int, n_steps: int, n_episodes: int) -> dict[str, float]:
    spec = TASKS[task]
    env = spec.make_env()
    network = spec.network(PARTS, env, nnx.Rngs(seed))
    ppo = PPOConfig(**spec.ppo | {"total_steps": n_steps})
    config = TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False), seed=seed)
    started = time.perf_counter()
    train_ppo(env, network, config)
    seconds = time.perf_counter() - started
    value = network_return(deterministic(network), spec.make_eval_env(), n_episodes, spec.eval_steps)
    return {"return": value, "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
