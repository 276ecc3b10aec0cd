"""Observations, actions and rewards of an environment, as presets read them."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
from nnx_stateful import PyTree

from .._action_kinds import ActionSpec, action_specs
from .._env_check import check_reset
from ._options import NetworkOptions

MASK_KEY = "action_mask"


@dataclasses.dataclass(frozen=True)
class Interface:
    """Observations, actions and rewards of an environment.

    Attributes:
      obs: tree of observation shapes, without the batch axis and without the action mask.
      actions: the actions that it wants, one or a flat dict of them.
      masked: names of the actions that come with a mask, "" for a bare one; None where the
        observation has no mask.
      reward: tree of rewards.
    """

    obs: PyTree
    actions: ActionSpec | dict[str, ActionSpec]
    masked: frozenset[str] | None
    reward: PyTree

    @classmethod
    def of(cls, env: Any) -> "Interface":
        """Reads the interface off an environment.

        Raises:
          TypeError: if an ``action_size`` is of the wrong form.
          ValueError: if the environment does not say its ``action_size``, or if an action mask does
            not fit the actions.
        """
        name = type(env).__name__
        state, _, _ = check_reset(env)
        actions = action_specs(env)
        if actions is None:
            raise ValueError(
                f"{name}: a preset needs the attribute action_size, expected an int or a dict of "
                "them, got none; add it, or write a make_network of your own"
            )
        nested = [key for key, entry in _named(actions).items() if isinstance(entry, Mapping)]
        if nested:
            raise ValueError(
                f"{name}.action_size: expected a flat dict of actions, got dicts for {nested}; "
                "flatten it, or write a make_network of your own"
            )
        obs = jax.tree.map(lambda leaf: leaf.shape, state.obs)
        if not isinstance(obs, Mapping) or MASK_KEY not in obs:
            return cls(obs, actions, None, state.reward)
        masks = _named(obs[MASK_KEY])
        obs = {key: shape for key, shape in obs.items() if key != MASK_KEY}
        _check_masks(name, masks, _named(actions), obs)
        return cls(obs, actions, frozenset(masks), state.reward)

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

    def shares(self, options: NetworkOptions, *, usual: bool) -> bool:
        """Returns whether actor and critic share all layers but the read-outs.

        Args:
          options: the options.
          usual: whether the preset's actor and critic do so if nothing is said.

        Raises:
          ValueError: if they are to share layers, but see other parts of the observation.
        """
        actor, critic = self.parts(options)
        if options.share is None:
            return usual and actor == critic
        if options.share and actor != critic:
            raise ValueError(
                f"NetworkOptions.share: expected False where the actor sees {actor!r} and the "
                f"critic {critic!r}, got True; leave it out"
            )
        return options.share

    def width(self, key: str | None) -> int:
        """Number of features of the observation, or of one entry of it."""
        part = self.obs if key is None else self.obs[key]
        return sum(math.prod(shape) for shape in jax.tree.leaves(part, is_leaf=_is_shape))


def _named(tree: Any) -> dict[str, Any]:
    """A dict as it is, anything else as the only entry of one."""
    return dict(tree) if isinstance(tree, Mapping) else {"": tree}


def _check_masks(
    env: str, masks: dict[str, Any], actions: dict[str, Any], features: PyTree
) -> None:
    """Raises ValueError unless every mask belongs to a discrete action and has its shape."""
    if not features:
        raise ValueError(
            f"{env}: expected an observation with something beside {MASK_KEY!r}, got that alone; "
            "show the agent what it has to decide on"
        )
    for name, shape in masks.items():
        where = f"{env}: obs[{MASK_KEY!r}]" + (f"[{name!r}]" if name else "")
        if name not in actions:
            names = "one bare action" if "" in actions else f"actions {sorted(actions)}"
            raise ValueError(
                f"{where}: expected masks by the names of the actions, but the environment wants "
                f"{names}; give one array for a bare action, a dict by name for several"
            )
        spec = actions[name]
        if spec.kind == "continuous":
            raise ValueError(
                f"{where}: expected a mask for a discrete action, got one for a continuous action, "
                "of which nothing can be ruled out; take it out, or rename the entry"
            )
        if shape != (spec.parameters,):
            raise ValueError(
                f"{where}: expected shape {(spec.parameters,)}, one entry per choice of the "
                f"{spec.kind} action of size {spec.size}, got {shape}"
            )


def _is_shape(node: Any) -> bool:
    return isinstance(node, tuple) and all(isinstance(extent, int) for extent in node)
