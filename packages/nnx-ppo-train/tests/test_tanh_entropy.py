"""The quadrature of the entropy of tanh-normal, against SciPy's adaptive integration."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from nnx_ppo_train.samplers._tanh_entropy import log_tanh_slope, mean_log_tanh_slope

MEANS = (0.0, 0.1, 0.4, 1.0, 2.0, 4.0, 10.0)


def exact(mean, std):
    """E[log(1 - tanh(z)^2)] for z from N(mean, std)."""

    def integrand(deviation):
        z = mean + std * deviation
        slope = 2.0 * (math.log(2.0) - z - np.logaddexp(0.0, -2.0 * z))
        return scipy.stats.norm.pdf(deviation) * slope

    kink = [-mean / std] if abs(mean / std) < 12 else None
    value, _ = scipy.integrate.quad(
        integrand, -12.0, 12.0, points=kink, epsabs=1e-11, epsrel=1e-11, limit=500
    )
    return value


def compute(mean, std, dtype=jnp.float32):
    return mean_log_tanh_slope(jnp.asarray(mean, dtype), jnp.asarray(std, dtype))


@pytest.mark.parametrize("std", [0.01, 0.1, 0.4, 0.6, 0.7499, 0.75, 0.8, 1.0, 2.0, 5.0, 20.0])
def test_quadrature_is_within_the_stated_error(std):
    expected = np.array([exact(mean, std) for mean in MEANS])
    for sign in (1.0, -1.0):
        means = sign * np.array(MEANS)
        got = compute(means, np.full(len(MEANS), std))
        np.testing.assert_allclose(got, expected, rtol=0, atol=5e-6)
    with jax.enable_x64(True):
        precise = compute(means, np.full(len(MEANS), std), jnp.float64)
        np.testing.assert_allclose(precise, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("std", [0.05, 0.7, 0.75, 0.9, 10.0])
def test_gradient_is_the_slope_of_the_integral(std):
    """Also where the rule changes, at 0.75: neither is doubled, halved or lost there."""
    mean, step = 0.6, 1e-4
    gradient = jax.grad(compute, argnums=(0, 1))(mean, std)
    by_mean = (exact(mean + step, std) - exact(mean - step, std)) / (2 * step)
    by_std = (exact(mean, std + step) - exact(mean, std - step)) / (2 * step)
    np.testing.assert_allclose(gradient, (by_mean, by_std), atol=2e-5)


def test_values_and_gradients_are_finite_everywhere():
    extremes = [(m, s) for m in (-1e4, 0.0, 30.0) for s in (1e-30, 1e-6, 0.75, 1e3, 1e8)]
    means, stds = (jnp.array(column, jnp.float32) for column in zip(*extremes, strict=True))
    gradient = jax.grad(lambda m, s: compute(m, s).sum(), argnums=(0, 1))(means, stds)
    assert np.isfinite(compute(means, stds)).all()
    assert np.isfinite(gradient).all()


def test_log_slope_is_exact_where_tanh_saturates():
    z = np.array([0.0, 0.5, -0.5, 3.0, 40.0, -1e4])
    expected = 2.0 * (np.log(2.0) - np.abs(z) - np.log1p(np.exp(-2.0 * np.abs(z))))
    np.testing.assert_allclose(log_tanh_slope(jnp.asarray(z)), expected, rtol=1e-6, atol=1e-7)
