"""What presets share: the first layers, and the heads that give what an environment wants."""

from collections.abc import Mapping
from typing import Any

from flax import nnx
from nnx_stateful import (
    Dense,
    Filter,
    Flattener,
    Normalizer,
    Parallel,
    Sequential,
    StatefulModule,
)

from .._action_kinds import ActionSpec
from ._interface import Interface
from ._mask import sampling_head
from ._options import NetworkOptions


def pick(key: str | None) -> StatefulModule:
    """A module that takes one entry of the observation, or all, as one flat array."""
    if key is None:
        return Flattener()
    return Sequential([Filter({key: key}), Flattener()])


def normalizer(interface: Interface, options: NetworkOptions) -> list[StatefulModule]:
    """The normaliser of the observation as a list of layers: one, or none."""
    return [Normalizer(interface.obs)] if options.normalize_obs else []


def action_head(
    interface: Interface, features: int, rngs: nnx.Rngs, options: NetworkOptions
) -> StatefulModule:
    """Linear read-out and sampler of every action."""

    def head(name: str, spec: ActionSpec) -> StatefulModule:
        readout = Dense(
            features,
            spec.parameters,
            rngs,
            compute_dtype=options.compute_dtype,
            kernel_init=_small(0.01),
        )
        return sampling_head(
            interface, name, readout, spec.make_sampler(rngs, options.entropy_weight)
        )

    if isinstance(interface.actions, ActionSpec):
        return head("", interface.actions)
    return Parallel({name: head(name, spec) for name, spec in interface.actions.items()})


def value_head(
    interface: Interface, features: int, rngs: nnx.Rngs, options: NetworkOptions
) -> StatefulModule:
    """Linear read-out of one value per reward."""

    def head() -> Dense:
        return Dense(features, 1, rngs, compute_dtype=options.compute_dtype)

    if isinstance(interface.reward, Mapping):
        return Parallel({name: head() for name in interface.reward})
    return head()


def _small(scale: float) -> Any:
    return nnx.initializers.variance_scaling(scale, "fan_in", "truncated_normal")
