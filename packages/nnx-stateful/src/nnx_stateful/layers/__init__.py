"""Layers: modules with parameters, memory, statistics or noise of their own."""

from ._ar1 import AR1VariationalBottleneck
from ._delay import Delay
from ._dense import Dense
from ._gru import GRU
from ._lru import LRU
from ._lstm import LSTM
from ._mlp import make_mlp, make_mlp_layers
from ._normalizer import Normalizer, NormalizerStatistics
from ._recurrent import RecurrentLayer
from ._stochastic import StochasticModule
from ._variational import VariationalBottleneck, kl_to_standard_normal

__all__ = [
    "GRU",
    "LRU",
    "LSTM",
    "AR1VariationalBottleneck",
    "Delay",
    "Dense",
    "Normalizer",
    "NormalizerStatistics",
    "RecurrentLayer",
    "StochasticModule",
    "VariationalBottleneck",
    "kl_to_standard_normal",
    "make_mlp",
    "make_mlp_layers",
]
