"""Noise and OrnsteinUhlenbeckNoise: what is drawn, what is replayed, and its statistics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_stateful import Noise, OrnsteinUhlenbeckNoise, initial_state, rekey_noise
from nnx_stateful.testing import assert_close, step_through

STEPS, ROWS, SIZE = 6, 4, 3
XS = jnp.asarray(np.random.default_rng(0).standard_normal((STEPS, ROWS, SIZE)), jnp.float32)
DONE = jnp.asarray(np.random.default_rng(1).random((STEPS, ROWS)) < 0.3).at[1, 0].set(True)
KINDS = [Noise, OrnsteinUhlenbeckNoise]


@pytest.mark.parametrize("kind", KINDS)
def test_noise_of_unroll_equals_stepping_bit_for_bit(kind):
    layer = kind(SIZE, nnx.Rngs(0))
    state = initial_state(layer, ROWS)
    stepped = step_through(layer, state, XS, DONE)
    unrolled = layer.unroll(state, XS, DONE)
    assert_close("noise", stepped.rollout_extras, unrolled.rollout_extras)
    assert len(np.unique(stepped.rollout_extras)) == STEPS * ROWS * SIZE


@pytest.mark.parametrize("kind", KINDS)
def test_replay_draws_nothing(kind):
    layer = kind(SIZE, nnx.Rngs(0))
    state, eps = initial_state(layer, ROWS), jnp.ones((STEPS, ROWS, SIZE))
    jaxpr = jax.make_jaxpr(lambda s: layer.unroll(s, XS, DONE, eps).output)(state)
    assert "random" not in str(jaxpr)
    assert layer.unroll(state, XS, DONE, eps).rollout_extras is eps


@pytest.mark.parametrize("kind", KINDS)
def test_rekeying_changes_the_noise(kind):
    layer = kind(SIZE, nnx.Rngs(0))
    state = initial_state(layer, ROWS)
    fresh = rekey_noise(state, jax.random.key(1))
    assert not np.array_equal(layer(state, XS[0]).output, layer(fresh, XS[0]).output)


@pytest.mark.parametrize("kind", KINDS)
def test_eval_passes_the_input_on(kind):
    layer = nnx.view(kind(SIZE, nnx.Rngs(0)), deterministic=True, raise_if_not_found=False)
    state = initial_state(layer, ROWS)
    np.testing.assert_array_equal(layer(state, XS[0]).output, XS[0])
    np.testing.assert_array_equal(layer.unroll(state, XS, DONE).output, XS)


def test_white_noise_equals_its_formula():
    scale = np.array([0.1, 2.0, 30.0])
    layer = Noise(SIZE, nnx.Rngs(0), scale=scale)
    out = layer.unroll(initial_state(layer, ROWS), XS, DONE)
    np.testing.assert_allclose(out.output, XS + scale * out.rollout_extras, rtol=1e-5)


def test_ornstein_uhlenbeck_noise_equals_a_plain_loop_across_resets():
    scale, tau, dt = np.array([0.1, 2.0, 30.0]), np.array([0.3, 2.0, 50.0]), 0.5
    layer = OrnsteinUhlenbeckNoise(SIZE, nnx.Rngs(0), scale=scale, time_constant=tau, dt=dt)
    out = layer.unroll(initial_state(layer, ROWS), XS, DONE)
    decay = np.exp(-dt / tau)
    for row in range(ROWS):
        value = None
        for step in range(STEPS):
            eps = np.asarray(out.rollout_extras[step, row], np.float64)
            if value is None:
                value = scale * eps
            else:
                value = decay * value + scale * np.sqrt(1 - decay**2) * eps
            got = out.output[step, row] - XS[step, row]
            np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5)
            value = None if DONE[step, row] else value
        last = np.zeros(SIZE) if value is None else value
        np.testing.assert_allclose(out.next_state["last"][row], last, rtol=1e-4, atol=1e-5)
        assert bool(out.next_state["has_last"][row]) == (value is not None)


def test_ornstein_uhlenbeck_noise_has_its_statistics_from_the_first_step_on():
    rows, scale, tau = 10_000, 0.5, 4.0
    layer = OrnsteinUhlenbeckNoise(1, nnx.Rngs(0), scale=scale, time_constant=tau)
    out = layer.unroll(initial_state(layer, rows), jnp.zeros((4, rows, 1)))
    n = np.asarray(out.output[..., 0])
    np.testing.assert_allclose(n.std(axis=1), scale, rtol=0.03)
    covariance = [np.mean(n[0] * n[lag]) for lag in range(4)]
    expected = scale**2 * np.exp(-np.arange(4) / tau)
    np.testing.assert_allclose(covariance, expected, atol=0.03 * scale**2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("learnable", [False, True])
def test_scale_is_as_given_and_a_parameter_if_learnable(kind, learnable):
    layer = kind(SIZE, nnx.Rngs(0), scale=[0.1, 2.0, 30.0], learnable=learnable)
    np.testing.assert_allclose(layer.scale, [0.1, 2.0, 30.0], rtol=1e-5)
    assert ("log_scale" in nnx.state(layer, nnx.Param)) == learnable


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("scale", "error", "message"),
    [
        (0.0, ValueError, r"expected a number greater than 0, an array \(3,\) .*, got 0"),
        (np.ones((3, 1)), ValueError, r"got shape \(3, 1\)"),
        ("loud", TypeError, "got 'loud' of type str"),
    ],
)
def test_bad_scale_raises(kind, scale, error, message):
    with pytest.raises(error, match=f"{kind.__name__}: scale: .*{message}"):
        kind(SIZE, nnx.Rngs(0), scale=scale)
