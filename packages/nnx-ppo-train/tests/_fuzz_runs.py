"""The public functions that run networks in environments, and train them."""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import nnx_ppo_train as npt
import pytest
from nnx_ppo_train import (
    _episode_recording,
    _evaluation,
    _many,
    _train,
)
from nnx_ppo_train.verification import _verify_replay

from ._checkpoints import first_state
from ._fuzz import Entry, Reached, fails
from ._fuzz_worlds import NETS, WORLDS, B, Net, T, World

KEY = jax.random.key(0)


def tiny(**ppo: Any) -> npt.TrainConfig:
    ppo = {"n_envs": B, "rollout_length": T, "n_minibatches": 1, "total_steps": 6} | ppo
    return npt.TrainConfig(ppo=npt.PPOConfig(**ppo), eval=npt.EvalConfig(n_envs=B))


def _reached(*_: Any, **__: Any) -> Any:
    raise Reached


@contextlib.contextmanager
def nothing_compiles() -> Iterator[None]:
    """Context in which what passes all checks ends where something would be compiled."""

    def evaluated(env: Any, build: Any, options: Any, graphdef: Any, *rest: Any) -> Any:
        jax.eval_shape(functools.partial(build(env, *options), graphdef), *rest)
        raise Reached

    loop = _train._Run.loop

    def first(run: Any, start: Any, callbacks: Any) -> Any:
        return _reached() if start is None else loop(run, start, callbacks)

    with pytest.MonkeyPatch.context() as patch:
        for module in (_evaluation, _episode_recording):
            patch.setattr(module, "run_kept", evaluated)
        patch.setattr(_train._Run, "loop", first)
        patch.setattr(_train, "TrainingLoop", _reached)
        patch.setattr(_many, "TrainingLoop", _reached)
        patch.setattr(_many, "stacked", _reached)
        patch.setattr(_many.StateFactory, "fresh", _reached)
        patch.setattr(_verify_replay, "roll_out", _reached)
        yield


@functools.cache
def rollout() -> Any:
    """Shapes of a rollout, its first carry and its environment states."""
    states = jax.eval_shape(jax.vmap(World().reset), jax.random.split(KEY, B))
    net = Net()
    carry = net.initialize_state(B)
    return states, carry, _unrolled(World(), states, net, carry, T, KEY, None)[2]


def _unrolled(
    env: Any, states: Any, network: Any, carry: Any, length: Any, key: Any, options: Any
) -> Any:
    if not isinstance(states, type(rollout_state())):
        return npt.unroll_env(env, states, network, carry, length, key, options)
    return jax.eval_shape(
        lambda states: npt.unroll_env(env, states, network, carry, length, key, options), states
    )


@functools.cache
def rollout_state() -> Any:
    return jax.eval_shape(jax.vmap(World().reset), jax.random.split(KEY, B))


def _loss(network: Any, carry: Any, data: Any, config: Any, part: Any) -> Any:
    """The loss of a rollout of which a part is another value."""
    of_data = isinstance(data, npt.Transition) and isinstance(part, tuple)
    if of_data and len(part) == 2 and isinstance(part[0], str):
        data = dataclasses.replace(data, **{part[0]: part[1]})
    if not isinstance(data, npt.Transition):
        return npt.ppo_loss(network, carry, data, config)
    arrays, tree = jax.tree.flatten(data)
    zeros = [
        jnp.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf
        for leaf in arrays
    ]
    return jax.eval_shape(lambda: npt.ppo_loss(network, carry, tree.unflatten(zeros), config))


def _functions() -> dict[str, Entry]:
    """What runs networks in environments."""
    states, carry, data = rollout()
    both = {"env": WORLDS, "networks": NETS}
    arrays = {
        name: jnp.ones((T, B)) for name in ("rewards", "values", "bootstrap_values", "ignored")
    }
    sizes = {"ones": jnp.ones((T, B)), "wide": jnp.ones((T, B + 1)), "long": jnp.ones((T + 1, B))}
    parts = {
        f"{field.name}={label}": (field.name, value)
        for field in dataclasses.fields(npt.Transition)
        for label, value in {"None": None, "ones": jnp.ones((T, B)), "text": "x", "{}": {},
                             "wide": jnp.ones((T, B + 1)), "long": jnp.ones((T + 1, B))}.items()
    }  # fmt: skip
    configs = {"burn": tiny(burn_in=2).ppo, "bptt": tiny(bptt_length=1).ppo,
               "keys": tiny(discounting_factor={"a": 0.5}).ppo, "long": tiny(rollout_length=9).ppo,
               "long bptt": tiny(rollout_length=10, bptt_length=5).ppo}  # fmt: skip
    return {
        "check_env": Entry(npt.check_env, {"env": World()}, {"env": WORLDS}),
        "check_boundary": Entry(
            npt.check_boundary,
            {"env": World(), "networks": Net(), "n_envs": B, "combine_advantages": True},
            both,
        ),
        "eval_rollout": Entry(
            npt.eval_rollout,
            {
                "env": World(), "networks": Net(), "n_envs": B, "max_episode_length": T,
                "key": KEY, "logging_percentiles": None, "logging_level": npt.LoggingLevel.ALL,
                "stochastic": False, "group_by": None, "group_names": (),
            },
            {**both, "group_by": {"truncated": "truncated"}},
        ),
        "record_episode": Entry(
            npt.record_episode,
            {"env": World(), "networks": Net(), "max_length": T, "key": KEY},
            both,
        ),
        "unroll_env": Entry(
            _unrolled,
            {
                "env": World(), "states": states, "network": Net(), "carry": carry, "length": T,
                "key": KEY, "options": None,
            },
            {"env": WORLDS, "network": NETS},
        ),
        "ppo_loss": Entry(
            _loss,
            {"network": Net(), "carry": carry, "data": data, "config": tiny().ppo, "part": "none"},
            {"network": NETS, "part": parts, "config": configs},
        ),
        "gae": Entry(
            lambda **given: jax.eval_shape(lambda: npt.gae(**given)),
            {**arrays, "done": jnp.zeros((T, B), bool), "discount": 0.9, "lambda_": 0.9},
            dict.fromkeys([*arrays, "done"], sizes),
        ),
        "verify_replay": Entry(
            npt.verify_replay,
            {
                "env": World(), "networks": Net(), "n_envs": B, "rollout_length": T, "seed": 0,
                "float64": False, "tolerance": None, "unroll_fn": npt.unroll_env,
            },
            both,
        ),
    }  # fmt: skip


