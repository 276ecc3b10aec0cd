"""Trainings of `memory.py` with nnx-ppo-train: one network, several seeds; prints JSON."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from _evaluation import network_return
from _memory_tasks import (
    ENTROPY_WEIGHT,
    GRADIENT_NORM,
    HIDDEN,
    READOUT_INIT,
    make_task,
    settings,
)
from _published import as_published
from flax import nnx
from nnx_ppo_train import (
    CategoricalSampler,
    EvalConfig,
    PPOAdapter,
    TrainConfig,
    deterministic,
    train_ppo_many,
)
from nnx_ppo_train.presets import NetworkOptions, make_network
from nnx_stateful import GRU, LRU, LSTM, Dense, Sequential

CELLS = {"lstm": LSTM, "gru": GRU, "lru": LRU}
Build = Callable[[Any, nnx.Rngs], Any]


def preset(name: str) -> Build:
    """The preset of that name; a graph's connection has the delay that the task asks for."""

    def build(env: Any, rngs: nnx.Rngs) -> Any:
        delay = {"delay": getattr(env, "delay", 1)} if name == "graph" else {}
        options = NetworkOptions(
            hidden_size=HIDDEN, entropy_weight=ENTROPY_WEIGHT, normalize_obs=False, **delay
        )
        return make_network(name, env, rngs, options)

    return build


def separate(name: str) -> Build:
    """The recurrent preset twice, so that actor and critic share nothing, as in memorax."""

    def build(env: Any, rngs: nnx.Rngs) -> Any:
        def trunk() -> list[Any]:
            encoder = Dense(env.observation_size, HIDDEN, rngs, activation=nnx.swish)
            return [encoder, CELLS[name](HIDDEN, HIDDEN, rngs)]

        readout = Dense(HIDDEN, env.action_size, rngs, kernel_init=READOUT_INIT)
        sampler = CategoricalSampler(rngs, entropy_weight=ENTROPY_WEIGHT)
        return PPOAdapter(
            action=Sequential([*trunk(), readout, sampler]),
            value=Sequential([*trunk(), Dense(HIDDEN, 1, rngs)]),
        )

    return build


def train_all(env: Any, build: Build, config: TrainConfig, seeds: Sequence[int]) -> list[Any]:
    """The trained network of every seed."""
    result = train_ppo_many(lambda: env, build, config, seeds=seeds)
    return [state.networks for state in result.training_states]


def main(
    task: str,
    network: str,
    seeds: list[int],
    n_steps: int | None,
    share: bool,
    ppo: dict[str, Any],
) -> dict[str, Any]:
    env = make_task(task)
    algorithm = as_published(
        **settings(task, n_steps),
        **ppo,
        learning_rate_schedule="linear",
        gradient_clipping=GRADIENT_NORM,
    )
    config = TrainConfig(ppo=algorithm, eval=EvalConfig(enabled=False))
    build = preset(network) if share else separate(network)
    started = time.perf_counter()
    trained = train_all(env, build, config, seeds)
    seconds = time.perf_counter() - started
    returns = [network_return(deterministic(one), env) for one in trained]
    return {"returns": returns, "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
