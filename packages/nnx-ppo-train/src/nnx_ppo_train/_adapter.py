"""PPOAdapter: from a network's heads to the record that PPO reads."""

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Float
from nnx_stateful import Call, Container, PyTree, StatefulModule

from ._types import PPONetworkOutput
from ._validate import check_bool

_SAMPLER_KEYS = frozenset({"action", "log_likelihood"})


class ValueUnits(nnx.Variable):
    """Mean and standard deviation, (N,) for N values, from normalized values to those of rewards.

    Empty while values are what the value port returns.
    """


class PPOAdapter(Container):
    """Runs an action port and a value port on the same input.

    With ``normalize_values`` the value port learns normalized values; the adapter of the trained
    network returns them in the unit of the rewards.

    A tree of samplers makes a hybrid action. PPO then clips a likelihood ratio for each of its
    leaves, or with ``joint`` a single one, that of the whole action.

    Args:
      action: a module whose output is a tree of sampler outputs
        ``{"action": ..., "log_likelihood": ...}``: one sampler, or a Map of samplers.
      value: a module whose output is a tree of values (B,) or (B, 1), one leaf per reward.
      joint: whether ``loglikelihoods`` is one array, the sum over all leaves; else it is a tree
        like the actions. Several rewards then need ``combine_advantages``.

    Raises:
      TypeError: if ``joint`` is no bool; on call, if the action port returns something other than
        sampler outputs.
      ValueError: on call, if a value is not one number per row.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> from nnx_ppo_train import NormalTanhSampler
      >>> from nnx_stateful import Dense, Sequential
      >>> rngs = nnx.Rngs(0)
      >>> net = PPOAdapter(
      ...     action=Sequential([Dense(3, 4, rngs), NormalTanhSampler(rngs, entropy_weight=0.01)]),
      ...     value=Dense(3, 1, rngs),
      ... )
      >>> out = net(net.initialize_state(5), jnp.ones((5, 3))).output
      >>> out.actions.shape, out.loglikelihoods.shape, out.value_estimates.shape
      ((5, 2), (5,), (5,))
    """

    def __init__(self, action: StatefulModule, value: StatefulModule, *, joint: bool = False):
        check_bool(joint, "PPOAdapter.joint")
        super().__init__({"action": action, "value": value})
        self.joint = joint
        self.value_units = ValueUnits({})

    @property
    def action(self) -> StatefulModule:
        """The action port."""
        return self.children["action"]

    @property
    def value(self) -> StatefulModule:
        """The value port."""
        return self.children["value"]

    def route(self, call: Call, x: PyTree) -> PPONetworkOutput:
        sampled = call("action", x)
        leaves, treedef = jax.tree.flatten(sampled, is_leaf=_is_sampler_output)
        if not leaves or not all(map(_is_sampler_output, leaves)):
            raise TypeError(
                "PPOAdapter: expected the action port to return sampler outputs "
                "{'action', 'log_likelihood'}, got "
                f"{jax.tree.map(lambda leaf: leaf.shape, sampled)}; end it with a sampler such as "
                "NormalTanhSampler, or a Map of samplers"
            )
        likelihoods = [leaf["log_likelihood"] for leaf in leaves]
        lead = likelihoods[0].shape
        values = jax.tree_util.tree_map_with_path(
            lambda path, leaf: _one_per_row(path, leaf, lead), call("value", x)
        )
        if self.joint:
            loglikelihoods: PyTree = sum(likelihoods[1:], likelihoods[0])
        else:
            loglikelihoods = treedef.unflatten(likelihoods)
        return PPONetworkOutput(
            actions=treedef.unflatten([leaf["action"] for leaf in leaves]),
            loglikelihoods=loglikelihoods,
            value_estimates=self._in_units_of_rewards(values),
        )

    def _in_units_of_rewards(self, values: PyTree) -> PyTree:
        units = self.value_units.get_value()
        if not units:
            return values
        leaves, structure = jax.tree.flatten(values)
        if units["mean"].shape != (len(leaves),):
            raise ValueError(
                f"PPOAdapter: expected {units['mean'].shape[0]} values, as many as it was trained "
                f"with, got {len(leaves)}; clear the units with value_units.set_value({{}})"
            )
        pairs = zip(leaves, units["mean"], units["std"], strict=True)
        return structure.unflatten([mean + std * value for value, mean, std in pairs])


def adapters(networks: StatefulModule) -> list[PPOAdapter]:
    """Returns all adapters inside a network."""
    return [module for _, module in nnx.iter_modules(networks) if isinstance(module, PPOAdapter)]


def set_value_units(networks: StatefulModule, units: dict[str, Float[Array, " N"]]) -> None:
    """Sets the units of all adapters inside a network; ``{}`` leaves values as they are learned."""
    for adapter in adapters(networks):
        adapter.value_units.set_value(units)


def _is_sampler_output(node: Any) -> bool:
    return isinstance(node, dict) and node.keys() >= _SAMPLER_KEYS


def _one_per_row(path: Any, value: Array, lead: tuple[int, ...]) -> Array:
    """Drops a trailing axis of 1; the rank decides, for B or T may be 1 as well."""
    if value.ndim == len(lead) + 1 and value.shape[-1] == 1:
        value = value[..., 0]
    if value.shape != lead:
        raise ValueError(
            f"PPOAdapter: value{jax.tree_util.keystr(path)}: expected one value per row, {lead} "
            f"or {(*lead, 1)}, got {value.shape}; end the value port with a layer of width 1"
        )
    return value
