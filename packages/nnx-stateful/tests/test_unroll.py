"""The time loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_stateful import (
    LRU,
    LSTM,
    Apply,
    Dense,
    Parallel,
    Scale,
    Sequential,
    StatefulModule,
    StatefulModuleOutput,
    has_rng_streams,
    initial_state,
)
from nnx_stateful.testing import (
    CounterProbe,
    KeepingProbe,
    MetricsProbe,
    ScalarLossProbe,
    StreamProbe,
    assert_close,
    step_through,
)

XS = jnp.asarray(np.random.default_rng(0).standard_normal((5, 4, 3)), jnp.float32)
DONE = jnp.asarray(np.random.default_rng(1).random((5, 4)) < 0.3)


class Clock(StatefulModule):
    """Needs no input: outputs how long the episode has run."""

    def __call__(self, state, x, rollout_extras=None):
        return StatefulModuleOutput(state + 1, state[:, None], state * 1.0, {})

    def initialize_state(self, batch_size):
        return jnp.zeros(batch_size)

    def reset_state(self, prev_state):
        return jnp.zeros_like(prev_state)


@pytest.mark.parametrize(
    "module",
    [
        CounterProbe(),
        MetricsProbe(),
        Apply(lambda x: x - x.mean(axis=0)),
        Sequential([ScalarLossProbe(), Parallel(b=CounterProbe(), a=KeepingProbe())]),
    ],
    ids=lambda module: type(module).__name__,
)
def test_unroll_equals_stepping(module):
    state = initial_state(module, 4)
    unrolled = module.unroll(state, XS, DONE)
    assert_close("", step_through(module, state, XS, DONE), unrolled, (1e-5, 1e-6))


def test_unroll_carries_rng_streams_and_writes_them_back():
    stepping, unrolling = (Sequential([StreamProbe(nnx.Rngs(3))]) for _ in range(2))
    state = initial_state(stepping, 4)
    expected = step_through(stepping, state, XS, DONE)
    out = unrolling.unroll(state, XS, DONE)
    assert_close("", expected, out, (1e-6, 1e-6))
    assert not np.array_equal(out.rollout_extras["0"][0], out.rollout_extras["0"][1])
    assert_close("", nnx.state(stepping, nnx.RngState), nnx.state(unrolling, nnx.RngState))
    assert has_rng_streams(unrolling)


def test_unroll_without_input_takes_its_length_from_done():
    out = Clock().unroll(initial_state(Clock(), 4), {}, DONE)
    assert_close("", step_through(Clock(), initial_state(Clock(), 4), {}, DONE), out)


def test_container_without_input_broadcasts_losses_to_rows():
    net = Sequential([Clock(), Dense(1, 2, nnx.Rngs(0))])
    state = initial_state(net, 4)
    out = net.unroll(state, {}, DONE)
    assert out.regularization_loss.shape == (5, 4)
    assert_close("", step_through(net, state, {}, DONE), out, (1e-5, 1e-6))


def test_folding_module_without_input_is_stepped():
    class Constant(StatefulModule):
        folds_time = True

        def __call__(self, state, x, rollout_extras=None):
            return StatefulModuleOutput(state, jnp.ones((4, 1)), 0.0, {})

    assert Constant().unroll((), {}, DONE).output.shape == (5, 4, 1)


def test_unroll_traces_the_call_once():
    traces = []

    class Tracing(CounterProbe):
        def __call__(self, state, x, rollout_extras=None):
            traces.append(None)
            return super().__call__(state, x)

    Tracing().unroll(initial_state(Tracing(), 4), XS, DONE)
    assert len(traces) == 1


@pytest.mark.parametrize("layer", [LSTM, LRU])
def test_gradient_through_unroll_equals_gradient_through_stepping(layer):
    graphdef, params = nnx.split(Sequential([layer(3, 3, nnx.Rngs(0)), Dense(3, 1, nnx.Rngs(1))]))

    def loss(params, unroll):
        net = nnx.merge(graphdef, params)
        state = initial_state(net, 4)
        if unroll:
            return jnp.sum(net.unroll(state, XS, DONE).output ** 2)
        total = 0.0
        for step in range(5):
            out = net(state, XS[step])
            total += jnp.sum(out.output**2)
            fresh = initial_state(net, 4)
            state = jax.tree.map(
                lambda new, old, t=step: jnp.where(DONE[t][:, None], new, old),
                fresh,
                out.next_state,
            )
        return total

    stepped, unrolled = (jax.jit(jax.grad(loss), static_argnums=1)(params, u) for u in (0, 1))
    assert_close("gradient", stepped, unrolled, (1e-4, 1e-5))


def test_step_that_changes_the_state_raises_naming_the_leaf():
    class Growing(CounterProbe):
        def __call__(self, state, x, rollout_extras=None):
            return StatefulModuleOutput(state + 0.5, x, 0.0, {})

    with pytest.raises(
        ValueError, match=r"Growing.__call__: expected shape \(4,\) and dtype int32 at state, got"
    ):
        Growing().unroll(initial_state(Growing(), 4), XS, DONE)


def test_time_axes_that_differ_raise():
    with pytest.raises(ValueError, match=r"share one time axis .* got lengths \[4, 5\]"):
        CounterProbe().unroll(initial_state(CounterProbe(), 4), XS, DONE[:4])


def test_no_time_axis_at_all_raises():
    with pytest.raises(ValueError, match=r"got no array at all; pass done of shape \(T, B\)"):
        Clock().unroll(initial_state(Clock(), 4), {})


@pytest.mark.parametrize(
    "module",
    [Scale(2.0), Apply(jnp.tanh), CounterProbe(), LSTM(3, 3, nnx.Rngs(0))],
    ids=["fold", "vmap", "scan", "LSTM"],
)
def test_done_of_another_shape_raises(module):
    state = initial_state(module, 4)
    with pytest.raises(ValueError, match=r"share one time axis .* got lengths \[3, 5\]"):
        module.unroll(state, XS, DONE[:3])
    for done in (DONE[:, :3], DONE[:, 0]):
        with pytest.raises(ValueError, match=r"expected done of shape \(5, 4\), .* got \(5,"):
            module.unroll(state, XS, done)
