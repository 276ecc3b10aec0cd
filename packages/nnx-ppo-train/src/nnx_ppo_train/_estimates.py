"""Advantages and value targets of a rollout, per action and per reward."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool
from nnx_stateful import PyTree

from ._gae import gae
from ._hyperparameters import Hyperparameters
from ._objectives import normalized
from ._pairing import match_likelihoods
from ._ppo_config import PPOConfig
from ._types import Transition


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Estimates:
    """What a rollout teaches.

    Attributes:
      advantages: one leaf (T, B) per log-likelihood: what the action gained over what was expected.
      targets: one leaf (T, B) per reward: what the value should have been.
    """

    advantages: PyTree
    targets: PyTree


def estimate(
    rollout: Transition, values: PyTree, config: PPOConfig, hyper: Hyperparameters
) -> Estimates:
    """Estimates advantages and targets from a rollout and values of its observations.

    Args:
      rollout: the rollout, leaves (T, B, ...).
      values: values in the tree of the rewards, leaves (T, B).
      config: says what a truncation means and whether advantages are combined.
      hyper: discount, lambda.

    Returns:
      Estimates without gradient, advantages not yet normalised.
    """
    rollout, values = jax.lax.stop_gradient((rollout, values))
    ignored = _samples_left_out(rollout, config)
    advantages = jax.tree.map(
        lambda reward, value, bootstrap, discount: gae(
            reward,
            value,
            bootstrap,
            rollout.done,
            discount=discount,
            lambda_=hyper.gae_lambda,
            ignored=ignored,
        ),
        rollout.rewards,
        values,
        rollout.bootstrap_value,
        hyper.discounts(rollout.rewards),
    )
    targets = jax.tree.map(jnp.add, values, advantages)
    likelihoods = rollout.network_output.loglikelihoods
    return Estimates(match_likelihoods(advantages, likelihoods, config.combine_advantages), targets)


def with_normalized_advantages(
    estimates: Estimates, left_out: Bool[Array, "T B"] | None
) -> Estimates:
    """Shifts and scales every action's advantages to mean 0, std 1 over the steps that count."""
    advantages = jax.tree.map(lambda a: normalized(a, left_out), estimates.advantages)
    return dataclasses.replace(estimates, advantages=advantages)


def steps_left_out(rollout: Transition, config: PPOConfig) -> Bool[Array, "T B"] | None:
    """Steps that no loss counts: samples that are left out, and the burn-in; None if all count."""
    left_out = _samples_left_out(rollout, config)
    if not config.burn_in:
        return left_out
    burnt = jnp.arange(rollout.done.shape[0])[:, None] < config.burn_in
    return burnt | (jnp.zeros_like(rollout.done) if left_out is None else left_out)


def samples_counted(rollout: Transition, config: PPOConfig) -> Bool[Array, "T B"] | None:
    """Samples that running statistics count; None if all do."""
    left_out = _samples_left_out(rollout, config)
    return None if left_out is None else ~left_out


def _samples_left_out(rollout: Transition, config: PPOConfig) -> Bool[Array, "T B"] | None:
    """Masked truncations and samples that are not finite."""
    masked = rollout.truncated if config.truncation == "mask" else None
    if rollout.nonfinite is None:
        return masked
    return rollout.nonfinite if masked is None else rollout.nonfinite | masked
