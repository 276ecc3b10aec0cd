"""The terms of the PPO loss: pure functions of arrays, one number per step and row."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

EPSILON = 1e-8

Number = Float[Array, ""] | float


def clipped_surrogate(
    ratio: Float[Array, "T B"], advantage: Float[Array, "T B"], clip_range: Number
) -> Float[Array, "T B"]:
    """-min(ratio * A, clip(ratio, 1 - eps, 1 + eps) * A) (Schulman et al. 2017, equation 7)."""
    clipped = jnp.clip(ratio, 1.0 - clip_range, 1.0 + clip_range)
    return -jnp.minimum(ratio * advantage, clipped * advantage)


def value_loss(
    value: Float[Array, "T B"],
    target: Float[Array, "T B"],
    old_value: Float[Array, "T B"],
    clip_range: Number | None = None,
    huber_delta: Number | None = None,
) -> Float[Array, "T B"]:
    """Loss of a value against its target: half the squared error, or what the options make of it.

    Args:
      value: current values.
      target: what they should be.
      old_value: values of the rollout.
      clip_range: take the larger loss of ``value`` and of ``old_value + clip(value - old_value,
        -eps, eps)``, as the reference implementation of PPO does; None takes that of ``value``.
      huber_delta: Huber's loss, linear beyond this error; None is half the square everywhere.
    """
    loss = _error_loss(value - target, huber_delta)
    if clip_range is None:
        return loss
    clipped = old_value + jnp.clip(value - old_value, -clip_range, clip_range)
    return jnp.maximum(loss, _error_loss(clipped - target, huber_delta))


def _error_loss(error: Array, huber_delta: Number | None) -> Array:
    if huber_delta is None:
        return 0.5 * jnp.square(error)
    within = jnp.minimum(jnp.abs(error), huber_delta)
    return within * (jnp.abs(error) - 0.5 * within)


def kl_divergence(new: Float[Array, "T B"], old: Float[Array, "T B"]) -> Float[Array, "T B"]:
    """Estimate (r - 1) - log r of KL(old || new) in nats from actions drawn from ``old``.

    It is unbiased and never negative (Schulman 2020, "Approximating KL divergence").

    Args:
      new: log-likelihoods under the current policy.
      old: log-likelihoods under the policy that acted.
    """
    return jnp.expm1(new - old) - (new - old)


def masked_mean(x: Float[Array, "T B"], left_out: Bool[Array, "T B"] | None) -> Float[Array, ""]:
    """Average over time and batch, without the steps that are left out."""
    if left_out is None:
        return jnp.mean(x)
    return jnp.sum(jnp.where(left_out, 0.0, x)) / jnp.maximum(jnp.sum(~left_out), 1)


def normalized(
    advantage: Float[Array, "T B"], left_out: Bool[Array, "T B"] | None
) -> Float[Array, "T B"]:
    """Shifts and scales to mean 0 and standard deviation 1 over the steps that count."""
    mean = masked_mean(advantage, left_out)
    std = jnp.sqrt(masked_mean(jnp.square(advantage - mean), left_out))
    return (advantage - mean) / (std + EPSILON)


def explained_variance(
    value: Float[Array, "T B"], target: Float[Array, "T B"], left_out: Bool[Array, "T B"] | None
) -> Float[Array, ""]:
    """1 - Var(target - value) / Var(target): 1 is perfect, 0 no better than a constant."""

    def variance(x: Array) -> Array:
        return masked_mean(jnp.square(x - masked_mean(x, left_out)), left_out)

    return 1.0 - variance(target - value) / (variance(target) + EPSILON)
