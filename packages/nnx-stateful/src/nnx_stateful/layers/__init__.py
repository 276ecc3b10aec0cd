"""Layers: modules with parameters, memory, statistics or noise of their own."""

from ._alif import ALIF
from ._ar1 import AR1VariationalBottleneck
from ._ctrnn import CTRNN
from ._delay import Delay
from ._dense import Dense
from ._gru import GRU
from ._leaky import LeakyIntegrator
from ._lif import LIF
from ._lru import LRU
from ._lstm import LSTM
from ._mlp import make_mlp, make_mlp_layers
from ._normalizer import Normalizer, NormalizerStatistics
from ._ornstein_uhlenbeck import OrnsteinUhlenbeckNoise
from ._per_unit import FixedParameter
from ._product import multiply_rows, narrow
from ._recurrent import RecurrentLayer
from ._stochastic import StochasticModule
from ._surrogate import Surrogate
from ._variational import VariationalBottleneck, kl_to_standard_normal
from ._white_noise import Noise

__all__ = [
    "ALIF",
    "CTRNN",
    "GRU",
    "LIF",
    "LRU",
    "LSTM",
    "AR1VariationalBottleneck",
    "Delay",
    "Dense",
    "FixedParameter",
    "LeakyIntegrator",
    "Noise",
    "Normalizer",
    "NormalizerStatistics",
    "OrnsteinUhlenbeckNoise",
    "RecurrentLayer",
    "StochasticModule",
    "Surrogate",
    "VariationalBottleneck",
    "kl_to_standard_normal",
    "make_mlp",
    "make_mlp_layers",
    "multiply_rows",
    "narrow",
]
