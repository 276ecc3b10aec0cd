"""Built-in environments, all pure JAX, and the protocol that environments follow."""

from ._body_chain import BodyChain
from ._cartpole import CartPole
from ._constant_reward import ConstantReward
from ._counting_limit import CountingLimit
from ._delayed_point_mass import DelayedPointMass
from ._limit_reward import LimitReward
from ._protocol import Env, State
from ._recall import Recall
from ._registry import list_envs, make_env

__all__ = [
    "BodyChain",
    "CartPole",
    "ConstantReward",
    "CountingLimit",
    "DelayedPointMass",
    "Env",
    "LimitReward",
    "Recall",
    "State",
    "list_envs",
    "make_env",
]
