"""The networks of `returns_vs_nnx_ppo.py`, written once for both libraries.

They share the names and signatures of their network parts, so a network is a function of `parts`, a
namespace of either library's classes.
"""

from typing import Any

from flax import nnx

READOUT_INIT = nnx.initializers.variance_scaling(0.01, "fan_in", "truncated_normal")


def mlp(parts: Any, env: Any, rngs: nnx.Rngs) -> Any:
    """Normaliser, separate MLPs for actor and critic; a continuous action."""
    size = env.observation_size

    def hidden() -> list[Any]:
        return [
            parts.Dense(size, 64, rngs, activation=nnx.swish),
            parts.Dense(64, 64, rngs, activation=nnx.swish),
        ]

    action = parts.Sequential([*hidden(), *_continuous(parts, 64, env.action_size, rngs)])
    value = parts.Sequential([*hidden(), parts.Dense(64, 1, rngs)])
    return parts.Sequential([parts.Normalizer(size), parts.PPOAdapter(action, value)])


def lstm(parts: Any, env: Any, rngs: nnx.Rngs) -> Any:
    """Normaliser, dense layer, LSTM; a continuous action."""
    size = env.observation_size
    action = parts.Sequential(_continuous(parts, 32, env.action_size, rngs))
    return parts.Sequential(
        [
            parts.Normalizer(size),
            parts.Dense(size, 32, rngs, activation=nnx.swish),
            parts.LSTM(32, 32, rngs),
            parts.PPOAdapter(action, parts.Dense(32, 1, rngs)),
        ]
    )


def discrete_lstm(parts: Any, env: Any, rngs: nnx.Rngs) -> Any:
    """Dense layer, LSTM; a choice."""
    readout = parts.Dense(64, env.action_size, rngs, kernel_init=READOUT_INIT)
    sampler = parts.CategoricalSampler(rngs, entropy_weight=3e-2)
    return parts.Sequential(
        [
            parts.Dense(env.observation_size, 64, rngs, activation=nnx.swish),
            parts.LSTM(64, 64, rngs),
            parts.PPOAdapter(parts.Sequential([readout, sampler]), parts.Dense(64, 1, rngs)),
        ]
    )


def per_body(parts: Any, env: Any, rngs: nnx.Rngs) -> Any:
    """Normaliser and MLP over all bodies; an action and a value for each."""
    size = sum(env.observation_size.values())

    def action() -> Any:
        return parts.Sequential(_continuous(parts, 64, 1, rngs))

    return parts.Sequential(
        [
            parts.Flattener(),
            parts.Normalizer(size),
            parts.Dense(size, 64, rngs, activation=nnx.swish),
            parts.Dense(64, 64, rngs, activation=nnx.swish),
            parts.PPOAdapter(
                parts.Parallel({name: action() for name in env.body_names}),
                parts.Parallel({name: parts.Dense(64, 1, rngs) for name in env.body_names}),
            ),
        ]
    )


def _continuous(parts: Any, features: int, n_actions: int, rngs: nnx.Rngs) -> list[Any]:
    return [
        parts.Dense(features, 2 * n_actions, rngs, kernel_init=READOUT_INIT),
        parts.NormalTanhSampler(rngs, entropy_weight=1e-3),
    ]
