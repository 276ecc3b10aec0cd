"""Trains with nnx-ppo-train for `speed_vs_nnx_ppo.py`."""

import json
import sys
import types

import nnx_stateful
from _published import as_published
from _speed_networks import NETWORKS
from _speed_worker import timed
from flax import nnx
from nnx_graph import PopulationGraph
from nnx_ppo_train import (
    EvalConfig,
    LoggingLevel,
    NormalTanhSampler,
    PPOAdapter,
    TrainConfig,
    train_ppo,
)

PARTS = types.SimpleNamespace(
    Dense=nnx_stateful.Dense,
    Filter=nnx_stateful.Filter,
    GRU=nnx_stateful.GRU,
    LRU=nnx_stateful.LRU,
    LSTM=nnx_stateful.LSTM,
    Map=nnx_stateful.Map,
    NormalTanhSampler=NormalTanhSampler,
    Normalizer=nnx_stateful.Normalizer,
    PPOAdapter=PPOAdapter,
    PopulationGraph=PopulationGraph,
    Sequential=nnx_stateful.Sequential,
)


def main(name: str) -> None:
    spec = NETWORKS[name]
    network = spec.network(PARTS, nnx.Rngs(0))
    ppo = as_published(**spec.ppo(), logging_level=LoggingLevel.LOSSES)  # nnx-ppo's default
    config = TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False))
    timed(lambda log_fn: train_ppo(spec.env, network, config, log_fn=log_fn))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
