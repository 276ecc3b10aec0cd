"""Compatibility checks of environment, network and options of a training."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from nnx_stateful import PyTree, StatefulModule

from ._adapter import adapters
from ._arguments import refused
from ._boundary import check_boundary
from ._config import TrainConfig
from ._hyperparameters import Hyperparameters
from ._optimizer import Optimizer, decays, parameter_name
from ._pairing import leaf_names
from ._ppo_config import PPOConfig
from ._validate import shown


def check_training(
    env: Any, eval_env: Any, networks: StatefulModule, config: TrainConfig, optimizer: Optimizer
) -> None:
    """Raises unless a network can be trained in an environment as a config says.

    Raises:
      TypeError, ValueError: see :func:`check_boundary` and :func:`check_options`.
    """
    combine = config.ppo.combine_advantages
    check_boundary(env, networks, config.ppo.n_envs, combine)
    if eval_env is not env:
        check_boundary(eval_env, networks, config.eval.n_envs, combine)
    check_options(env, networks, config, optimizer)
    _check_groups(eval_env, config)


def _check_groups(env: Any, config: TrainConfig) -> None:
    """Raises unless the environment says to which group an episode belongs."""
    name = config.eval.group_by
    if name is None or not config.eval.enabled:
        return
    info = jax.eval_shape(env.reset, jax.eval_shape(lambda: jax.random.key(0))).info
    if not isinstance(info, Mapping) or name not in info:
        found = ", ".join(map(repr, info)) if isinstance(info, Mapping) else repr(info)
        raise ValueError(
            f"EvalConfig.group_by: expected a key of info of {type(env).__name__}, got {name!r}; "
            f"it has {found or 'none'}"
        )
    leaf = info[name]
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape != () or dtype is None or not jnp.issubdtype(dtype, jnp.integer):
        raise ValueError(
            f"EvalConfig.group_by: expected one int for an environment in info[{name!r}], the "
            f"index of its group, got shape {shape} and dtype {dtype}; store it as jnp.int32(index)"
        )


def check_options(
    env: Any, networks: StatefulModule, config: TrainConfig, optimizer: Optimizer
) -> None:
    """Raises if an option is illegal or without effect on this network or environment."""
    reward = jax.eval_shape(env.reset, jax.eval_shape(lambda: jax.random.key(0))).reward
    _check_discounts(config.ppo, reward)
    _check_schedule(config.ppo, "learning_rate")
    _check_schedule(config.ppo, "entropy_scale")
    _check_adapters(config.ppo, networks)
    _check_samplers(config.ppo, networks)
    _check_bptt(config.ppo, networks)
    _check_optimizer(networks, config.ppo, optimizer)


def check_functions(**functions: Any) -> None:
    """Raises TypeError unless each is a function or None."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(f"{name}: expected a function or None, got {function!r}")


def _check_discounts(config: PPOConfig, reward: PyTree) -> None:
    discounts = config.discounting_factor
    if isinstance(discounts, Mapping) and jax.tree.structure(dict(discounts)) != (
        jax.tree.structure(reward)
    ):
        raise ValueError(
            "PPOConfig.discounting_factor: expected a number, or a dict with a discount for each "
            f"reward, {leaf_names(reward)}; got {sorted(discounts)}"
        )


def _check_adapters(config: PPOConfig, networks: StatefulModule) -> None:
    """Raises where it is not clear whose values are normalized."""
    found = len(adapters(networks))
    if config.normalize_values and found > 1:
        raise ValueError(
            "PPOConfig.normalize_values: expected a network with one PPOAdapter, whose values are "
            f"normalized, got one with {found}; join their ports in one, or set "
            "normalize_values=False"
        )


