"""Training, and the loss and the advantages with their published arguments."""

from typing import Any

import jax.numpy as jnp
import nnx_ppo_train
from jaxtyping import Array, Bool, Float
from nnx_ppo_train import LoggingLevel, TrainConfig, Transition, train_ppo
from nnx_stateful import PyTree, StatefulModule

from .config import PPOConfig

__all__ = ["default_config", "gae", "ppo_loss", "train_ppo"]


def default_config() -> TrainConfig:
    """Returns the default configuration of a run.

    Example:
      >>> default_config().ppo.n_envs
      256
    """
    return TrainConfig(ppo=PPOConfig())


def ppo_loss(
    networks: StatefulModule,
    network_state: PyTree,
    rollout_data: Transition,
    clip_range: float,
    normalize_advantages: bool,
    combine_advantages: bool,
    discounting_factor: float,
    gae_lambda: float,
    critic_loss_weight: float,
    logging_level: LoggingLevel,
) -> tuple[Float[Array, ""], dict[str, Any]]:
    """Returns :func:`nnx_ppo_train.ppo_loss` for options that are given one by one.

    Args:
      networks: the network.
      network_state: carry state before the rollout's first step, leaves (B, ...).
      rollout_data: a rollout from ``unroll_env``, leaves (T, B, ...).
      clip_range: half-width of the interval for the likelihood ratio.
      normalize_advantages: whether advantages are shifted and scaled.
      combine_advantages: whether every action trains on the sum over reward keys.
      discounting_factor: discount per step.
      gae_lambda: lambda.
      critic_loss_weight: weight of the value loss.
      logging_level: groups of metrics to compute.

    Returns:
      The scalar loss and a dict of metrics.
    """
    config = PPOConfig(
        clip_range=_number(clip_range),
        normalize_advantages=normalize_advantages,
        combine_advantages=combine_advantages,
        discounting_factor=_number(discounting_factor),
        gae_lambda=_number(gae_lambda),
        critic_loss_weight=_number(critic_loss_weight),
        logging_level=logging_level,
    )
    return nnx_ppo_train.ppo_loss(networks, network_state, rollout_data, config)


def gae(
    rewards: Float[Array, "T B"],
    values_excl_last: Float[Array, "T B"],
    last_value: Float[Array, "B"],
    done: Bool[Array, "T B"],
    truncation: Bool[Array, "T B"],
    lambda_: float,
    gamma: float,
) -> Float[Array, "T B"]:
    """Returns :func:`nnx_ppo_train.gae` in its masking form.

    A step that was truncated has no error of its own, and no value follows the end of an
    episode. ``train_ppo`` does better by default: it bootstraps truncated steps.

    Args:
      rewards: rewards.
      values_excl_last: values of the observations at each step.
      last_value: values of the observations after the last step.
      done: the episode ended with the step.
      truncation: it ended by a limit.
      lambda_: lambda, in [0, 1].
      gamma: discount per step, in [0, 1].

    Raises:
      TypeError, ValueError: if something is no array of the shape above, or a discount is not in
        [0, 1].

    Example:
      >>> one, no = jnp.ones((2, 1)), jnp.zeros((2, 1), bool)
      >>> gae(one, 0 * one, jnp.array([4.0]), no, no, lambda_=1.0, gamma=0.5)[:, 0].tolist()
      [2.5, 3.0]
    """
    _check_arrays(rewards, values_excl_last, last_value, done, truncation)
    done = done.astype(bool)
    following = jnp.where(done[-1], 0.0, last_value)
    bootstrap = jnp.zeros_like(values_excl_last).at[-1].set(following)
    return nnx_ppo_train.gae(
        rewards,
        values_excl_last,
        bootstrap,
        done,
        discount=gamma,
        lambda_=lambda_,
        ignored=truncation.astype(bool),
    )


def _number(value: Any) -> Any:
    """A Python number for a scalar of NumPy or JAX; anything else as it is, for the config."""
    return value.item() if getattr(value, "shape", None) == () else value


def _check_arrays(rewards: Any, values: Any, last_value: Any, done: Any, truncation: Any) -> None:
    """Raises unless the first has shape (T, B), and so have the others, or (B,) the last value."""
    given = {"rewards": rewards, "values_excl_last": values, "done": done, "truncation": truncation}
    wanted = getattr(rewards, "shape", None)
    for name, array in {**given, "last_value": last_value}.items():
        shape = getattr(array, "shape", None)
        if not isinstance(shape, tuple) or not isinstance(wanted, tuple):
            raise TypeError(f"gae: {name}: expected an array, got {type(array).__name__}")
        expected = wanted[1:] if name == "last_value" else wanted
        if len(wanted) != 2 or 0 in wanted or shape != expected:
            raise ValueError(
                f"gae: {name}: expected an array {'(B,)' if name == 'last_value' else '(T, B)'} "
                f"beside rewards of shape {wanted}, got {shape}"
            )
