"""Action samplers: from distribution parameters to actions and their log-likelihoods."""

from ._base import ActionSampler
from ._bernoulli import BernoulliSampler
from ._beta import BetaSampler
from ._categorical import CategoricalSampler
from ._entropy_scale import entropy_scaled
from ._multi_categorical import MultiCategoricalSampler
from ._normal import NormalSampler
from ._normal_tanh import NormalTanhSampler

__all__ = [
    "ActionSampler",
    "BernoulliSampler",
    "BetaSampler",
    "CategoricalSampler",
    "MultiCategoricalSampler",
    "NormalSampler",
    "NormalTanhSampler",
    "entropy_scaled",
]
