"""What presets share: what an environment wants, and the heads that give it."""

import dataclasses
import math
import operator
from collections.abc import Mapping
from typing import Any

import jax
from flax import nnx
from nnx_stateful import (
    Dense,
    Filter,
    Flattener,
    Normalizer,
    Parallel,
    PyTree,
    Sequential,
    StatefulModule,
)

from .._validate import boolean, instance, number, whole_number
from ..samplers import ActionSampler, CategoricalSampler, NormalTanhSampler


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """What can be told to every preset; each takes what concerns it.

    Attributes:
      hidden_size: width of hidden layers, recurrent layers and the graph's hidden population.
      hidden_layers: number of hidden layers of the MLP; 0 for a linear policy.
      delay: delay of the graph's recurrent connection, in steps.
      entropy_weight: weight of the entropy bonus.
      normalize_obs: whether observations are normalised by running statistics.
      actor_obs: key of the observation that the actor sees; None for all of it.
      critic_obs: key of the observation that the critic sees; None for all of it.
    """

    hidden_size: int = 64
    hidden_layers: int = 2
    delay: int = 1
    entropy_weight: float = 1e-2
    normalize_obs: bool = True
    actor_obs: str | None = None
    critic_obs: str | None = None

    def __post_init__(self) -> None:
        whole_number(self, "hidden_size", at_least=1)
        whole_number(self, "hidden_layers", at_least=0)
        whole_number(self, "delay", at_least=1)
        number(self, "entropy_weight", at_least=0.0)
        boolean(self, "normalize_obs")
        for name in ("actor_obs", "critic_obs"):
            instance(self, name, str, "'state'", optional=True)


@dataclasses.dataclass(frozen=True)
class Interface:
    """What an environment shows and wants.

    Attributes:
      obs: tree of observation shapes, without the batch axis.
      action_size: width of the action, or number of choices; a dict of them by name.
      discrete: whether actions are choices.
      reward: tree of rewards.
    """

    obs: PyTree
    action_size: int | Mapping[str, int]
    discrete: bool
    reward: PyTree

    @classmethod
    def of(cls, env: Any) -> "Interface":
        """Reads the interface off an environment.

        Raises:
          ValueError: if the environment does not say its ``action_size``.
        """
        size = getattr(env, "action_size", None)
        if size is None:
            raise ValueError(
                f"{type(env).__name__}: a preset needs the attribute action_size (an int, or a "
                "dict of them), which it lacks; add it, or write a make_network of your own"
            )
        state = jax.eval_shape(env.reset, jax.eval_shape(lambda: jax.random.key(0)))
        discrete = getattr(env, "action_kind", "continuous") == "discrete"
        if not isinstance(size, Mapping):
            size = operator.index(size)
        return cls(jax.tree.map(lambda leaf: leaf.shape, state.obs), size, discrete, state.reward)

    def parts(self, options: NetworkOptions) -> tuple[str | None, str | None]:
        """Returns the observation keys of actor and critic; None stands for all of it.

        Playground's ``state`` and ``privileged_state`` are told apart without being asked.
        """
        keys = set(self.obs) if isinstance(self.obs, Mapping) else set()
        for name in ("actor_obs", "critic_obs"):
            key = getattr(options, name)
            if key is not None and key not in keys:
                raise ValueError(
                    f"NetworkOptions.{name}: expected a key of the observation, which has "
                    f"{sorted(keys) or 'none, it is a bare array'}; got {key!r}"
                )
        if keys == {"state", "privileged_state"} and not (options.actor_obs or options.critic_obs):
            return "state", "privileged_state"
        return options.actor_obs, options.critic_obs

    def width(self, key: str | None) -> int:
        """Number of features of the observation, or of one entry of it."""
        part = self.obs if key is None else self.obs[key]
        return sum(math.prod(shape) for shape in jax.tree.leaves(part, is_leaf=_is_shape))


def _is_shape(node: Any) -> bool:
    return isinstance(node, tuple) and all(isinstance(extent, int) for extent in node)


def pick(key: str | None) -> StatefulModule:
    """A module that takes one entry of the observation, or all, as one flat array."""
    if key is None:
        return Flattener()
    return Sequential([Filter({key: key}), Flattener()])


def normalizer(interface: Interface, options: NetworkOptions) -> list[StatefulModule]:
    """The normaliser of the observation as a list of layers: one, or none."""
    return [Normalizer(interface.obs)] if options.normalize_obs else []


def parameter_sizes(interface: Interface) -> dict[str, int] | int:
    """Width of the distribution parameters, per action where there are several."""
    factor = 1 if interface.discrete else 2
    if isinstance(interface.action_size, Mapping):
        return {name: factor * size for name, size in interface.action_size.items()}
    return factor * interface.action_size


def make_sampler(interface: Interface, rngs: nnx.Rngs, entropy_weight: float) -> ActionSampler:
    """The sampler that suits the environment's kind of action."""
    kind = CategoricalSampler if interface.discrete else NormalTanhSampler
    return kind(rngs, entropy_weight=entropy_weight)


def action_head(
    interface: Interface, features: int, rngs: nnx.Rngs, options: NetworkOptions
) -> StatefulModule:
    """Linear read-out and sampler of every action."""
    sizes = parameter_sizes(interface)

    def head(size: int) -> StatefulModule:
        readout = Dense(features, size, rngs, kernel_init=_small(0.01))
        return Sequential([readout, make_sampler(interface, rngs, options.entropy_weight)])

    if isinstance(sizes, int):
        return head(sizes)
    return Parallel({name: head(size) for name, size in sizes.items()})


def value_head(interface: Interface, features: int, rngs: nnx.Rngs) -> StatefulModule:
    """Linear read-out of one value per reward."""
    if isinstance(interface.reward, Mapping):
        return Parallel({name: Dense(features, 1, rngs) for name in interface.reward})
    return Dense(features, 1, rngs)


def _small(scale: float) -> Any:
    return nnx.initializers.variance_scaling(scale, "fan_in", "truncated_normal")
