"""Action samplers, which call their source of randomness ``rng``."""

import abc

import nnx_ppo_train
from flax import nnx
from nnx_stateful import PyTree, StatefulModule, StatefulModuleOutput

__all__ = ["ActionSampler", "NormalTanhSampler"]


class ActionSampler(StatefulModule):
    """What a sampler of one's own derives from: a module with a ``deterministic`` switch.

    Its output is ``{"action": ..., "log_likelihood": ...}``. It draws afresh, and emits what it
    drew, where rollout_extras is None, and evaluates the stored draw otherwise. All samplers of
    nnx_ppo_train count as instances.
    """

    deterministic: bool = False

    @abc.abstractmethod
    def __call__(
        self, state: PyTree, x: PyTree, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        """Samples actions, or evaluates stored ones, for distribution parameters ``x``."""


ActionSampler.register(nnx_ppo_train.ActionSampler)


class NormalTanhSampler(nnx_ppo_train.NormalTanhSampler):
    """As :class:`nnx_ppo_train.NormalTanhSampler`; ``rng`` is its ``rngs``.

    Example:
      >>> NormalTanhSampler(rng=nnx.Rngs(0), entropy_weight=1e-2).entropy_weight
      0.01
    """

    def __init__(
        self,
        rng: nnx.Rngs,
        entropy_weight: float,
        min_std: float = 1e-3,
        std_scale: float = 1.0,
    ):
        super().__init__(rng, entropy_weight, min_std, std_scale)
