"""Built-in environments, all pure JAX, and the protocol that environments follow."""

from ._body_chain import BodyChain
from ._cartpole import CartPole
from ._constant_reward import ConstantReward
from ._count_recall import CountRecall
from ._counting_limit import CountingLimit
from ._delayed_point_mass import DelayedPointMass
from ._hybrid_choice import HybridChoice
from ._limit_reward import LimitReward
from ._masked_choice import MaskedChoice
from ._multi_choice import MultiChoice
from ._protocol import Env, State
from ._recall import Recall
from ._registry import list_envs, make_env
from ._repeat_previous import RepeatPrevious

__all__ = [
    "BodyChain",
    "CartPole",
    "ConstantReward",
    "CountRecall",
    "CountingLimit",
    "DelayedPointMass",
    "Env",
    "HybridChoice",
    "LimitReward",
    "MaskedChoice",
    "MultiChoice",
    "Recall",
    "RepeatPrevious",
    "State",
    "list_envs",
    "make_env",
]
