"""The public functions and records of the package, with good arguments and what else to give."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import nnx_ppo_train as npt
from flax import nnx
from nnx_ppo_train.presets import (
    NetworkOptions,
    find_graph,
    list_networks,
    make_mlp_actor_critic,
    make_network,
)
from nnx_stateful import Dense, Sequential, initial_state

from ._fuzz import Entry
from ._fuzz_runs import KEY, run_entries
from ._fuzz_worlds import NETS, WORLDS, B, Net, T, World


def defaults(kind: Any) -> dict[str, Any]:
    """The fields of a config with their defaults."""
    return {field.name: getattr(kind(), field.name) for field in dataclasses.fields(kind)}


def _values() -> dict[str, Entry]:
    """Configs and other records that check themselves."""
    reward = npt.RewardScalingWrapper
    adapter = {"action": Sequential([Dense(4, 4, nnx.Rngs(0))]), "value": Dense(4, 1, nnx.Rngs(0))}
    return {
        "PPOConfig": Entry(npt.PPOConfig, defaults(npt.PPOConfig)),
        "TrainConfig": Entry(npt.TrainConfig, defaults(npt.TrainConfig)),
        "EvalConfig": Entry(npt.EvalConfig, defaults(npt.EvalConfig)),
        "VideoConfig": Entry(npt.VideoConfig, defaults(npt.VideoConfig)),
        "NetworkOptions": Entry(NetworkOptions, defaults(NetworkOptions)),
        "RolloutOptions": Entry(npt.RolloutOptions, defaults(npt.RolloutOptions)),
        "Stop": Entry(npt.Stop, {"reason": "why"}),
        "ScaleLearningRate": Entry(npt.ScaleLearningRate, {"factor": 0.5}),
        "stop_at_return": Entry(
            lambda target, metric: npt.stop_at_return(target, metric)({"a": 2.0}, 1),
            {"target": 1.0, "metric": "a"},
        ),
        "PPOAdapter": Entry(npt.PPOAdapter, {**adapter, "joint": False}),
        "RewardNormalizer": Entry(
            lambda rewards, discount, x: jax.eval_shape(
                lambda: (
                    (made := npt.RewardNormalizer(rewards, discount))(
                        made.initialize_state(B), x
                    ).output
                )
            ),
            {"rewards": jnp.zeros(()), "discount": 0.9, "x": jnp.ones(B)},
        ),
        "EpisodeWrapper": Entry(_wrapped(npt.EpisodeWrapper), {"env": World(), "value": 3}),
        "RewardScalingWrapper": Entry(_wrapped(reward), {"env": World(), "value": 2.0}),
        "make_env": Entry(_made_env, {"name": "cartpole", "option": "episode_length", "value": 5}),
    }


def _wrapped(kind: Any) -> Callable[..., Any]:
    """Makes a wrapper and evaluates its reset."""

    def call(env: Any, value: Any) -> Any:
        npt.check_env(kind(env, value))

    return call


def _made_env(name: Any, option: Any, value: Any) -> Any:
    options = {option: value} if isinstance(option, str) else {}
    return npt.make_env(name, **options)


ENV_OPTIONS = {
    f"{name} {option}": (name, option)
    for name in npt.list_envs()
    for option in inspect.signature(type(npt.make_env(name))).parameters
}


def _built_in(which: Any, value: Any) -> Any:
    name, option = which if isinstance(which, tuple) and len(which) == 2 else ("cartpole", "gust")
    return npt.make_env(*([name] if isinstance(name, str) else ["recall"]), **{str(option): value})


def _samplers() -> dict[str, Entry]:
    """Samplers: made, and called on what a layer might give them."""

    def called(kind: Any) -> Callable[..., Any]:
        def call(x: Any, state: Any, extras: Any, steps: Any, **options: Any) -> Any:
            sampler = kind(**options)
            state = (
                initial_state(sampler, B) if isinstance(state, str) and state == "own" else state
            )
            if steps is True:
                return jax.eval_shape(lambda: sampler.unroll(state, x, None, extras))
            return jax.eval_shape(lambda: sampler(state, x, extras))

        return call

    rest: dict[str, Any] = {"x": jnp.zeros((B, 4)), "state": "own", "extras": None, "steps": 1}
    rest |= {"rngs": nnx.Rngs(0), "entropy_weight": 0.1}
    gaussian = {"min_std": 0.1, "std_scale": 1.0, "state_independent_std": 2, "initial_std": 1.0}
    inputs = {
        "masked": {"params": jnp.zeros((B, 4)), "mask": jnp.ones((B, 4), bool)},
        "mask of text": {"params": jnp.zeros((B, 4)), "mask": "x"},
        "mask of none": {"params": jnp.zeros((B, 4)), "mask": jnp.zeros((B, 4), bool)},
        "mask of another shape": {"params": jnp.zeros((B, 4)), "mask": jnp.ones((B, 3))},
        "mask alone": {"mask": jnp.ones((B, 4))},
        "complex of width 4": jnp.zeros((B, 4), jnp.complex64),
        "ints of width 4": jnp.zeros((B, 4), jnp.int32),
        "flags of width 4": jnp.zeros((B, 4), bool),
        "texts of width 4": [["a"] * 4] * B,
        "sequence": jnp.zeros((T, B, 4)),
        "keys of width 4": jax.random.split(KEY, (B, 4)),
    }
    extras = {
        "action": {"raw_action": jnp.zeros((B, 2)), "noise": jnp.zeros((B, 2))},
        "ints": {"raw_action": jnp.zeros((B, 2), jnp.int32)},
        "one": {"raw_action": jnp.zeros(B, jnp.int32)},
        "of text": {"raw_action": "x", "noise": None},
        "of other rows": {"raw_action": jnp.zeros((B + 1, 2)), "noise": jnp.zeros((B + 1, 2))},
    }
    odd = {"x": inputs, "extras": extras}
    return {
        "NormalSampler": Entry(
            called(npt.NormalSampler), {**rest, **gaussian, "x": jnp.zeros((B, 2))}, odd
        ),
        "NormalTanhSampler": Entry(
            called(npt.NormalTanhSampler), {**rest, **gaussian, "x": jnp.zeros((B, 2))}, odd
        ),
        "BetaSampler": Entry(called(npt.BetaSampler), rest, odd),
        "CategoricalSampler": Entry(called(npt.CategoricalSampler), rest, odd),
        "BernoulliSampler": Entry(called(npt.BernoulliSampler), rest, odd),
        "MultiCategoricalSampler": Entry(
            called(npt.MultiCategoricalSampler), {**rest, "sizes": (1, 3)}, odd
        ),
    }


def _own_rngs(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with a source of keys made here, where shapes are evaluated."""
    rngs = arguments["rngs"]
    fresh = isinstance(rngs, nnx.Rngs) or rngs == "own" if isinstance(rngs, str | nnx.Rngs) else 0
    return {**arguments, "rngs": nnx.Rngs(0) if fresh else rngs}


