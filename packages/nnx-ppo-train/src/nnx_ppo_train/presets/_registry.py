"""The table of presets. A new one is a file and a row here."""

import dataclasses
import difflib
from collections.abc import Callable
from typing import Any

from flax import nnx
from nnx_stateful import StatefulModule

from .._validate import check_instance, shown
from ._graph import graph_network
from ._mlp import mlp_network
from ._options import NetworkOptions
from ._recurrent import gru_network, lru_network, lstm_network

Preset = Callable[[Any, nnx.Rngs, NetworkOptions], StatefulModule]

NETWORKS: dict[str, tuple[Preset, str]] = {
    "graph": (graph_network, "population graph with a delayed recurrent connection"),
    "mlp": (mlp_network, "separate MLPs for actor and critic, no memory"),
    "lstm": (lstm_network, "dense layer, LSTM, heads"),
    "gru": (gru_network, "dense layer, GRU, heads"),
    "lru": (lru_network, "dense layer, linear recurrent unit, heads"),
}

NO_EFFECT = {
    "graph": ("hidden_layers",),
    "mlp": ("delay",),
    "lstm": ("delay", "hidden_layers"),
    "gru": ("delay", "hidden_layers"),
    "lru": ("delay", "hidden_layers"),
}
"""Options that a preset has no use for: to set one is a mistake."""


def list_networks() -> dict[str, str]:
    """Returns the one-line description of every preset by name."""
    return {name: description for name, (_, description) in NETWORKS.items()}


def make_network(
    name: str, env: Any, rngs: nnx.Rngs, options: NetworkOptions | None = None
) -> StatefulModule:
    """Builds a preset network for an environment.

    Args:
      name: one of ``list_networks()``.
      env: the environment; presets read its observation, reward and ``action_size``.
      rngs: source of initial parameters.
      options: sizes and so on.

    Returns:
      A network whose output is a PPONetworkOutput.

    Raises:
      TypeError: if an argument is of the wrong kind.
      ValueError: if there is no such preset; the message has the nearest names. Or if an option
        is set that the preset has no use for, or the environment does not say what it needs.

    Example:
      >>> from nnx_ppo_train.envs import make_env
      >>> net = make_network("gru", make_env("cartpole"), nnx.Rngs(0))
      >>> net.initialize_state(2)["3"].shape
      (2, 64)
    """
    check_instance(name, "make_network: name", str, "'mlp'")
    if name not in NETWORKS:
        near = difflib.get_close_matches(name, NETWORKS, n=3)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ValueError(
            f"make_network: no network is called {shown(name)}.{hint} Expected one of "
            f"{', '.join(NETWORKS)}"
        )
    check_instance(rngs, "make_network: rngs", nnx.Rngs, "nnx.Rngs(0)")
    options = NetworkOptions() if options is None else options
    check_instance(options, "make_network: options", NetworkOptions, "NetworkOptions()")
    for field in dataclasses.fields(options):
        given = getattr(options, field.name)
        if field.name in NO_EFFECT[name] and given != field.default:
            raise ValueError(
                f"NetworkOptions.{field.name}: {name!r} has no use for it, expected "
                f"{field.default!r} (the default), got {given!r}; leave it out, or choose another "
                "network"
            )
    return NETWORKS[name][0](env, rngs, options)
