"""The protocol of stateful modules."""

from nnx_ppo_train import PPONetworkOutput
from nnx_stateful import ACTIVATION_KEY, PyTree, StatefulModule, StatefulModuleOutput

ModuleState = PyTree
"""A carry state: any tree of arrays whose leaves lead with the batch axis."""

__all__ = [
    "ACTIVATION_KEY",
    "ModuleState",
    "PPONetworkOutput",
    "StatefulModule",
    "StatefulModuleOutput",
]
