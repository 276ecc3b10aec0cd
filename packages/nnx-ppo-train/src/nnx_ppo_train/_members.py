"""What many trainings at once are made of: networks of one structure, and stacked arrays."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from nnx_stateful import PyTree, StatefulModule

from ._sweep import Member


def over_members(vectorize: bool | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What makes a function of one member one of all, whose leaves have a leading axis."""
    if vectorize is not None and not isinstance(vectorize, bool):
        raise TypeError(
            f"train_ppo_many: vectorize: expected True, False or None, got {vectorize!r}"
        )
    if vectorize or (vectorize is None and jax.default_backend() != "cpu"):
        return jax.vmap
    return lambda function: lambda *inputs: jax.lax.map(lambda own: function(*own), inputs)


def make_networks(
    env: Any, make_network: Callable[[Any, nnx.Rngs], StatefulModule], members: Sequence[Member]
) -> list[StatefulModule]:
    """One network per member, all of one structure."""
    networks = [make_network(env, nnx.Rngs(member.seed)) for member in members]
    for network, member in zip(networks, members, strict=True):
        if not isinstance(network, StatefulModule):
            raise TypeError(
                "train_ppo_many: expected make_network(env, rngs) to return a StatefulModule, got "
                f"{network!r}"
            )
        if _structure(network) != _structure(networks[0]):
            raise ValueError(
                "train_ppo_many: expected networks that differ in their arrays' values alone, but "
                f"that of seed {member.seed} is built otherwise than that of seed "
                f"{members[0].seed}; keep what depends on the seed in nnx.Param or nnx.Variable"
            )
    return networks


def _structure(network: StatefulModule) -> Any:
    """What must agree between members: types of arrays, and numbers and names on the modules.

    Graph definitions themselves do not compare: they hold functions, new ones for every network.
    """
    variables = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), nnx.split(network)[1])
    plain = {
        (path, name): value
        for path, module in nnx.iter_modules(network)
        for name, value in vars(module).items()
        if isinstance(value, bool | int | float | str)
    }
    return jax.tree.flatten(variables), plain


def stacked(trees: Sequence[PyTree]) -> PyTree:
    """Joins trees of equal structure along a new leading axis, that of the members."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
