"""Whether environment, network and options of a training fit together."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from nnx_stateful import PyTree, StatefulModule

from ._boundary import check_boundary
from ._config import TrainConfig
from ._pairing import leaf_names
from ._ppo_config import PPOConfig


def check_training(env: Any, eval_env: Any, networks: StatefulModule, config: TrainConfig) -> None:
    """Raises unless a network can be trained in an environment as a config says.

    Raises:
      TypeError, ValueError: see :func:`check_boundary`; also if an option would be without effect
        on this network or environment.
    """
    combine = config.ppo.combine_advantages
    check_boundary(env, networks, config.ppo.n_envs, combine)
    if eval_env is not env:
        check_boundary(eval_env, networks, config.eval.n_envs, combine)
    reward = jax.eval_shape(env.reset, jax.eval_shape(lambda: jax.random.key(0))).reward
    _check_discounts(config.ppo, reward)
    _check_entropy(config.ppo, networks)
    _check_bptt(config.ppo, networks)


def _check_discounts(config: PPOConfig, reward: PyTree) -> None:
    discounts = config.discounting_factor
    if isinstance(discounts, Mapping) and jax.tree.structure(dict(discounts)) != (
        jax.tree.structure(reward)
    ):
        raise ValueError(
            "PPOConfig.discounting_factor: expected a number, or a dict with a discount for each "
            f"reward, {leaf_names(reward)}; got {sorted(discounts)}"
        )


def _check_entropy(config: PPOConfig, networks: StatefulModule) -> None:
    changed = callable(config.entropy_scale) or config.entropy_scale != 1.0
    for name, is_set in (
        ("entropy_scale", changed),
        ("entropy_schedule", config.entropy_schedule != "constant"),
    ):
        modules = (module for _, module in nnx.iter_modules(networks))
        if is_set and not any(getattr(module, "entropy_weight", 0.0) for module in modules):
            raise ValueError(
                f"PPOConfig.{name}: expected its default, for no sampler of this network has an "
                f"entropy_weight above 0; got {getattr(config, name)!r}; build the samplers with "
                "entropy_weight=..., or leave it out"
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
        raise ValueError("VideoConfig.enabled is set, but there is no video_fn to receive videos")
    if not callable(getattr(eval_env, "render", None)):
        raise ValueError(
            f"VideoConfig.enabled is set, but {type(eval_env).__name__} has no render method; "
            "give it render(trajectory, **render_kwargs) or disable videos"
        )
