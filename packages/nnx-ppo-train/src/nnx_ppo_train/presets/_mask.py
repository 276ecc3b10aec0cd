"""How the action mask gets from the observation to the samplers, past everything in between.

Where an observation has a mask, what flows through a preset is ``{"features": ..., "mask": ...}``
instead of the features alone. Every function here leaves a preset without mask as it is.
"""

import operator
from typing import Any

from nnx_stateful import Apply, Call, Container, Filter, PyTree, Sequential, StatefulModule

from ._interface import MASK_KEY, Interface


class BesideMask(Container):
    """Runs a module on the features and hands the mask on."""

    def __init__(self, features: StatefulModule):
        super().__init__({"features": features})

    def route(self, call: Call, x: PyTree) -> PyTree:
        return {"features": call("features", x["features"]), "mask": x["mask"]}


class MaskedHead(Container):
    """A read-out of the features and a sampler that is given the mask as well.

    Args:
      readout: from features to distribution parameters.
      sampler: a discrete sampler.
      name: which entry of the mask is its own; "" for the mask itself.
    """

    def __init__(self, readout: StatefulModule, sampler: StatefulModule, name: str):
        super().__init__({"readout": readout, "sampler": sampler})
        self.name = name

    def route(self, call: Call, x: PyTree) -> PyTree:
        mask = x["mask"][self.name] if self.name else x["mask"]
        return call("sampler", {"params": call("readout", x["features"]), "mask": mask})


def take_mask_apart(interface: Interface) -> list[StatefulModule]:
    """Layers that part the observation into features and mask: one, or none."""
    if interface.masked is None:
        return []

    def without_mask(obs: Any) -> dict[str, Any]:
        return {key: entry for key, entry in obs.items() if key != MASK_KEY}

    return [Filter({"features": without_mask, "mask": MASK_KEY})]


def beside_mask(interface: Interface, layers: list[StatefulModule]) -> list[StatefulModule]:
    """Layers that work on the features, with the mask, if any, passing by."""
    if interface.masked is None or not layers:
        return layers
    return [BesideMask(Sequential(layers))]


def on_features(interface: Interface, module: StatefulModule) -> StatefulModule:
    """A module that has no use for the mask."""
    if interface.masked is None:
        return module
    return Sequential([Apply(operator.itemgetter("features")), module])


def sampling_head(
    interface: Interface, name: str, readout: StatefulModule, sampler: StatefulModule
) -> StatefulModule:
    """A read-out and a sampler, masked if the action of that name is; "" is a bare action."""
    if interface.masked is not None and name in interface.masked:
        return MaskedHead(readout, sampler, name)
    return on_features(interface, Sequential([readout, sampler]))
