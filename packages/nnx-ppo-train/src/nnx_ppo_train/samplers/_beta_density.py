"""Density and entropy of a Beta distribution on (-1, 1), accurate also where it is narrow.

Written with the gamma function, both are small differences of large numbers. Here the large parts
of Stirling's formula,

    log Gamma(z) = (z - 1/2) log z - z + log(2 pi) / 2 + remainder(z),

have been cancelled by hand.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._gaussian import LOG_2PI

LOG_2 = math.log(2.0)

_FRACTION = (1 / 12, 1 / 30, 53 / 210, 195 / 371, 22999 / 22737)


def beta_log_density(action: Array, alpha: Array, beta: Array) -> Array:
    """Log density at actions within (-1, 1), per component; shapes are at least 1.

    With x = (1 + action) / 2, n = alpha + beta and the mean m = alpha / n of x it is

        alpha log(x / m) + beta log((1 - x) / (1 - m)) - log(x (1 - x))
        + (log(m beta) - log(2 pi)) / 2 - remainder(alpha) - remainder(beta) + remainder(n) - log 2.
    """
    n = alpha + beta
    log_x, log_rest = jnp.log1p(action) - LOG_2, jnp.log1p(-action) - LOG_2
    log_mean, log_rest_mean = jnp.log(alpha / n), jnp.log(beta / n)
    return (
        alpha * (log_x - log_mean)
        + beta * (log_rest - log_rest_mean)
        - (log_x + log_rest)
        + 0.5 * (log_mean + jnp.log(beta) - LOG_2PI)
        - stirling_remainder(alpha)
        - stirling_remainder(beta)
        + stirling_remainder(n)
        - LOG_2
    )


def beta_entropy(alpha: Array, beta: Array) -> Array:
    """Entropy in nats, per component; shapes are at least 1.

    With n = alpha + beta and r the remainder it is the sum of log(2 pi alpha beta / n^3) / 2, of
    r(z) + (z - 1) (1 / (2 z) - r'(z)) for both shapes z, of -r(n) - (n - 2) (1 / (2 n) - r'(n)),
    and of log 2.
    """
    n = alpha + beta
    narrowness = jnp.log(alpha / n) + jnp.log(beta / n) - jnp.log(n)
    return (
        0.5 * (LOG_2PI + narrowness)
        + _correction(alpha, 1.0)
        + _correction(beta, 1.0)
        - _correction(n, 2.0)
        + LOG_2
    )


def stirling_remainder(z: Float[Array, "..."]) -> Float[Array, "..."]:
    """What Stirling's formula lacks of log Gamma(z), for z >= 1, within 1e-7.

    The continued fraction of Stieltjes (Abramowitz and Stegun 6.1.48) at z + 1, and the step from
    there to z.
    """
    first, *others = _FRACTION
    tail = z + 1.0
    for term in reversed(others):
        tail = (z + 1.0) + term / tail
    return first / tail + (z + 0.5) * jnp.log1p(1.0 / z) - 1.0


def _correction(z: Array, offset: float) -> Array:
    remainder, slope = jax.jvp(stirling_remainder, (z,), (jnp.ones_like(z),))
    return remainder + (z - offset) * (0.5 / z - slope)
