"""The variational bottlenecks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_stateful import (
    AR1VariationalBottleneck,
    VariationalBottleneck,
    initial_state,
    kl_to_standard_normal,
    rekey_noise,
    reset_rows,
)
from nnx_stateful.testing import assert_close, check_stateful_module, step_through

STEPS, ROWS, LATENT = 5, 4, 2
XS = jnp.asarray(np.random.default_rng(0).standard_normal((STEPS, ROWS, 2 * LATENT)), jnp.float32)
DONE = jnp.asarray(np.random.default_rng(1).random((STEPS, ROWS)) < 0.3).at[1, 0].set(True)
KINDS = [VariationalBottleneck, AR1VariationalBottleneck]


def test_kl_equals_numerical_integration():
    mu, sigma = 0.7, 0.4
    z = np.linspace(-8, 8, 100_001)
    p = np.exp(-0.5 * ((z - mu) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    log_ratio = -0.5 * ((z - mu) / sigma) ** 2 - np.log(sigma) + 0.5 * z**2
    expected = np.sum(p * log_ratio) * (z[1] - z[0])
    got = kl_to_standard_normal(jnp.array([mu, mu]), jnp.array([sigma, sigma]))
    assert float(got) == pytest.approx(2 * expected, rel=1e-5)


def test_output_loss_and_metrics_equal_the_formulas():
    layer = VariationalBottleneck(LATENT, nnx.Rngs(0), kl_weight=0.25, min_std=0.1)
    out = layer(initial_state(layer, ROWS), XS[0])
    mu, raw = np.split(np.asarray(XS[0]), 2, axis=-1)
    sigma = np.log1p(np.exp(raw)) + 0.1
    kl = np.sum(0.5 * (mu**2 + sigma**2 - 1) - np.log(sigma), axis=-1)
    np.testing.assert_allclose(out.metrics["mu"], mu)
    np.testing.assert_allclose(out.metrics["sigma"], sigma, rtol=1e-5)
    np.testing.assert_allclose(out.metrics["kl_divergence"], kl, rtol=1e-4)
    np.testing.assert_allclose(out.regularization_loss, 0.25 * kl, rtol=1e-4)
    np.testing.assert_allclose(out.output, mu + sigma * out.rollout_extras, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_of_unroll_equals_stepping_bit_for_bit(kind):
    layer = kind(LATENT, nnx.Rngs(0))
    state = initial_state(layer, ROWS)
    stepped = step_through(layer, state, XS, DONE)
    unrolled = layer.unroll(state, XS, DONE)
    assert_close("noise", stepped.rollout_extras, unrolled.rollout_extras)
    assert len(np.unique(stepped.rollout_extras)) == STEPS * ROWS * LATENT


@pytest.mark.parametrize("kind", KINDS)
def test_unroll_has_no_scan(kind):
    layer = kind(LATENT, nnx.Rngs(0))
    jaxpr = jax.make_jaxpr(lambda s: layer.unroll(s, XS, DONE))(initial_state(layer, ROWS))
    assert "scan" not in str(jaxpr)


@pytest.mark.parametrize("kind", KINDS)
def test_replay_draws_nothing(kind):
    layer = kind(LATENT, nnx.Rngs(0))
    state = initial_state(layer, ROWS)
    eps = jnp.ones((STEPS, ROWS, LATENT))
    jaxpr = jax.make_jaxpr(lambda s: layer.unroll(s, XS, DONE, eps).output)(state)
    assert "random" not in str(jaxpr)
    out = layer.unroll(state, XS, DONE, eps)
    np.testing.assert_allclose(out.output, out.metrics["mu"] + out.metrics["sigma"], rtol=1e-5)
    assert out.rollout_extras is eps


@pytest.mark.parametrize("kind", KINDS)
def test_eval_outputs_the_mean_and_train_samples_again(kind):
    layer = kind(LATENT, nnx.Rngs(0))
    state = initial_state(layer, ROWS)
    view = nnx.view(layer, deterministic=True, raise_if_not_found=False)
    for run, x in ((view, XS[0]), (view.unroll, XS)):
        out = run(state, x)
        np.testing.assert_array_equal(out.output, out.metrics["mu"])
    layer.eval()
    assert layer.deterministic
    layer.train()
    assert not np.array_equal(layer(state, XS[0]).output, XS[0][:, :LATENT])
    check_stateful_module(view, XS[0], laws=[5, 6])


@pytest.mark.parametrize("kind", KINDS)
def test_layer_keeps_a_key_and_no_stream(kind):
    rngs = nnx.Rngs(0)
    layers = [kind(LATENT, rngs) for _ in range(2)]
    assert not jax.tree.leaves(nnx.state(layers[0], nnx.RngState))
    outputs = [layer(initial_state(layer, ROWS), XS[0]).output for layer in layers]
    assert not np.array_equal(*outputs)


@pytest.mark.parametrize("kind", KINDS)
def test_rekeying_changes_the_noise(kind):
    layer = kind(LATENT, nnx.Rngs(0))
    state = initial_state(layer, ROWS)
    fresh = rekey_noise(state, jax.random.key(1))
    assert not np.array_equal(layer(state, XS[0]).output, layer(fresh, XS[0]).output)


def test_noise_goes_on_after_a_reset():
    layer = VariationalBottleneck(LATENT, nnx.Rngs(0))
    state = layer(initial_state(layer, ROWS), XS[0]).next_state
    assert_close("", state, reset_rows(layer, state, jnp.ones(ROWS, bool)))


@pytest.mark.parametrize(
    "rngs", [nnx.Rngs(0), nnx.Rngs(params=0), nnx.Rngs(noise=0), nnx.Rngs(0).default]
)
def test_key_comes_from_whatever_stream_there_is(rngs):
    layer = VariationalBottleneck(LATENT, rngs)
    assert layer(initial_state(layer, ROWS), XS[0]).output.shape == (ROWS, LATENT)


@pytest.mark.parametrize(("rngs", "got"), [(0, "int"), (jax.random.key(0), "a key")])
def test_something_else_than_rngs_raises(rngs, got):
    with pytest.raises(TypeError, match=f"rngs: expected nnx.Rngs, got {got}; write nnx.Rngs"):
        VariationalBottleneck(LATENT, rngs)


@pytest.mark.parametrize("kind", KINDS)
def test_another_width_raises(kind):
    layer = kind(3, nnx.Rngs(0))
    with pytest.raises(ValueError, match=rf"{kind.__name__}: expected an input with 6 features"):
        layer(initial_state(layer, ROWS), XS[0])


def test_ar1_loss_equals_a_plain_loop_across_resets():
    layer = AR1VariationalBottleneck(LATENT, nnx.Rngs(0), kl_weight=0.5, ar1_weight=3.0)
    out = layer.unroll(initial_state(layer, ROWS), XS, DONE)
    z = np.asarray(out.output)
    expected = np.zeros((STEPS, ROWS))
    for row in range(ROWS):
        for step in range(1, STEPS):
            if not DONE[step - 1, row]:
                expected[step, row] = np.mean((z[step, row] - z[step - 1, row]) ** 2)
    np.testing.assert_allclose(out.metrics["l2_diff"], expected, rtol=1e-4, atol=1e-6)
    assert (out.metrics["l2_diff"][0] == 0).all()
    total = 0.5 * out.metrics["kl_divergence"] + 3.0 * expected
    np.testing.assert_allclose(out.regularization_loss, total, rtol=1e-4)


@pytest.mark.parametrize("through_time", [True, False])
def test_ar1_gradient_reaches_the_previous_latent_only_if_asked(through_time):
    layer = AR1VariationalBottleneck(
        LATENT, nnx.Rngs(0), kl_weight=0.0, backprop_through_time=through_time
    )

    @jax.jit
    @jax.grad
    def gradient(xs):
        out = layer.unroll(initial_state(layer, ROWS), xs, jnp.zeros((STEPS, ROWS), bool))
        return out.metrics["l2_diff"][1].sum()

    sizes = np.abs(gradient(XS)).sum(axis=(1, 2))
    assert np.isfinite(sizes).all()
    assert (sizes[0] > 0) == through_time
    assert sizes[1] > 0


def test_ar1_gradient_is_finite_in_the_first_step():
    layer = AR1VariationalBottleneck(LATENT, nnx.Rngs(0))
    state = initial_state(layer, ROWS)
    gradient = jax.jit(jax.grad(lambda x: layer(state, x).regularization_loss.sum()))(XS[0])
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("kind", KINDS)
def test_layer_in_float64_keeps_the_laws(kind):
    check_stateful_module(kind(LATENT, nnx.Rngs(0)), XS[0], float64=True, laws=[1, 5, 6])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latent_size": 0}, "latent_size: expected a positive int, got 0"),
        ({"kl_weight": -1.0}, "kl_weight: expected a finite number of at least 0, got -1.0"),
        ({"kl_weight": float("inf")}, "kl_weight: expected a finite number of at least 0, got inf"),
        ({"min_std": 0.0}, "min_std: expected a positive number, got 0.0"),
    ],
)
def test_bad_option_raises(kind, options, message):
    with pytest.raises(ValueError, match=f"{kind.__name__}: {message}"):
        kind(**{"latent_size": LATENT, "rngs": nnx.Rngs(0), **options})


def test_negative_ar1_weight_raises():
    with pytest.raises(ValueError, match="ar1_weight: expected a finite number of at least 0"):
        AR1VariationalBottleneck(LATENT, nnx.Rngs(0), ar1_weight=-1.0)
    with pytest.raises(TypeError, match="backprop_through_time: expected True or False, got 'no'"):
        AR1VariationalBottleneck(LATENT, nnx.Rngs(0), backprop_through_time="no")


@pytest.mark.parametrize("kind", KINDS)
def test_dict_input_raises_suggesting_a_flattener(kind):
    layer = kind(LATENT, nnx.Rngs(0))
    with pytest.raises(TypeError, match=f"{kind.__name__}: expected an array .* got dict"):
        layer(initial_state(layer, ROWS), {"a": XS[0]})
