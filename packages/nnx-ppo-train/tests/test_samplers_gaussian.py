"""The Gaussian samplers: densities, entropies, gradients, and the standard deviation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from flax import nnx
from nnx_ppo_train import NormalSampler, NormalTanhSampler
from nnx_stateful import initial_state

from ._samplers import compiled

GAUSSIAN = (NormalSampler, NormalTanhSampler)
B = 3

by_kind = pytest.mark.parametrize("kind", GAUSSIAN)


def random_actions(rows, width):
    return np.random.default_rng(1).normal(size=(rows, width)).astype(np.float32)


def gaussian_parameters(mean, std):
    """The input that makes a sampler with min_std 1e-6 use these means and deviations."""
    scale = np.log(np.expm1(np.asarray(std) - 1e-6))
    return np.concatenate([mean, scale], axis=-1).astype(np.float32)


def evaluate(kind, mean, std, raw_action, noise=None, **options):
    """Evaluates raw actions (B, A) under one mean and deviation (A,)."""
    rows = raw_action.shape[0]
    params = np.tile(gaussian_parameters(mean, std), (rows, 1))
    extras = {"raw_action": raw_action, "noise": np.zeros_like(raw_action)}
    if noise is not None:
        extras["noise"] = noise
    return compiled(kind, min_std=1e-6, **options)(params, extras)


# ---- densities -------------------------------------------------------------------------------


def test_normal_log_density_equals_scipy():
    raw = random_actions(50, 2) * 3
    mean, std = np.array([0.3, -2.0]), np.array([0.05, 4.0])
    expected = scipy.stats.norm.logpdf(np.asarray(raw, float), mean, std).sum(-1)
    got = evaluate(NormalSampler, mean, std, raw)
    np.testing.assert_allclose(got.output["log_likelihood"], expected, rtol=1e-4)
    np.testing.assert_array_equal(got.output["action"], raw)


def test_tanh_log_density_equals_the_change_of_variables():
    raw = random_actions(50, 2)
    mean, std = np.array([0.3, -1.0]), np.array([0.1, 2.0])
    z = np.asarray(raw, float)
    action = np.tanh(z)
    expected = scipy.stats.norm.logpdf(np.arctanh(action), mean, std) - np.log(1 - action**2)
    got = evaluate(NormalTanhSampler, mean, std, raw)
    np.testing.assert_allclose(got.output["log_likelihood"], expected.sum(-1), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(got.output["action"], action, atol=1e-6)


def grid(mean, std, rows=4001):
    return np.linspace(mean - 8 * std, mean + 8 * std, rows, dtype=np.float32)[:, None]


def actions_of(kind, raw):
    z = np.asarray(raw[:, 0], float)
    return z if kind is NormalSampler else np.tanh(z)


@by_kind
@pytest.mark.parametrize("std", [0.02, 0.7, 2.0])
def test_density_integrates_to_one(kind, std):
    raw = grid(0.5, std)
    density = np.exp(evaluate(kind, [0.5], [std], raw).output["log_likelihood"])
    total = np.trapezoid(np.asarray(density, float), actions_of(kind, raw))
    assert total == pytest.approx(1.0, abs=2e-3)


@by_kind
def test_draws_follow_the_distribution(kind):
    rows = 20_000
    out = compiled(kind, min_std=1e-6)(np.tile(gaussian_parameters([0.5], [1.5]), (rows, 1)))
    z = np.asarray(out.output["action"][:, 0], float)
    if kind is NormalTanhSampler:
        z = np.arctanh(np.clip(z, -1 + 1e-7, 1 - 1e-7))
    assert scipy.stats.kstest(z, scipy.stats.norm(0.5, 1.5).cdf).pvalue > 1e-4


# ---- entropies -------------------------------------------------------------------------------


def test_normal_entropy_equals_scipy():
    std = np.array([0.05, 4.0])
    out = evaluate(NormalSampler, np.zeros(2), std, np.zeros((1, 2)), entropy_weight=0.5)
    expected = scipy.stats.norm.entropy(0, std).sum()
    np.testing.assert_allclose(out.metrics["entropy"], [expected], rtol=1e-5)
    np.testing.assert_allclose(out.regularization_loss, [-0.5 * expected], rtol=1e-5)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.3), (0.7, 1.0), (-1.0, 2.5)])
def test_tanh_entropy_is_the_integral_of_the_density(mean, std):
    """What quadrature gives, and what the estimate averages to over standard normal noise."""
    raw = grid(mean, std)
    density = np.asarray(
        evaluate(NormalTanhSampler, [mean], [std], raw).output["log_likelihood"], float
    )
    action = actions_of(NormalTanhSampler, raw)
    expected = -np.trapezoid(np.exp(density) * density, action)

    noise = grid(0.0, 1.0)
    out = evaluate(NormalTanhSampler, [mean], [std], np.zeros_like(noise), noise)
    z = np.asarray(noise[:, 0], float)
    weights = scipy.stats.norm.pdf(z) * (z[1] - z[0])
    assert (weights * out.metrics["entropy"]).sum() == pytest.approx(expected, abs=5e-3)

    exact = evaluate(NormalTanhSampler, [mean], [std], raw[:1], entropy="quadrature")
    assert float(exact.metrics["entropy"][0]) == pytest.approx(expected, abs=5e-3)


def test_tanh_entropy_estimate_does_not_depend_on_the_stored_action():
    """The noise of the rollout is used, not the action: parameters have changed since."""
    noise = random_actions(B, 1)
    outs = [
        evaluate(NormalTanhSampler, [0.2], [1.0], np.full((B, 1), raw), noise) for raw in (0.0, 2.0)
    ]
    np.testing.assert_array_equal(*(out.metrics["entropy"] for out in outs))


# ---- extremes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options"),
    [(NormalSampler, {}), (NormalTanhSampler, {}), (NormalTanhSampler, {"entropy": "quadrature"})],
    ids=["normal", "tanh", "tanh, quadrature"],
)
def test_gradients_are_finite_at_the_bounds(kind, options):
    sampler = kind(nnx.Rngs(0), entropy_weight=1.0, **options)
    extreme, raws = np.array([-1e4, -60.0, 0.0, 60.0, 1e4]), [-1e3, -10.0, 0.0, 10.0, 1e3]
    corners = np.stack(np.meshgrid(extreme, extreme, raws, [-5.0, 5.0]), axis=-1).reshape(-1, 4)
    params, raw_action, noise = jnp.split(jnp.asarray(corners, jnp.float32), (2, 3), axis=-1)
    state = sampler.initialize_state(corners.shape[0])

    @jax.jit
    @jax.value_and_grad
    def loss(params):
        out = sampler(state, params, {"raw_action": raw_action, "noise": noise})
        return out.output["log_likelihood"].sum() + out.regularization_loss.sum()

    value, gradient = loss(params)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


# ---- the standard deviation ------------------------------------------------------------------


def test_std_is_scaled_and_bounded_below():
    step = compiled(NormalSampler, min_std=0.25, std_scale=2.0)
    sigma = step(np.array([[0.0, -1e4], [0.0, 0.0]])).metrics["sigma"][:, 0]
    np.testing.assert_allclose(sigma, [0.5, 2 * (np.log(2) + 0.25)], rtol=1e-6)


@by_kind
@pytest.mark.parametrize(("initial", "expected"), [(None, 1.0), (0.3, 0.3)])
def test_free_std_starts_where_it_is_told_and_is_the_same_for_all_rows(kind, initial, expected):
    step = compiled(kind, state_independent_std=2, initial_std=initial, min_std=0.05, std_scale=1.5)
    out = step(random_actions(B, 2))
    np.testing.assert_allclose(out.metrics["sigma"], np.full((B, 2), expected), rtol=1e-6)
    np.testing.assert_array_equal(out.metrics["mu"], random_actions(B, 2))


@by_kind
def test_free_std_is_trained_by_the_likelihood(kind):
    """d log N(x; 0, s) / d log s = (x / s)^2 - 1, at min_std next to nothing."""
    sampler = kind(nnx.Rngs(0), min_std=1e-9, state_independent_std=2, initial_std=0.5)
    raw = np.array([[1.0, 0.0]], np.float32)

    def likelihood(sampler):
        extras = {"raw_action": raw, "noise": raw}
        out = sampler(initial_state(sampler, 1), np.zeros((1, 2), np.float32), extras)
        return out.output["log_likelihood"].sum()

    gradient = nnx.grad(likelihood)(sampler)
    np.testing.assert_allclose(gradient["log_std"][...], [3.0, -1.0], rtol=1e-5)


@by_kind
def test_std_read_from_the_input_leaves_no_parameter(kind):
    assert not jax.tree.leaves(nnx.state(kind(nnx.Rngs(0)), nnx.Param))


# ---- bad input -------------------------------------------------------------------------------


@by_kind
def test_width_that_does_not_fit_is_refused(kind):
    sampler = kind(nnx.Rngs(0))
    with pytest.raises(ValueError, match=rf"{kind.__name__}: expected an even number .* \(3, 5\)"):
        sampler(initial_state(sampler, B), jnp.zeros((B, 5)))
    free = kind(nnx.Rngs(0), state_independent_std=2)
    with pytest.raises(ValueError, match=r"expected 2 features, the mean of .*got shape \(3, 4\)"):
        free(initial_state(free, B), jnp.zeros((B, 4)))


@by_kind
def test_mask_is_refused(kind):
    sampler = kind(nnx.Rngs(0))
    inputs = {"params": jnp.zeros((B, 4)), "mask": jnp.ones((B, 4), bool)}
    with pytest.raises(TypeError, match="a mask rules out choices and serves discrete samplers"):
        sampler(initial_state(sampler, B), inputs)


@by_kind
@pytest.mark.parametrize("name", ["min_std", "std_scale"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf")])
def test_bad_std_option_is_refused(kind, name, value):
    with pytest.raises(ValueError, match=rf"{kind.__name__}\.{name}: expected a finite number"):
        kind(nnx.Rngs(0), **{name: value})


@by_kind
@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"state_independent_std": 0}, ValueError, r"state_independent_std: .* of at least 1"),
        ({"state_independent_std": True}, TypeError, r"state_independent_std: .* whole number"),
        ({"initial_std": 0.5}, ValueError, r"initial_std: expected None .*set state_independent"),
        (
            {"state_independent_std": 2, "initial_std": 0.1, "min_std": 0.1},
            ValueError,
            r"initial_std: expected a finite number above 0.1, got 0.1",
        ),
        ({"state_independent_std": 2, "initial_std": "1"}, TypeError, "initial_std: .* a number"),
    ],
)
def test_bad_free_std_is_refused(kind, options, error, match):
    with pytest.raises(error, match=match):
        kind(nnx.Rngs(0), **options)


def test_unknown_entropy_is_refused():
    with pytest.raises(ValueError, match=r"entropy: expected one of 'noise', 'quadrature', got 'e"):
        NormalTanhSampler(nnx.Rngs(0), entropy="exact")  # pyright: ignore[reportArgumentType]
