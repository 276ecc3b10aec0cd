"""The PPO loss: replay the rollout through ``unroll``, then plain arithmetic."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from nnx_stateful import PyTree, StatefulModule

from ._config import LoggingLevel, PPOConfig
from ._gae import gae
from ._pairing import match_likelihoods, match_rewards
from ._types import Transition

EPSILON = 1e-8


def ppo_loss(
    networks: StatefulModule,
    network_state: PyTree,
    rollout_data: Transition,
    config: PPOConfig,
) -> tuple[Float[Array, ""], dict[str, Any]]:
    """Returns the loss of a rollout (Schulman et al. 2017, arXiv 1707.06347) and its metrics.

    The rollout is replayed from its initial carry state with the stored rollout_extras and
    resets, so before the first update every likelihood ratio is 1.

    Args:
      networks: the network.
      network_state: carry state before the rollout's first step, leaves (B, ...).
      rollout_data: the rollout, leaves (T, B, ...).
      config: clip range, discount and so on.

    Returns:
      The scalar loss: clipped surrogate + ``critic_loss_weight`` * half the squared value error
      + the network's regularization loss, each averaged over time and batch; and a dict of
      metrics.
    """
    rollout = jax.lax.stop_gradient(rollout_data)
    replay = networks.unroll(network_state, rollout.obs, rollout.done, rollout.rollout_extras)
    values = match_rewards(replay.output.value_estimates, rollout.rewards)
    ignored = rollout.truncated if config.truncation == "mask" else None
    advantages = jax.lax.stop_gradient(_advantages(rollout, values, ignored, config))
    targets = jax.lax.stop_gradient(jax.tree.map(jnp.add, values, advantages))

    new, old = replay.output.loglikelihoods, rollout.network_output.loglikelihoods
    per_action = match_likelihoods(advantages, new, config.combine_advantages)
    if config.normalize_advantages:
        per_action = jax.tree.map(lambda a: _normalize(a, ignored), per_action)
    ratios = jax.tree.map(lambda n, o: jnp.exp(n - o), new, old)
    actor = jax.tree.map(
        lambda r, a: _mean(_clipped_surrogate(r, a, config.clip_range), ignored), ratios, per_action
    )
    critic = jax.tree.map(lambda v, t: _mean(0.5 * jnp.square(v - t), ignored), values, targets)
    regularization = _mean(_per_row(replay.regularization_loss, rollout.done), ignored)
    loss = _total(actor) + config.critic_loss_weight * _total(critic) + regularization

    metrics: dict[str, Any] = {"replay/ratio_deviation": _largest_deviation(ratios)}
    level = config.logging_level
    if LoggingLevel.LOSSES in level:
        metrics["losses/actor"] = actor
        metrics["losses/critic"] = critic
        metrics["losses/regularization"] = regularization
    if LoggingLevel.ACTOR_EXTRA in level:
        metrics["losses/clipping_fraction"] = jax.tree.map(
            lambda r: jnp.mean(jnp.abs(r - 1.0) > config.clip_range), ratios
        )
        metrics["losses/approx_kl"] = jax.tree.map(
            lambda r, n, o: jnp.mean((r - 1.0) - (n - o)), ratios, new, old
        )
    if LoggingLevel.CRITIC_EXTRA in level:
        metrics["losses/advantages"] = per_action
        metrics["losses/critic_R^2"] = jax.tree.map(
            lambda v, t: 1.0 - jnp.mean(jnp.square(v - t)) / (jnp.var(t) + EPSILON), values, targets
        )
    return loss, metrics


def _advantages(
    rollout: Transition, values: PyTree, ignored: Bool[Array, "T B"] | None, config: PPOConfig
) -> PyTree:
    return jax.tree.map(
        lambda reward, value, bootstrap: gae(
            reward,
            value,
            bootstrap,
            rollout.done,
            discount=config.discounting_factor,
            lambda_=config.gae_lambda,
            ignored=ignored,
        ),
        rollout.rewards,
        values,
        rollout.bootstrap_value,
    )


def _clipped_surrogate(ratio: Array, advantage: Array, clip_range: float) -> Array:
    """-min(ratio * A, clip(ratio, 1 - eps, 1 + eps) * A), per step and row."""
    clipped = jnp.clip(ratio, 1.0 - clip_range, 1.0 + clip_range)
    return -jnp.minimum(ratio * advantage, clipped * advantage)


def _mean(x: Array, ignored: Bool[Array, "T B"] | None) -> Float[Array, ""]:
    """Average over time and batch, without the ignored steps."""
    if ignored is None:
        return jnp.mean(x)
    return jnp.sum(jnp.where(ignored, 0.0, x)) / jnp.maximum(jnp.sum(~ignored), 1)


def _normalize(advantage: Array, ignored: Bool[Array, "T B"] | None) -> Array:
    """Shifts and scales to mean 0 and standard deviation 1."""
    mean = _mean(advantage, ignored)
    std = jnp.sqrt(_mean(jnp.square(advantage - mean), ignored))
    return (advantage - mean) / (std + EPSILON)


def _per_row(loss: Any, done: Bool[Array, "T B"]) -> Array:
    """A regularization loss, (), (T,) or (T, B), as (T, B)."""
    loss = jnp.asarray(loss)
    return jnp.broadcast_to(loss.reshape(loss.shape + (1,) * (2 - loss.ndim)), done.shape)


def _total(losses: PyTree) -> Float[Array, ""]:
    return sum(jax.tree.leaves(losses), jnp.zeros(()))


def _largest_deviation(ratios: PyTree) -> Float[Array, ""]:
    deviations = [jnp.max(jnp.abs(ratio - 1.0)) for ratio in jax.tree.leaves(ratios)]
    return jnp.max(jnp.stack(deviations))
