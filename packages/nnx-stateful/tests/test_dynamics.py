"""LeakyIntegrator and CTRNN, against plain NumPy loops; and time constants, of these and others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given
from jax.test_util import check_grads
from nnx_stateful import (
    ALIF,
    CTRNN,
    LIF,
    FixedParameter,
    LeakyIntegrator,
    Noise,
    OrnsteinUhlenbeckNoise,
    initial_state,
)
from nnx_stateful.testing import check_stateful_module, done_masks, shipped_modules, to_float64

STEPS, ROWS, SIZE = 6, 3, 3
RANDOM = np.random.default_rng(0)
XS = RANDOM.standard_normal((STEPS, ROWS, SIZE)).astype(np.float32)
START = RANDOM.standard_normal((ROWS, SIZE)).astype(np.float32)
DONE = np.random.default_rng(1).random((STEPS, ROWS)) < 0.3
TAUS = np.array([0.5, 3.0, 40.0])

KINDS = (ALIF, CTRNN, LIF, LeakyIntegrator, Noise, OrnsteinUhlenbeckNoise)
TIMED = (ALIF, CTRNN, LIF, LeakyIntegrator, OrnsteinUhlenbeckNoise)

LEAKY = LeakyIntegrator(SIZE, nnx.Rngs(0), time_constant=TAUS, dt=0.5)
NETWORK = CTRNN(
    SIZE,
    nnx.Rngs(0),
    in_features=SIZE,
    activation=nnx.sigmoid,
    time_constant=1.0 + TAUS,
    bias_init=nnx.initializers.normal(1.0),
)
UNROLL = {
    module: jax.jit(lambda state, done, m=module: m.unroll(state, jnp.asarray(XS), done))
    for module in (LEAKY, NETWORK)
}


def leaky_loop(v, xs, done):
    outputs = []
    for x, ended in zip(xs, done, strict=True):
        v = x + np.exp(-0.5 / TAUS) * (v - x)
        outputs.append(v)
        v = np.where(ended[:, None], 0, v)
    return np.stack(outputs), v


def euler_loop(v, xs, done):
    def rate(v):
        return 1 / (1 + np.exp(-v))

    weights = [NETWORK.kernel, NETWORK.recurrent_kernel, NETWORK.bias]
    kernel, recurrent, bias = (np.asarray(w[...], np.float64) for w in weights)
    outputs = []
    for x, ended in zip(xs, done, strict=True):
        v = v + (-v + rate(v) @ recurrent + x @ kernel + bias) / (1.0 + TAUS)
        outputs.append(rate(v))
        v = np.where(ended[:, None], 0, v)
    return np.stack(outputs), v


@pytest.mark.parametrize(("module", "loop"), [(LEAKY, leaky_loop), (NETWORK, euler_loop)])
@given(done=done_masks(STEPS, ROWS))
def test_unroll_equals_a_plain_loop_across_resets(module, loop, done):
    out = UNROLL[module](jnp.asarray(START), jnp.asarray(done))
    outputs, last = loop(START.astype(np.float64), XS, done)
    np.testing.assert_allclose(out.output, outputs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out.next_state, last, rtol=1e-5, atol=1e-6)


def test_leak_is_exact_whatever_the_length_of_a_step():
    def after_a_second(dt):
        layer = LeakyIntegrator(SIZE, nnx.Rngs(0), time_constant=TAUS, dt=dt)
        state = jnp.asarray(START)
        for _ in range(round(1 / dt)):
            state = layer(state, jnp.asarray(XS[0])).next_state
        return state

    np.testing.assert_allclose(after_a_second(0.125), after_a_second(1.0), rtol=1e-5)


def test_ctrnn_without_in_features_adds_its_input():
    layer = CTRNN(SIZE, nnx.Rngs(0), activation=jnp.sin, time_constant=4.0)
    assert layer.kernel is None
    out = layer(jnp.asarray(START), jnp.asarray(XS[0]))
    arriving = np.sin(START) @ np.asarray(layer.recurrent_kernel[...]) + XS[0]
    expected = 0.75 * START + 0.25 * arriving
    np.testing.assert_allclose(out.next_state, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out.output, np.sin(expected), rtol=1e-5, atol=1e-6)


# ---- gradients -----------------------------------------------------------------------------------


@pytest.mark.fast("CTRNN", "Noise")
@pytest.mark.parametrize("kind", [LeakyIntegrator, CTRNN, Noise, OrnsteinUhlenbeckNoise])
def test_gradients_equal_finite_differences(kind):
    with jax.enable_x64(True):
        options = {"scale": TAUS} if kind is Noise else {"time_constant": 1.0 + TAUS}
        layer = to_float64(kind(SIZE, nnx.Rngs(0), learnable=True, **options))
        graphdef, params, rest = nnx.split(layer, nnx.Param, ...)
        assert set(params) >= ({"log_scale"} if kind is Noise else {"decay"})
        weights = np.random.default_rng(2).standard_normal((STEPS, ROWS, SIZE))
        state, eps, done = initial_state(layer, ROWS), jnp.asarray(XS, float), jnp.asarray(DONE)

        @jax.jit
        def loss(params, start, xs):
            carry = jax.tree.map(
                lambda leaf: start if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, state
            )
            out = nnx.merge(graphdef, params, rest).unroll(carry, xs, done, eps)
            last = [x for x in jax.tree.leaves(out.next_state) if x.dtype == start.dtype]
            return jnp.sum(weights * out.output) + sum(jnp.sum(weights[0] * x) for x in last)

        arguments = (params, jnp.asarray(START, float), jnp.asarray(XS, float))
        check_grads(loss, arguments, order=1, modes=["rev"], atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("kind", [LeakyIntegrator, OrnsteinUhlenbeckNoise])
def test_gradient_on_an_accelerator_has_no_loop_over_time(kind):
    layer = kind(SIZE, nnx.Rngs(0))

    def loss(xs):
        return layer.unroll(initial_state(layer, ROWS), xs, jnp.asarray(DONE), xs).output.sum()

    traced = jax.jit(jax.value_and_grad(loss)).trace(jnp.asarray(XS))
    assert "stablehlo.while" in traced.lower(lowering_platforms=("cpu",)).as_text()
    assert "stablehlo.while" not in traced.lower(lowering_platforms=("cuda",)).as_text()


# ---- time constants ------------------------------------------------------------------------------


def in_tau(kind):
    return 1.0 + TAUS if kind is CTRNN else TAUS  # an Euler step must be shorter


@pytest.mark.parametrize("kind", TIMED)
@pytest.mark.parametrize("learnable", [False, True])
def test_time_constants_are_as_given_and_parameters_if_learnable(kind, learnable):
    layer = kind(SIZE, nnx.Rngs(0), time_constant=1e3 * in_tau(kind), learnable=learnable)
    np.testing.assert_allclose(layer.time_constant, 1e3 * in_tau(kind), rtol=1e-5)
    assert ("decay" in nnx.state(layer, nnx.Param)) == learnable
    assert ("decay" in nnx.state(layer, FixedParameter)) != learnable
    assert kind(SIZE, nnx.Rngs(0), time_constant=7.0).time_constant.tolist() == pytest.approx(
        [7.0] * SIZE, rel=1e-5
    )


@pytest.mark.parametrize("kind", TIMED)
@pytest.mark.parametrize("logit", [-80.0, -20.0, 80.0])
def test_time_constants_stay_in_range_whatever_an_optimiser_does(kind, logit):
    layer = kind(SIZE, nnx.Rngs(0), learnable=True, dt=0.5)
    layer.decay.logit[...] = jnp.full(SIZE, logit)
    tau = layer.time_constant
    assert (tau >= 0.5).all() if kind is CTRNN else (tau > 0).all()
    out = layer(initial_state(layer, ROWS), jnp.asarray(XS[0]))
    for leaf in (out.output, *jax.tree.leaves(out.next_state)):
        assert not jnp.issubdtype(leaf.dtype, jnp.floating) or jnp.isfinite(leaf).all()


@pytest.mark.parametrize("kind", TIMED)
def test_time_constants_can_be_drawn_also_under_a_transformation(kind):
    def log_uniform(key, shape, dtype):
        return 10 ** jax.random.uniform(key, shape, dtype, 0.1, 2.0)

    def build(key):
        return kind(SIZE, nnx.Rngs(key), time_constant=log_uniform).time_constant

    drawn = build(jax.random.key(0))
    assert len(np.unique(drawn)) == SIZE
    assert (drawn > 1.25).all()
    assert (drawn < 100.1).all()
    shapes = jax.eval_shape(jax.vmap(build), jax.random.split(jax.random.key(0), 2))
    assert shapes.shape == (2, SIZE)


# ---- all of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_layer_in_float64_keeps_the_laws(kind):
    case = next(case for case in shipped_modules() if case.name == kind.__name__)
    check_stateful_module(case.build(nnx.Rngs(0)), case.sample(3), float64=True, laws=[1, 6])


@pytest.mark.parametrize("kind", KINDS)
def test_input_of_integers_gives_floats(kind):
    layer = kind(SIZE, nnx.Rngs(0))
    out = layer(initial_state(layer, ROWS), jnp.ones((ROWS, SIZE), jnp.int32))
    assert out.output.dtype == jnp.float32


@pytest.mark.parametrize("kind", KINDS)
def test_bad_sizes_sources_and_inputs_raise(kind):
    name = kind.__name__
    with pytest.raises(ValueError, match=f"{name}: size: expected a positive int, got 0"):
        kind(0, nnx.Rngs(0))
    with pytest.raises(TypeError, match=f"{name}: rngs: expected nnx.Rngs, got a key"):
        kind(SIZE, jax.random.key(0))
    layer = kind(SIZE, nnx.Rngs(0))
    for run, lead in ((layer, ()), (layer.unroll, (2,))):
        with pytest.raises(ValueError, match=f"{name}: expected an input with 3 features"):
            run(initial_state(layer, ROWS), jnp.ones((*lead, ROWS, 2)))
    with pytest.raises(TypeError, match=f"{name}: expected an array .* put a Flattener"):
        layer(initial_state(layer, ROWS), {"a": XS[0]})


@pytest.mark.parametrize("kind", TIMED)
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"time_constant": -1.0}, ValueError, "time_constant: expected a number .*, got -1"),
        ({"time_constant": float("nan")}, ValueError, "time_constant: .*, got nan"),
        ({"time_constant": [2.0, 0.0, 3.0]}, ValueError, "time_constant: .*, got 0"),
        ({"time_constant": np.ones(2)}, ValueError, r"time_constant: .* \(3,\) .*, got shape \(2,"),
        ({"time_constant": "long"}, TypeError, "time_constant: .*, got 'long' of type str"),
        ({"time_constant": None}, TypeError, "time_constant: .*, got None of type NoneType"),
        ({"time_constant": 3e38}, ValueError, r"time_constant: .* at most 8\.3.*, got 3e\+38"),
        ({"time_constant": 1e9, "dt": 0.5}, ValueError, r"at most 4\.1.*, .*, got 1e\+09"),
        ({"dt": 0.0}, ValueError, "dt: expected a positive number, got 0.0"),
    ],
)
def test_bad_time_constants_raise(kind, options, error, message):
    with pytest.raises(error, match=f"{kind.__name__}: .*{message}"):
        kind(SIZE, nnx.Rngs(0), **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [1, "yes", None])
def test_learnable_that_is_no_bool_raises(kind, value):
    with pytest.raises(TypeError, match=f"{kind.__name__}: learnable: expected True or False, got"):
        kind(SIZE, nnx.Rngs(0), learnable=value)


@pytest.mark.parametrize("kind", TIMED)
def test_longest_time_constant_still_fades_and_trains(kind):
    layer = kind(SIZE, nnx.Rngs(0), time_constant=2.0**23, learnable=True)
    decay, slope = jax.vmap(jax.value_and_grad(jax.nn.sigmoid))(layer.decay.logit[...])
    assert (decay < 1).all()
    assert (slope > 0).all()


def test_time_constant_below_an_euler_step_raises():
    with pytest.raises(ValueError, match=r"expected a number greater than 2 and .*, got 2"):
        CTRNN(SIZE, nnx.Rngs(0), time_constant=2.0, dt=2.0)


def test_bad_options_of_a_ctrnn_raise():
    with pytest.raises(ValueError, match="CTRNN: in_features: expected a positive int, got 0"):
        CTRNN(SIZE, nnx.Rngs(0), in_features=0)
    with pytest.raises(TypeError, match="CTRNN: activation: expected a function, got 'tanh'"):
        CTRNN(SIZE, nnx.Rngs(0), activation="tanh")
