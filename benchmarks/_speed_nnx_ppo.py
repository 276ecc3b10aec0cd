"""Trains with nnx-ppo for `speed_vs_nnx_ppo.py`, in the environment of that peer."""

import json
import sys
import types

from _speed_networks import NETWORKS
from _speed_worker import timed
from flax import nnx
from nnx_ppo.algorithms.config import EvalConfig, PPOConfig, TrainConfig
from nnx_ppo.algorithms.ppo import train_ppo
from nnx_ppo.networks.adapter import PPOAdapter
from nnx_ppo.networks.containers import Sequential
from nnx_ppo.networks.feedforward import Dense
from nnx_ppo.networks.graph import PopulationGraph
from nnx_ppo.networks.normalizer import Normalizer
from nnx_ppo.networks.recurrent import LSTM
from nnx_ppo.networks.sampling_layers import NormalTanhSampler
from nnx_ppo.networks.utils import Filter, Map

PARTS = types.SimpleNamespace(
    Dense=Dense,
    Filter=Filter,
    LSTM=LSTM,
    Map=Map,
    NormalTanhSampler=NormalTanhSampler,
    Normalizer=Normalizer,
    PPOAdapter=PPOAdapter,
    PopulationGraph=PopulationGraph,
    Sequential=Sequential,
)


def main(name: str) -> None:
    spec = NETWORKS[name]
    network = spec.network(PARTS, nnx.Rngs(0))
    config = TrainConfig(ppo=PPOConfig(**spec.ppo()), eval=EvalConfig(enabled=False))
    timed(lambda log_fn: train_ppo(spec.env, network, config, log_fn=log_fn))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
