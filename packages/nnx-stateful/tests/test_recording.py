"""Recording every module's output."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from nnx_stateful import (
    LSTM,
    Concat,
    Delay,
    Dense,
    Normalizer,
    Parallel,
    Scale,
    Sequential,
    Splitter,
    VariationalBottleneck,
    extract_activations,
    initial_state,
    with_recording,
)
from nnx_stateful.testing import StreamProbe

XS = jnp.asarray(np.random.default_rng(0).standard_normal((5, 4, 3)), jnp.float32)
DONE = jnp.asarray(np.random.default_rng(1).random((5, 4)) < 0.3)
PATHS = ["", "0", "1", "2", "2/b", "2/b/0", "2/b/1", "2/a", "3", "4", "4/b", "4/a"]


def network():
    rngs = nnx.Rngs(0)
    return Sequential(
        [
            Normalizer(3),
            Dense(3, 4, rngs),
            Parallel(
                b=Sequential([LSTM(4, 2, rngs), Scale(2.0)]), a=VariationalBottleneck(2, rngs)
            ),
            Delay({"a": jnp.zeros(2), "b": jnp.zeros(2)}, 2),
            Concat(b=Scale(1.0), a=Scale(1.0)),
        ]
    )


def test_recording_has_every_module_by_path():
    net = with_recording(network())
    out = net(initial_state(net, 4), XS[0])
    recorded = extract_activations(out.metrics)
    assert sorted(recorded) == sorted(PATHS)
    assert jnp.array_equal(recorded["2/b/1"], 2 * recorded["2/b/0"])
    assert jnp.array_equal(recorded[""], out.output)


def test_recording_an_unroll_gives_sequences():
    net = with_recording(network())
    state = initial_state(net, 4)
    out = jax.jit(net.unroll)(state, XS, DONE)
    recorded = extract_activations(out.metrics)
    assert sorted(recorded) == sorted(PATHS)
    step = extract_activations(net(state, XS[0]).metrics)
    for path, leaf in step.items():
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b[0], rtol=1e-5, atol=1e-6),
            leaf,
            recorded[path],
        )


def test_recording_changes_neither_the_original_nor_the_results():
    net = network()
    state = initial_state(net, 4)
    expected = net(state, XS[0])
    out = with_recording(net)(state, XS[0])
    assert jnp.array_equal(out.output, expected.output)
    again = net(state, XS[0])
    assert extract_activations(again.metrics) == {}
    assert jax.tree.structure(again) == jax.tree.structure(expected)


def test_recording_keeps_the_modules_own_metrics():
    net = with_recording(network())
    metrics = net(initial_state(net, 4), XS[0]).metrics
    assert {"mu", "sigma", "kl_divergence"} <= set(metrics["2"]["a"])


def test_recording_a_network_with_rng_streams():
    net = with_recording(Sequential([StreamProbe(nnx.Rngs(0)), Splitter(a=1)]))
    recorded = extract_activations(net.unroll(initial_state(net, 4), XS, DONE).metrics)
    assert recorded["0"].shape == (5, 4, 3)
    assert recorded[""]["a"].shape == (5, 4, 1)


def test_recording_a_subclass_shows_its_own_output():
    class Negative(Dense):
        def __call__(self, state, x, rollout_extras=None):
            out = super().__call__(state, x)
            return out.replace(output=-out.output)

    net = with_recording(Sequential([Negative(3, 2, nnx.Rngs(0))]))
    out = net(initial_state(net, 4), XS[0])
    assert jnp.array_equal(extract_activations(out.metrics)["0"], out.output)
