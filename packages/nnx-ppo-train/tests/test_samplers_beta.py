"""BetaSampler: density and entropy against SciPy, bounds, draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from flax import nnx
from nnx_ppo_train import BetaSampler
from nnx_ppo_train.samplers._beta_density import beta_entropy, beta_log_density, stirling_remainder
from nnx_stateful import initial_state

from ._samplers import compiled

SHAPES = [(1.0, 1.0), (1.0, 3.0), (1.7, 1.7), (2.5, 40.0), (90.0, 10.0), (600.0, 400.0)]


def parameters(alpha, beta):
    """The input that makes the sampler use these shapes, both above 1."""
    return np.log(np.expm1(np.array([alpha, beta], float) - 1.0)).astype(np.float32)


def distribution(alpha, beta):
    """The same distribution by SciPy, on (-1, 1)."""
    return scipy.stats.beta(alpha, beta, loc=-1.0, scale=2.0)


@pytest.mark.parametrize(("alpha", "beta"), SHAPES)
def test_log_density_equals_scipy(alpha, beta):
    actions = distribution(alpha, beta).ppf(np.linspace(0.01, 0.99, 25)).astype(np.float32)
    expected = distribution(alpha, beta).logpdf(np.asarray(actions, float))
    got = beta_log_density(jnp.asarray(actions), jnp.float32(alpha), jnp.float32(beta))
    np.testing.assert_allclose(got, expected, atol=1e-5 if alpha + beta <= 100 else 1e-4)


@pytest.mark.parametrize(("alpha", "beta"), [*SHAPES, (1e5, 3e4)])
def test_entropy_equals_scipy(alpha, beta):
    got = beta_entropy(jnp.float32(alpha), jnp.float32(beta))
    assert float(got) == pytest.approx(distribution(alpha, beta).entropy(), abs=1e-5)


@pytest.mark.parametrize(("alpha", "beta"), [(1.7, 1.7), (2.5, 40.0)])
def test_gradients_are_the_slopes_of_scipy(alpha, beta):
    step, action = 1e-4, -0.4

    def slopes(of):
        return [
            (of(alpha + step, beta) - of(alpha - step, beta)) / (2 * step),
            (of(alpha, beta + step) - of(alpha, beta - step)) / (2 * step),
        ]

    by_density = jax.grad(lambda a, b: beta_log_density(jnp.float32(action), a, b), (0, 1))
    expected = slopes(lambda a, b: distribution(a, b).logpdf(action))
    np.testing.assert_allclose(by_density(alpha, beta), expected, atol=2e-5)
    expected = slopes(lambda a, b: distribution(a, b).entropy())
    np.testing.assert_allclose(jax.grad(beta_entropy, (0, 1))(alpha, beta), expected, atol=2e-5)


def test_remainder_of_stirlings_formula_equals_scipy():
    z = np.array([1.0, 1.3, 2.0, 5.0, 30.0, 1e4])
    stirling = (z - 0.5) * np.log(z) - z + 0.5 * np.log(2 * np.pi)
    expected = scipy.special.gammaln(z) - stirling
    with jax.enable_x64(True):
        np.testing.assert_allclose(stirling_remainder(jnp.asarray(z)), expected, atol=1e-7)


def test_sampler_sums_the_components_of_the_stored_action():
    shapes = [(1.7, 3.0), (20.0, 5.0)]
    action = np.array([[0.3, 0.7], [-0.9, 0.2]], np.float32)
    first, second = (parameters(*pair) for pair in shapes)
    params = np.tile(np.stack([first, second], axis=-1).reshape(-1), (2, 1))
    out = compiled(BetaSampler, entropy_weight=0.5)(params, {"raw_action": action})
    laws = [distribution(*pair) for pair in shapes]
    expected = sum(law.logpdf(action[:, k]) for k, law in enumerate(laws))
    np.testing.assert_allclose(out.output["log_likelihood"], expected, rtol=1e-5)
    np.testing.assert_array_equal(out.output["action"], action)
    entropy = sum(law.entropy() for law in laws)
    np.testing.assert_allclose(out.metrics["entropy"], [entropy] * 2, rtol=1e-5)
    np.testing.assert_allclose(out.regularization_loss, [-0.5 * entropy] * 2, rtol=1e-5)
    np.testing.assert_allclose(out.metrics["alpha"][0], [1.7, 20.0], rtol=1e-6)
    np.testing.assert_allclose(out.metrics["beta"][0], [3.0, 5.0], rtol=1e-6)


def test_density_integrates_to_one_over_actions():
    grid = np.linspace(-1.0, 1.0, 4001, dtype=np.float32)[:, None]
    params = np.tile(parameters(1.7, 3.0), (len(grid), 1))
    out = compiled(BetaSampler)(params, {"raw_action": grid})
    density = np.exp(np.asarray(out.output["log_likelihood"], float))
    assert np.trapezoid(density, grid[:, 0]) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.fast("2.0-*")
@pytest.mark.parametrize(("alpha", "beta"), [(1.2, 1.2), (2.0, 6.0)])
def test_draws_follow_the_distribution(alpha, beta):
    out = compiled(BetaSampler)(np.tile(parameters(alpha, beta), (20_000, 1)))
    actions = np.asarray(out.output["action"][:, 0], float)
    assert scipy.stats.kstest(actions, distribution(alpha, beta).cdf).pvalue > 1e-4


def test_values_and_gradients_are_finite_at_the_bounds():
    sampler = BetaSampler(nnx.Rngs(0), entropy_weight=1.0)
    extreme = [-1e4, -30.0, 0.0, 30.0, 1e4]
    corners = np.stack(np.meshgrid(extreme, extreme, [-1.0, 0.0, 1.0]), axis=-1).reshape(-1, 3)
    params, action = jnp.split(jnp.asarray(corners, jnp.float32), (2,), axis=-1)
    state = initial_state(sampler, len(corners))

    def total(params):
        out = sampler(state, params, {"raw_action": action})
        return out.output["log_likelihood"].sum() + out.regularization_loss.sum()

    value, gradient = jax.jit(jax.value_and_grad(total))(params)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_draws_stay_within_the_bounds_where_the_distribution_sits_on_one():
    params = np.array([[1e9, -1e9], [-1e9, 1e9]], np.float32)
    out = compiled(BetaSampler)(params)
    assert np.isfinite(out.output["log_likelihood"]).all()
    np.testing.assert_allclose(out.output["action"], [[1.0], [-1.0]], atol=2e-6)
    assert (np.abs(out.output["action"]) < 1).all()


def test_odd_width_is_refused():
    sampler = BetaSampler(nnx.Rngs(0))
    with pytest.raises(ValueError, match=r"BetaSampler: expected an even number .*shape \(3, 5\)"):
        sampler(initial_state(sampler, 3), jnp.zeros((3, 5)))


def test_mask_is_refused():
    sampler = BetaSampler(nnx.Rngs(0))
    inputs = {"params": jnp.zeros((3, 4)), "mask": jnp.ones((3, 4), bool)}
    with pytest.raises(TypeError, match=r"BetaSampler: .*a mask rules out choices"):
        sampler(initial_state(sampler, 3), inputs)