def _presets() -> dict[str, Entry]:
    def mlp(**arguments: Any) -> Any:
        return nnx.eval_shape(lambda: make_mlp_actor_critic(**_own_rngs(arguments)))

    def preset(name: Any, env: Any, rngs: Any, options: Any) -> Any:
        return nnx.eval_shape(
            lambda: make_network(name, env, **_own_rngs({"rngs": rngs, "options": options}))
        )

    names = {name: name for name in list_networks()}
    small = NetworkOptions(hidden_size=4, hidden_layers=1)
    options = {
        "wide": NetworkOptions(hidden_size=10**6),
        "no such key": NetworkOptions(actor_obs="x"),
        "delayed": NetworkOptions(delay=3),
        "deep": NetworkOptions(hidden_layers=5),
        "half": NetworkOptions(compute_dtype="bfloat16"),
    }
    widths = {"actor_hidden_sizes": (4,), "critic_hidden_sizes": (4,)}
    return {
        "make_network": Entry(
            preset,
            {"name": "mlp", "env": World(), "rngs": "own", "options": small},
            {"name": names, "env": WORLDS, "options": options},
        ),
        "make_mlp_actor_critic": Entry(
            mlp,
            {
                "obs_size": 3, "action_size": 2, "rngs": "own", **widths,
                "activation": "swish", "normalize_obs": True, "entropy_weight": 0.1,
                "min_std": 0.1, "std_scale": 1.0, "initializer_scale": 1.0,
            },
        ),
        "find_graph": Entry(find_graph, {"network": Net()}),
        "deterministic": Entry(npt.deterministic, {"networks": Net()}, {"networks": NETS}),
        "freeze": Entry(npt.freeze, {"networks": Net(), "patterns": "kernel"}),
        "parameter_paths": Entry(npt.parameter_paths, {"networks": Net()}),
    }  # fmt: skip


def entries() -> dict[str, Entry]:
    """All of them by name."""
    which = Entry(_built_in, {"which": ("cartpole", "gust"), "value": 1}, {"which": ENV_OPTIONS})
    return {
        **_values(),
        **_samplers(),
        **_presets(),
        **run_entries(),
        "envs": which,
    }
