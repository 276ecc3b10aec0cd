"""Networks and environments that several test modules use."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx, struct
from nnx_graph import PopulationGraph
from nnx_ppo_train import NormalTanhSampler, PPOAdapter
from nnx_stateful import (
    GRU,
    LRU,
    LSTM,
    AR1VariationalBottleneck,
    Concat,
    Delay,
    Dense,
    Filter,
    Map,
    Normalizer,
    Parallel,
    Sequential,
    StatefulModule,
    VariationalBottleneck,
    make_mlp,
)

OBS, HIDDEN, ACTION = 3, 6, 2


class RandomEndState(struct.PyTreeNode):
    """State of RandomEnds: a position, and a key for what happens next."""

    obs: Any
    reward: Any
    done: Any
    info: dict[str, Any]
    metrics: dict[str, Any]
    key: Any


class RandomEnds:
    """A random walk pushed by the action; episodes terminate or are truncated at random."""

    action_size = ACTION

    def __init__(self, terminate: float = 0.15, truncate: float = 0.15):
        self.terminate, self.truncate = terminate, truncate

    def reset(self, rng: Any) -> RandomEndState:
        key, obs_key = jax.random.split(rng)
        return RandomEndState(
            obs=jax.random.normal(obs_key, (OBS,)),
            reward=jnp.zeros(()),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={"speed": jnp.zeros(())},
            key=key,
        )

    def step(self, state: RandomEndState, action: Any) -> RandomEndState:
        key, walk_key, end_key = jax.random.split(state.key, 3)
        draw = jax.random.uniform(end_key)
        terminated = draw < self.terminate
        truncated = ~terminated & (draw < self.terminate + self.truncate)
        step = jax.random.normal(walk_key, (OBS,)) + action.sum()
        return state.replace(
            obs=0.7 * state.obs + step,
            reward=jnp.tanh(state.obs[0] + action[0]),
            done=terminated | truncated,
            info={"truncated": truncated},
            metrics={"speed": jnp.abs(step).sum()},
            key=key,
        )


def actor_critic(trunk: list[StatefulModule], features: int, rngs: nnx.Rngs) -> Sequential:
    """A trunk with a sampler and a value head."""
    sampler = NormalTanhSampler(rngs, entropy_weight=1e-2)
    return Sequential(
        [
            Normalizer(OBS),
            *trunk,
            PPOAdapter(
                action=Sequential([Dense(features, 2 * ACTION, rngs), sampler]),
                value=Dense(features, 1, rngs),
            ),
        ]
    )


def graph(rngs: nnx.Rngs, features: int) -> list[StatefulModule]:
    """A graph with a delayed self-loop, a slow second path and a recurrent compute."""
    g = PopulationGraph(rngs)
    g.add_input("x", OBS, input_from="x")
    g.add_population("hidden", features, activation=nnx.tanh)
    g.add_population("slow", features, compute=GRU(features, features, rngs))
    g.add_output("out", features)
    g.connect("x", "hidden")
    g.connect("hidden", "hidden", delay=1)
    g.connect("hidden", "slow", delay=2, reciprocal=True)
    g.connect("hidden", "out")
    g.connect("slow", "out", delay=3)
    g.finalize()
    return [Filter({"x": lambda x: x}), g, Concat(out=one_step_late(features))]


def nested(rngs: nnx.Rngs) -> list[StatefulModule]:
    """Containers in containers, with memory at several depths."""
    branches = Parallel(
        fast=make_mlp([OBS, HIDDEN], rngs),
        slow=Sequential([Delay(jnp.zeros(OBS), 2), GRU(OBS, HIDDEN, rngs)]),
    )
    joined = Concat(fast=Dense(HIDDEN, 3, rngs), slow=LRU(HIDDEN, 3, rngs))
    return [
        branches,
        Map(fast=make_mlp([HIDDEN, HIDDEN], rngs), slow=one_step_late(HIDDEN)),
        joined,
    ]


def one_step_late(features: int) -> StatefulModule:
    """A delay of one step."""
    return Delay(jnp.zeros(features), 1)


TRUNKS: dict[str, Callable[[nnx.Rngs], list[StatefulModule]]] = {
    "mlp": lambda rngs: [make_mlp([OBS, HIDDEN, HIDDEN], rngs)],
    "lstm": lambda rngs: [LSTM(OBS, HIDDEN, rngs)],
    "gru": lambda rngs: [GRU(OBS, HIDDEN, rngs)],
    "lru": lambda rngs: [LRU(OBS, HIDDEN, rngs)],
    "delay": lambda rngs: [Delay(jnp.zeros(OBS), 3), Dense(OBS, HIDDEN, rngs)],
    "variational": lambda rngs: [
        Dense(OBS, 2 * HIDDEN, rngs),
        VariationalBottleneck(HIDDEN, rngs, kl_weight=0.1),
    ],
    "ar1": lambda rngs: [
        Dense(OBS, 2 * HIDDEN, rngs),
        AR1VariationalBottleneck(HIDDEN, rngs, kl_weight=0.1),
    ],
    "graph": lambda rngs: graph(rngs, HIDDEN),
    "nested": nested,
}


def make(name: str, seed: int = 0) -> Sequential:
    """Builds one of the networks of the table."""
    rngs = nnx.Rngs(seed)
    return actor_critic(TRUNKS[name](rngs), HIDDEN, rngs)