def _trainings() -> dict[str, Entry]:
    """Whole trainings, which end where they would compile."""
    state = first_state()
    fields = [field.name for field in dataclasses.fields(npt.TrainingState)]
    states = {
        f"{name}={label}": dataclasses.replace(state, **{name: value})
        for name in fields
        for label, value in {"None": None, "1": 1, "text": "x", "matrix": jnp.ones((2, 3))}.items()
    }
    configs = {
        "no steps left": dataclasses.replace(tiny(), target_return=1.0),
        "video": npt.TrainConfig(ppo=tiny().ppo, video=npt.VideoConfig(enabled=True)),
        "bptt": tiny(bptt_length=1),
        "keys": tiny(discounting_factor={"a": 0.5}),
        "entropy": tiny(entropy_scale=0.5),
        "schedule of none": tiny(learning_rate=lambda: 1.0),
        "schedule of text": tiny(learning_rate=lambda count: "x"),
        "schedule that fails": tiny(entropy_scale=fails),
        "schedule of 10**400": tiny(learning_rate=lambda count: 10**400),
        "schedule of complex": tiny(learning_rate=lambda count: jnp.complex64(1)),
        "schedule of flags": tiny(learning_rate=lambda count: jnp.ones((), bool)),
        "mask that fails": tiny(weight_decay=0.1, weight_decay_mask=lambda: 1),
        "mask of arrays": tiny(weight_decay=0.1, weight_decay_mask=lambda name: jnp.ones(2)),
        "mask of none": tiny(weight_decay=0.1, weight_decay_mask=lambda name: False),
        "groups": npt.TrainConfig(
            ppo=tiny().ppo, eval=npt.EvalConfig(group_by="zzz", group_names=("a",), n_envs=B)
        ),
    }
    functions = {"log_fn": None, "checkpoint_fn": None, "eval_env": None, "optimizer": None}
    shared = {"config": tiny(), "total_steps": None, "callbacks": (), **functions}
    optimizers = {"odd": _Transformation(), "odd updates": _Transformation(lambda *_: (1, 2))}
    sweeps = {
        f"{name} by {label}": {name: values}
        for name in ("learning_rate", "clip_range", "n_envs", "weight_decay", 3, None)
        for label, values in {"two": [1e-3, 1e-4], "text": "ab", "none": [], "huge": [10**400],
                              "mixed": [None, 1.0], "nan": [float("nan")], "one": 1.0}.items()
    }  # fmt: skip
    return {
        "train_ppo": Entry(
            npt.train_ppo,
            {"env": World(), "networks": Net(), "seed": None, "video_fn": None,
             "initial_state": None, **shared},
            {"env": WORLDS, "networks": NETS, "initial_state": states, "config": configs,
             "eval_env": WORLDS, "optimizer": optimizers},
        ),
        "train_ppo_many": Entry(
            npt.train_ppo_many,
            {"make_env": World, "make_network": lambda env, rngs: Net(), "seeds": [0, 1],
             "sweep": None, "initial_states": None, "vectorize": None, **shared},
            {
                "make_env": {name: lambda env=env: env for name, env in WORLDS.items()},
                "make_network": {name: lambda env, rngs, n=n: n for name, n in NETS.items()},
                "config": configs, "sweep": sweeps, "optimizer": optimizers,
                "initial_states": {name: [each, each] for name, each in states.items()},
            },
        ),
    }  # fmt: skip


class _Transformation:
    """What optax might have made, and did not."""

    def __init__(self, update: Any = lambda: 1):
        self.init, self.update = lambda params: params, update


def run_entries() -> dict[str, Entry]:
    """All of them by name."""
    return {**_functions(), **_trainings()}
