"""Environments and networks that are good but for one thing that they return."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx, struct
from nnx_ppo_train import PPONetworkOutput
from nnx_stateful import StatefulModule, StatefulModuleOutput

FEATURES, ACTIONS = 3, 2
DROPPED = object()

RETURNED: dict[str, Any] = {
    "None": None,
    "True": True,
    "nan": float("nan"),
    "2": 2,
    "10**30": 10**30,
    "text": "x",
    "[]": [],
    "{}": {},
    "{1: 2}": {1: 2},
    "{None: 1, 'a': 2}": {None: 1, "a": 2},
    "{'a': vector}": {"a": np.ones(3, np.float32)},
    "{'truncated': text}": {"truncated": "x"},
    "{'truncated': vector}": {"truncated": np.ones(3)},
    "scalar": np.float32(1),
    "half scalar": np.float16(1),
    "int scalar": np.int32(1),
    "bool scalar": np.bool_(True),
    "vector": np.ones(3, np.float32),
    "one": np.ones(1, np.float32),
    "two": np.ones(2, np.float32),
    "matrix": np.ones((2, 3), np.float32),
    "rows of two": np.ones((2, 2), np.float32),
    "column": np.ones((2, 1), np.float32),
    "no rows": np.ones((0, 3), np.float32),
    "ints": np.ones((2, 3), np.int8),
    "flags": np.ones(2, bool),
    "complex": np.ones(2, np.complex64),
    "texts": np.array(["a"]),
    "objects": np.array([None], object),
    "key": jax.random.key(0),
    "keys": jax.random.split(jax.random.key(0), 2),
    "object": object(),
    "class": dict,
    "function": len,
    "dropped": DROPPED,
}


class WorldState(struct.PyTreeNode):
    """State of World."""

    obs: Any
    reward: Any
    done: Any
    info: Any
    metrics: Any


class World:
    """An environment of which a field of the state that ``where`` returns is another value."""

    action_size = ACTIONS

    def __init__(self, where: str = "", field: str = "", value: Any = None):
        self._where, self._field, self._value = where, field, value

    def _state(self, where: str, obs: Any) -> Any:
        fields = {
            "obs": obs,
            "reward": jnp.zeros(()),
            "done": jnp.zeros((), bool),
            "info": {"truncated": jnp.zeros((), bool)},
            "metrics": {},
        }
        if where not in self._where:
            return WorldState(**fields)
        if self._field == "state":
            return None if self._value is DROPPED else self._value
        if self._value is DROPPED:
            del fields[self._field]
            return dataclasses.make_dataclass("Part", fields)(**fields)
        return WorldState(**{**fields, self._field: self._value})

    def reset(self, rng: Any) -> Any:
        return self._state("reset", jax.random.normal(rng, (FEATURES,)))

    def step(self, state: Any, action: Any) -> Any:
        return self._state("step", state.obs + jnp.sum(action[:ACTIONS]))


class Worldly:
    """What looks like an environment and is none."""

    def __init__(self, reset: Any = None, step: Any = None, **stated: Any):
        self.reset, self.step = reset, step
        vars(self).update(stated)


class Net(StatefulModule):
    """A network of which a part of what it returns is another value."""

    def __init__(self, part: str = "", value: Any = None):
        self.kernel = nnx.Param(jnp.ones((FEATURES, ACTIONS + 1)))
        self.part, self.value = part, value if isinstance(value, str | None) else Held(value)

    def _given(self, part: str, usual: Any) -> Any:
        if part != self.part:
            return usual
        return self.value.value if isinstance(self.value, Held) else self.value

    def initialize_state(self, batch_size: int) -> Any:
        return self._given("initialize_state", jnp.zeros((batch_size, 1)))

    def reset_state(self, prev_state: Any) -> Any:
        return self._given("reset_state", jnp.zeros_like(prev_state))

    def __call__(self, state: Any, x: Any, rollout_extras: Any = None) -> Any:
        out = x @ self.kernel[...]
        output = PPONetworkOutput(
            self._given("actions", out[..., :ACTIONS]),
            self._given("loglikelihoods", out[..., 0]),
            self._given("value_estimates", out[..., -1]),
        )
        fields = {
            "next_state": self._given("next_state", state),
            "output": self._given("output", output),
            "regularization_loss": self._given("regularization_loss", 0.0),
            "metrics": self._given("metrics", {}),
            "rollout_extras": self._given("rollout_extras", None),
        }
        return self._given("whole", StatefulModuleOutput(**fields))


class Held:
    """A value that flax must not look into; equal to itself alone."""

    def __init__(self, value: Any):
        self.value = None if value is DROPPED else value


PARTS = (
    "initialize_state", "reset_state", "next_state", "output", "regularization_loss", "metrics",
    "rollout_extras", "actions", "loglikelihoods", "value_estimates", "whole",
)  # fmt: skip
STATE = ("state", "obs", "reward", "done", "info", "metrics")


def worlds() -> dict[str, Any]:
    """Environments that are wrong in one way, by name."""
    broken = {
        f"{where} gives {field}={label}": World(where, field, value)
        for where in ("reset", "step", "reset and step")
        for field in STATE
        for label, value in RETURNED.items()
    }
    good = World()
    odd = {
        "step of none": Worldly(good.reset, lambda: None),
        "reset of none": Worldly(lambda: None, good.step),
        "step of one": Worldly(good.reset, lambda state: state),
        "reset that fails": Worldly(lambda rng: {}["a"], good.step),
        "step that fails": Worldly(good.reset, lambda state, action: {}["a"]),
        "step that recurs": Worldly(good.reset, lambda state, action: _recur()),
        "step that asks": Worldly(good.reset, lambda s, a: s if s.obs[0] > 0 else None),
        "class": World,
        "vectorized": Worldly(jax.vmap(good.reset), jax.vmap(good.step)),
    }
    stated = {
        f"{name}={label}": Worldly(good.reset, good.step, **{"action_size": ACTIONS, name: value})
        for name in ("action_size", "action_kind", "observation_size", "episode_length")
        for label, value in {**RETURNED, "-1": -1, "(2, 3)": (2, 3), "0": 0}.items()
        if value is not DROPPED
    }
    return {**broken, **odd, **stated}


def _recur() -> Any:
    return _recur()


def nets() -> dict[str, Any]:
    """Networks that are wrong in one way, by name."""
    return {
        f"network gives {part}={label}": Net(part, value)
        for part in PARTS
        for label, value in RETURNED.items()
    }


B, T = 2, 3
WORLDS = worlds()
NETS = nets()
