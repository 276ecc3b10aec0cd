"""Trainings of `memory.py` with nnx-ppo-train: one network, several seeds; prints JSON."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from _evaluation import network_return
from _memory_tasks import ENTROPY_WEIGHT, GRADIENT_NORM, HIDDEN, make_task, settings
from flax import nnx
from nnx_ppo_train import EvalConfig, PPOConfig, TrainConfig, deterministic, train_ppo_many
from nnx_ppo_train.presets import NetworkOptions, make_network


def train_all(
    env: Any, network: Callable[[Any, nnx.Rngs], Any], config: TrainConfig, seeds: Sequence[int]
) -> list[Any]:
    """The trained network of every seed."""
    result = train_ppo_many(lambda: env, network, config, seeds=seeds)
    return [state.networks for state in result.training_states]


def preset(name: str, env: Any) -> Callable[[Any, nnx.Rngs], Any]:
    """Makes the preset of that name; a graph's connection has the delay that the task asks for."""
    delay = {"delay": getattr(env, "delay", 1)} if name == "graph" else {}
    options = NetworkOptions(
        hidden_size=HIDDEN, entropy_weight=ENTROPY_WEIGHT, normalize_obs=False, **delay
    )
    return lambda env, rngs: make_network(name, env, rngs, options)


def main(task: str, network: str, seeds: list[int], n_steps: int | None) -> dict[str, Any]:
    env = make_task(task)
    ppo = PPOConfig(
        **settings(task, n_steps),
        learning_rate_schedule="linear",
        gradient_clipping=GRADIENT_NORM,
    )
    config = TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False))
    started = time.perf_counter()
    trained = train_all(env, preset(network, env), config, seeds)
    seconds = time.perf_counter() - started
    returns = [network_return(deterministic(one), env) for one in trained]
    return {"returns": returns, "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
