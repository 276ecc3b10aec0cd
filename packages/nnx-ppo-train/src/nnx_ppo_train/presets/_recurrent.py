"""Recurrent actor-critics: a dense layer, a recurrent layer, and heads."""

from collections.abc import Callable
from typing import Any

from flax import nnx
from nnx_stateful import GRU, LRU, LSTM, Dense, Sequential, StatefulModule

from .._adapter import PPOAdapter
from ._heads import action_head, normalizer, pick, value_head
from ._interface import Interface
from ._mask import beside_mask, on_features, take_mask_apart
from ._options import NetworkOptions

Layer = Callable[..., StatefulModule]


def recurrent_network(
    layer: Layer, env: Any, rngs: nnx.Rngs, options: NetworkOptions
) -> StatefulModule:
    """Builds an actor-critic around a recurrent layer.

    Args:
      layer: ``layer(in_features, hidden_features, rngs, compute_dtype=...)``.
      env: the environment.
      rngs: source of initial parameters.
      options: sizes and so on.
    """
    interface = Interface.of(env)
    actor_key, critic_key = interface.parts(options)
    size, dtype = options.hidden_size, options.compute_dtype

    def trunk(key: str | None) -> list[StatefulModule]:
        width = interface.width(key)
        encoder = Dense(width, size, rngs, activation=nnx.swish, compute_dtype=dtype)
        return [pick(key), encoder, layer(size, size, rngs, compute_dtype=dtype)]

    action = action_head(interface, size, rngs, options)
    value = value_head(interface, size, rngs, options)
    shared = normalizer(interface, options)
    if interface.shares(options, usual=True):
        shared += trunk(actor_key)
    else:
        action = Sequential([*beside_mask(interface, trunk(actor_key)), action])
        value = Sequential([*trunk(critic_key), value])
    return Sequential(
        [
            *take_mask_apart(interface),
            *beside_mask(interface, shared),
            PPOAdapter(action, on_features(interface, value)),
        ]
    )


def lstm_network(env: Any, rngs: nnx.Rngs, options: NetworkOptions) -> StatefulModule:
    """The preset ``lstm``."""
    return recurrent_network(LSTM, env, rngs, options)


def gru_network(env: Any, rngs: nnx.Rngs, options: NetworkOptions) -> StatefulModule:
    """The preset ``gru``."""
    return recurrent_network(GRU, env, rngs, options)


def lru_network(env: Any, rngs: nnx.Rngs, options: NetworkOptions) -> StatefulModule:
    """The preset ``lru``."""
    return recurrent_network(LRU, env, rngs, options)
