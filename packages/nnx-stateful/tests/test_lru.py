"""LRU, against a complex NumPy loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given
from hypothesis import strategies as st
from nnx_stateful import LRU, initial_state
from nnx_stateful.layers._linear_recurrence import solve_in_parallel, solve_in_sequence
from nnx_stateful.testing import check_stateful_module, done_masks

STEPS, ROWS = 6, 3
XS = np.random.default_rng(0).standard_normal((STEPS, ROWS, 2)).astype(np.float32)
MODULE = LRU(2, 4, nnx.Rngs(0), out_features=3, r_min=0.5, r_max=0.99)
UNROLL = jax.jit(lambda state, done: MODULE.unroll(state, jnp.asarray(XS), done))


def complex_loop(lru, hidden, xs, done):
    """The recurrence as the paper writes it, in complex128."""
    p = {
        name: np.asarray(value, np.float64)
        for name, value in nnx.to_pure_dict(nnx.state(lru)).items()
    }
    eigenvalues = np.exp(-np.exp(p["nu_log"]) + 1j * np.exp(p["theta_log"]))
    B = p["input_real"] + 1j * p["input_imag"]
    C = p["output_real"] + 1j * p["output_imag"]
    outputs = []
    for x, ended in zip(xs, done, strict=True):
        hidden = eigenvalues * hidden + np.exp(p["gamma_log"]) * (x @ B)
        outputs.append((hidden @ C).real + x @ p["skip"])
        hidden = np.where(ended[:, None], 0, hidden)
    return np.stack(outputs), hidden


@given(done=done_masks(STEPS, ROWS), seed=st.integers(0, 3))
def test_unroll_equals_the_complex_loop_across_resets(done, seed):
    start = np.random.default_rng(seed).standard_normal((2, ROWS, 4)).astype(np.float32)
    out = UNROLL((jnp.asarray(start[0]), jnp.asarray(start[1])), jnp.asarray(done))
    outputs, hidden = complex_loop(MODULE, start[0] + 1j * start[1], XS, done)
    np.testing.assert_allclose(out.output, outputs, rtol=1e-4, atol=1e-5)
    got = np.asarray(out.next_state[0]) + 1j * np.asarray(out.next_state[1])
    np.testing.assert_allclose(got, hidden, rtol=1e-4, atol=1e-5)


@given(done=done_masks(STEPS, ROWS), reverse=st.booleans())
def test_scan_and_associative_scan_agree(done, reverse):
    values = np.random.default_rng(0).standard_normal((2, STEPS + 2, ROWS, 4)).astype(np.float32)
    eigenvalues, state, drive = (
        tuple(part) for part in (values[:, 0, 0] / 4, values[:, 1], values[:, 2:])
    )
    scan, associative = (
        jax.jit(solve, static_argnames="reverse")
        for solve in (solve_in_sequence, solve_in_parallel)
    )
    expected = scan(eigenvalues, drive, state, ~done, reverse=reverse)
    got = associative(eigenvalues, drive, state, ~done, reverse=reverse)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_gradient_on_an_accelerator_has_no_loop_over_time():
    def loss(xs):
        done = jnp.zeros((STEPS, ROWS), bool)
        return MODULE.unroll(initial_state(MODULE, ROWS), xs, done).output.sum()

    traced = jax.jit(jax.value_and_grad(loss)).trace(jnp.asarray(XS))
    loops = {
        platform: traced.lower(lowering_platforms=(platform,)).as_text().count("stablehlo.while")
        for platform in ("cpu", "cuda", "tpu")
    }
    assert loops == {"cpu": 2, "cuda": 0, "tpu": 0}


def test_initial_spectrum_lies_in_the_ring():
    lru = LRU(2, 500, nnx.Rngs(0), r_min=0.8, r_max=0.9, max_phase=1.0)
    radii = np.abs(lru.eigenvalues())
    assert 0.8 <= radii.min() < 0.81
    assert 0.89 < radii.max() <= 0.9 + 1e-5
    phases = np.angle(lru.eigenvalues())
    assert 0 <= phases.min() < 0.05
    assert 0.95 < phases.max() <= 1.0
    np.testing.assert_allclose(np.exp(lru.gamma_log[...]) ** 2, 1 - radii**2, rtol=1e-3)


def test_initial_spectrum_of_the_whole_disc_is_finite_and_stable():
    lru = LRU(2, 500, nnx.Rngs(0))
    for parameter in (lru.nu_log, lru.theta_log, lru.gamma_log):
        assert np.isfinite(parameter[...]).all()
    assert np.abs(lru.eigenvalues()).max() < 1


def test_lru_in_float64_keeps_the_laws():
    check_stateful_module(MODULE, jnp.asarray(XS[0]), float64=True, laws=[1, 6])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"r_min": 0.9, "r_max": 0.5},
            "expected 0 <= r_min < r_max <= 1, got r_min=0.9, r_max=0.5",
        ),
        ({"r_max": 1.5}, "got r_min=0.0, r_max=1.5"),
        ({"max_phase": 0.0}, "expected 0 < max_phase <= 2 pi, got 0.0"),
    ],
)
def test_bad_option_raises(options, message):
    with pytest.raises(ValueError, match=message):
        LRU(2, 4, nnx.Rngs(0), **options)


def test_traced_option_raises_and_one_that_is_known_does_not():
    def make(phase):
        return nnx.state(LRU(2, 4, nnx.Rngs(0), max_phase=phase))

    largest = jnp.float32(2 * jnp.pi)
    jax.eval_shape(lambda: make(largest))
    with pytest.raises(TypeError, match="LRU: max_phase: expected a number that is known, got a"):
        jax.eval_shape(make, largest)