def _check_schedule(config: PPOConfig, name: str) -> None:
    """A schedule must give one finite number, not negative, at the first update and at the last."""
    schedule = getattr(config, name)
    if not callable(schedule):
        return
    iterations = -(-config.total_steps // config.steps_per_iteration)
    for count in (0, iterations * config.updates_per_iteration - 1):
        with refused(f"PPOConfig.{name}", "a schedule of a count", schedule, ValueError):
            value: Any = schedule(jnp.int32(count))
            scalar = isinstance(value, int | float) or getattr(value, "shape", None) == ()
            legal = scalar and 0 <= float(value) < math.inf
        if not legal:
            raise ValueError(
                f"PPOConfig.{name}: expected a schedule that gives a finite number of at least 0 "
                f"for every update, got {shown(value)} for update {count}; try it by itself"
            )


def _check_samplers(config: PPOConfig, networks: StatefulModule) -> None:
    modules: list[Any] = [module for _, module in nnx.iter_modules(networks)]
    samplers = [module for module in modules if hasattr(module, "entropy_weight")]
    if any(getattr(sampler, "deterministic", False) for sampler in samplers):
        raise ValueError(
            "networks: expected samplers that draw, got a network in evaluation mode, which would "
            "be trained without exploring; call networks.train()"
        )
    changed = callable(config.entropy_scale) or config.entropy_scale != 1.0
    for name, is_set in (
        ("entropy_scale", changed),
        ("entropy_schedule", config.entropy_schedule != "constant"),
    ):
        if is_set and not any(sampler.entropy_weight for sampler in samplers):
            raise ValueError(
                f"PPOConfig.{name}: expected its default, for no sampler of this network has an "
                f"entropy_weight above 0; got {getattr(config, name)!r}; build the samplers with "
                "entropy_weight=..., or leave it out"
            )


def _check_optimizer(networks: StatefulModule, config: PPOConfig, optimizer: Optimizer) -> None:
    """Takes a step by shapes alone: some transformations want more than gradients."""
    params = nnx.state(networks, nnx.Param)
    hyper = Hyperparameters.of(config)

    def step(params: PyTree) -> PyTree:
        return optimizer.step(hyper, jnp.ones(()), params, optimizer.init(params), params)[0]

    try:
        stepped = jax.eval_shape(step, params)
    except Exception as error:
        raise ValueError(
            "optimizer: expected an optax transformation that makes updates of gradients, state "
            f"and parameters alone, got one that failed: {type(error).__name__}: {error}"
        ) from error
    if jax.tree.structure(stepped) != jax.tree.structure(params):
        raise ValueError("optimizer: expected updates in the tree of the parameters, got another")
    named = jax.tree_util.tree_leaves_with_path(params)
    mask = config.weight_decay_mask
    if config.weight_decay is not None and not any(decays(mask, *pair) for pair in named):
        raise ValueError(
            "PPOConfig.weight_decay_mask: expected one that some parameter of the network passes, "
            f"got {mask!r}, which passes none of "
            f"{', '.join(parameter_name(path) for path, _ in named[:5])}; use 'all', or leave "
            "weight_decay out"
        )


def _check_bptt(config: PPOConfig, networks: StatefulModule) -> None:
    if config.bptt_length is None:
        return
    state = jax.eval_shape(lambda: networks.initialize_state(1))
    if not any(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(state)):
        raise ValueError(
            "PPOConfig.bptt_length: expected None, for this network has no carry state through "
            f"which gradients could flow back in time; got {config.bptt_length}; leave it out"
        )


def check_video(config: TrainConfig, video_fn: Any, eval_env: Any) -> None:
    """Raises ValueError if videos are asked for that nobody can make or receive."""
    if not config.video.enabled:
        return
    if video_fn is None:
        raise ValueError(
            "VideoConfig.enabled is set, but expected a video_fn to receive videos, got none"
        )
    if not callable(getattr(eval_env, "render", None)):
        raise ValueError(
            f"VideoConfig.enabled is set, but {type(eval_env).__name__} has no render method; "
            "expected render(trajectory, **render_kwargs); add it, or disable videos"
        )
