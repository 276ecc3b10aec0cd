"""Action samplers: from distribution parameters to actions and their log-likelihoods."""

from ._base import ActionSampler
from ._categorical import CategoricalSampler
from ._normal import NormalSampler
from ._normal_tanh import NormalTanhSampler

__all__ = ["ActionSampler", "CategoricalSampler", "NormalSampler", "NormalTanhSampler"]
