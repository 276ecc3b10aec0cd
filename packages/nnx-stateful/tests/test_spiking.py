"""LIF and ALIF, against a NumPy loop that also goes backward through time with the surrogate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_stateful import ALIF, LIF, Surrogate, initial_state
from nnx_stateful.testing import to_float64

STEPS, ROWS, SIZE = 12, 4, 3
TAU, TAU_A, STRENGTH, THRESHOLD = 3.0, 6.0, 2.0, 0.4

DERIVATIVES = {
    "fast_sigmoid": lambda s: (1 + abs(s)) ** -2.0,
    "sigmoid": lambda s: 1 / np.cosh(s / 2) ** 2,
    "arctan": lambda s: 1 / (1 + (np.pi * s / 2) ** 2),
    "triangular": lambda s: np.clip(1 - abs(s), 0, None),
    "boxcar": lambda s: np.where(abs(s) < 0.5, 1.0, 0.0),
}


class Oracle:
    """Spiking units in NumPy, one sequence forward and backward.

    Without adaptation the strength is 0, which leaves a constant threshold.
    """

    def __init__(self, strength, reset, detach_reset, refractory_steps, surrogate):
        self.strength, self.reset, self.detach_reset = strength, reset, detach_reset
        self.refractory_steps, self.surrogate = refractory_steps, surrogate
        self.decay, self.decay_a = np.exp(-1 / TAU), np.exp(-1 / TAU_A)

    def forward(self, v, a, xs, done):
        left = np.zeros(v.shape, int)
        spikes, thresholds, self.tape = [], [], []
        for x, ended in zip(xs, done, strict=True):
            held, theta = left > 0, THRESHOLD + self.strength * a
            charged = np.where(held, v, self.decay * v + (1 - self.decay) * x)
            z = np.where(held, 0.0, charged >= theta)
            self.tape.append((x, v, a, held, theta, charged, z, ended))
            v = charged - theta * z if self.reset == "soft" else charged * (1 - z)
            a = self.decay_a * a + (1 - self.decay_a) * z
            left = np.where(z > 0, self.refractory_steps, np.maximum(left - 1, 0))
            fresh = ended[:, None]
            v, a, left = (np.where(fresh, 0, entry) for entry in (v, a, left))
            spikes.append(z)
            thresholds.append(theta)
        return np.stack(spikes), np.stack(thresholds), v, a, left

    def backward(self, d_spikes, dv, da):
        """Gradients of inputs, first v and a, and the logits of both decays."""
        d_xs, d_decay, d_decay_a = [], 0.0, 0.0
        for (x, v, a, held, theta, charged, z, ended), dz in zip(
            self.tape[::-1], d_spikes[::-1], strict=True
        ):
            dv, da = (np.where(ended[:, None], 0, entry) for entry in (dv, da))
            dz = dz + da * (1 - self.decay_a)
            d_decay_a = d_decay_a + (da * (a - z)).sum(axis=0)
            da = da * self.decay_a
            d_reset = dv * theta if self.reset == "soft" else dv * charged
            d_theta = -dv * z if self.reset == "soft" else 0.0
            d_charged = dv if self.reset == "soft" else dv * (1 - z)
            if not self.detach_reset:
                dz = dz - d_reset
            du = np.where(held, 0, dz * self._slope(charged - theta))
            d_charged, d_theta = d_charged + du, d_theta - du
            da = da + self.strength * d_theta
            moving = np.where(held, 0, d_charged)
            d_decay = d_decay + (moving * (v - x)).sum(axis=0)
            d_xs.append(moving * (1 - self.decay))
            dv = np.where(held, d_charged, d_charged * self.decay)
        logits = (
            d_decay * self.decay * (1 - self.decay),
            d_decay_a * self.decay_a * (1 - self.decay_a),
        )
        return np.stack(d_xs[::-1]), dv, da, *logits

    def _slope(self, u):
        s = self.surrogate
        return s.height * DERIVATIVES[s.name](s.slope * u)


def make_inputs():
    values = np.random.default_rng(0)
    xs = values.normal(0.3, 1.5, (STEPS, ROWS, SIZE))
    v, a = values.normal(0, 0.2, (2, ROWS, SIZE))
    done = values.random((STEPS, ROWS)) < 0.15
    return xs, v, abs(a), done


SURROGATES = (Surrogate(), Surrogate("triangular", slope=1 / THRESHOLD, height=0.3))


@pytest.mark.parametrize(
    ("kind", "reset", "detach_reset", "refractory_steps", "surrogate"),
    [
        (LIF, "soft", True, 0, SURROGATES[0]),
        (LIF, "hard", False, 2, SURROGATES[1]),
        (ALIF, "soft", False, 1, SURROGATES[0]),
        (ALIF, "hard", True, 0, SURROGATES[1]),
    ],
)
def test_unroll_and_its_gradients_equal_a_plain_loop_and_its_reverse(
    kind, reset, detach_reset, refractory_steps, surrogate
):
    options = {
        "reset": reset,
        "detach_reset": detach_reset,
        "refractory_steps": refractory_steps,
        "surrogate": surrogate,
        "time_constant": TAU,
        "threshold": THRESHOLD,
        "learnable": True,
    }
    adapts = kind is ALIF
    if adapts:
        options |= {"adaptation_time_constant": TAU_A, "adaptation_strength": STRENGTH}
    xs, v, a, done = make_inputs()
    weights = np.random.default_rng(1).normal(size=(STEPS + 2, ROWS, SIZE))

    with jax.enable_x64(True):
        layer = to_float64(kind(SIZE, nnx.Rngs(0), **options))
        logits = nnx.state(layer, nnx.Param)
        for taus, name in ((TAU, "decay"), (TAU_A, "adaptation_decay")):
            if name in logits:  # as the oracle has them, not rounded to float32
                getattr(layer, name).logit[...] = jnp.full(SIZE, -np.log(np.expm1(1 / taus)))
        graphdef, params = nnx.split(layer)
        fresh = initial_state(layer, ROWS)

        def loss(params, xs, v, a):
            state = {**fresh, "v": v} | ({"adaptation": a} if adapts else {})
            out = nnx.merge(graphdef, params).unroll(state, xs, jnp.asarray(done))
            total = jnp.sum(weights[:-2] * out.output) + jnp.sum(weights[-2] * out.next_state["v"])
            if adapts:
                total += jnp.sum(weights[-1] * out.next_state["adaptation"])
            return total, out

        run = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3), has_aux=True))
        (_, out), (d_params, d_xs, d_v, d_a) = run(params, *map(jnp.asarray, (xs, v, a)))

    oracle = Oracle(STRENGTH if adapts else 0.0, reset, detach_reset, refractory_steps, surrogate)
    spikes, thresholds, v, a, left = oracle.forward(v, a, xs, done)
    assert 0.1 < spikes.mean() < 0.6
    np.testing.assert_array_equal(out.output, spikes)
    np.testing.assert_allclose(out.metrics["firing_rate"], spikes.mean(axis=-1))
    np.testing.assert_allclose(out.next_state["v"], v, atol=1e-12)
    assert set(out.metrics) == ({"firing_rate", "threshold"} if adapts else {"firing_rate"})
    if refractory_steps:
        np.testing.assert_array_equal(out.next_state["refractory"], left)
    if adapts:
        np.testing.assert_allclose(out.next_state["adaptation"], a, atol=1e-12)
        np.testing.assert_allclose(out.metrics["threshold"], thresholds.mean(axis=-1))

    d_next_a = weights[-1] if adapts else np.zeros((ROWS, SIZE))
    expected = oracle.backward(weights[:-2], weights[-2], d_next_a)
    got = [d_xs, d_v, d_a, d_params["decay"]["logit"][...]]
    if adapts:
        got.append(d_params["adaptation_decay"]["logit"][...])
    else:
        expected = (*expected[:2], np.zeros((ROWS, SIZE)), expected[3])
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("refractory_steps", [0, 3])
def test_constant_input_fires_at_the_known_interval(refractory_steps):
    tau, drive = 20.0, 2.0
    layer = LIF(1, nnx.Rngs(0), time_constant=tau, reset="hard", refractory_steps=refractory_steps)
    out = layer.unroll(layer.initialize_state(1), jnp.full((100, 1, 1), drive))
    to_threshold = int(np.ceil(tau * np.log(drive / (drive - 1))))
    (at,) = np.nonzero(np.asarray(out.output).ravel())
    assert at[0] == to_threshold - 1
    assert set(np.diff(at)) == {to_threshold + refractory_steps}


def test_threshold_rises_with_a_spike_and_falls_back():
    layer = ALIF(1, nnx.Rngs(0), time_constant=1.0, adaptation_time_constant=TAU_A)
    xs = jnp.zeros((5, 1, 1)).at[0].set(2.0)  # one spike, in the first step
    out = layer.unroll(layer.initialize_state(1), xs)
    assert out.output.ravel().tolist() == [1, 0, 0, 0, 0]
    decay = np.exp(-1 / TAU_A)
    expected = 1 + 20.0 * (1 - decay) * decay ** np.arange(4)
    np.testing.assert_allclose(out.metrics["threshold"][1:, 0], expected, rtol=1e-5)


# ---- surrogates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DERIVATIVES)
def test_surrogate_has_the_derivative_of_its_formula(name):
    surrogate = Surrogate(name, slope=3.0, height=0.7)
    u = np.array([-1.3, -0.21, -0.05, 0.0, 0.1, 0.4, 2.0], np.float32)
    expected = 0.7 * DERIVATIVES[name](3.0 * u)
    np.testing.assert_allclose(surrogate.derivative(u), expected, rtol=1e-5)
    spikes, forward = jax.jvp(surrogate.spike, (u,), (2 * jnp.ones_like(u),))
    np.testing.assert_array_equal(spikes, u >= 0)
    np.testing.assert_allclose(forward, 2 * expected, rtol=1e-5)
    reverse = jax.vmap(jax.grad(surrogate.spike))(jnp.asarray(u))
    np.testing.assert_allclose(reverse, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"name": "step"}, ValueError, r"name: expected one of \['arctan', .*\], got 'step'"),
        ({"name": 3}, TypeError, r"name: expected one of \[.*\], got 3 of type int"),
        ({"slope": 0.0}, ValueError, "slope: expected a positive number, got 0.0"),
        ({"height": -1.0}, ValueError, "height: expected a positive number, got -1.0"),
    ],
)
def test_bad_surrogate_raises(fields, error, message):
    with pytest.raises(error, match=f"Surrogate: {message}"):
        Surrogate(**fields)


@pytest.mark.parametrize("kind", [LIF, ALIF])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"reset": "none"}, ValueError, "reset: expected 'soft' or 'hard', got 'none'"),
        ({"threshold": 0.0}, ValueError, "threshold: expected a positive number, got 0.0"),
        ({"refractory_steps": -1}, ValueError, "refractory_steps: expected an int of at least 0"),
        ({"refractory_steps": 1.5}, TypeError, "refractory_steps: expected an int of at least 0"),
        ({"detach_reset": 1}, TypeError, "detach_reset: expected True or False, got 1 of type int"),
        ({"surrogate": "step"}, ValueError, "name: expected one of .*, got 'step'"),
        ({"surrogate": jnp.tanh}, TypeError, "name: expected one of .*PjitFunction"),
    ],
)
def test_bad_option_raises(kind, options, error, message):
    with pytest.raises(error, match=message):
        kind(SIZE, nnx.Rngs(0), **options)


def test_bad_adaptation_raises():
    with pytest.raises(ValueError, match=r"ALIF: adaptation_time_constant: .*, got -1"):
        ALIF(SIZE, nnx.Rngs(0), adaptation_time_constant=-1.0)
    with pytest.raises(ValueError, match="ALIF: adaptation_strength: expected a finite number of"):
        ALIF(SIZE, nnx.Rngs(0), adaptation_strength=-1.0)
