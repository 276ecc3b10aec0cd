"""Repeat, against explicit loops over inner steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_stateful import (
    LSTM,
    Container,
    Delay,
    Dense,
    Normalizer,
    Repeat,
    Scale,
    Sequential,
    StatefulModule,
    StatefulModuleOutput,
    VariationalBottleneck,
    counted_steps,
    counting_only,
    extract_activations,
    initial_state,
    reset_rows,
    with_recording,
)
from nnx_stateful.testing import (
    MetricsProbe,
    RowLossProbe,
    StreamProbe,
    assert_close,
    check_stateful_module,
    step_through,
    to_float64,
)
from nnx_stateful.testing._stepping import step_loop

STEPS, ROWS, SIZE, INNER = 4, 3, 3, 3
XS = jnp.asarray(np.random.default_rng(0).standard_normal((STEPS, ROWS, SIZE)), jnp.float32)
DONE = jnp.asarray(np.random.default_rng(1).random((STEPS, ROWS)) < 0.3).at[1, 0].set(True)


def mixed_module():
    rngs = nnx.Rngs(0)
    norm = Normalizer(SIZE)
    norm.update_statistics(3 * XS + 1)
    bottleneck = VariationalBottleneck(SIZE, rngs)
    layers = [norm, LSTM(SIZE, SIZE, rngs), Dense(SIZE, 2 * SIZE, rngs), bottleneck]
    return Sequential([*layers, RowLossProbe(), MetricsProbe()])


def loop(module, state, xs, done, inner=INNER):
    """Inner steps in a plain loop; returns what Repeat should, without the child's name."""
    call = jax.jit(lambda state, x: module(state, x))
    steps = []
    for x, ended in zip(xs, done, strict=True):
        outs = []
        for _ in range(inner):
            outs.append(call(state, x))
            state = outs[-1].next_state
        state = reset_rows(module, state, ended)
        losses, extras = (
            [getattr(out, field) for out in outs]
            for field in ("regularization_loss", "rollout_extras")
        )
        steps.append(
            StatefulModuleOutput(
                next_state=(),
                output=outs[-1].output,
                regularization_loss=sum(losses) / inner,
                metrics=outs[-1].metrics,
                rollout_extras=jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *extras),
            )
        )
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *steps)
    return stacked.replace(next_state=state)


def compiled_steps(net, state, xs, done):
    """What :func:`step_through` gives, with a compiled call."""
    inputs = [(jax.tree.map(lambda leaf, t=t: leaf[t], xs), done[t], None) for t in range(STEPS)]
    reset = jax.jit(lambda state, done: reset_rows(net, state, done))
    return step_loop(jax.jit(lambda *inputs: net(*inputs)), reset, state, inputs)


def without_name(out):
    """Takes the child's name off what a Repeat returned."""
    fields = ("next_state", "metrics", "rollout_extras")
    return out.replace(**{field: getattr(out, field)["module"] for field in fields})


@pytest.mark.parametrize("unrolled", [True, False], ids=["unroll", "calls"])
def test_repeat_equals_a_loop_of_calls_across_resets(unrolled):
    net = Repeat(mixed_module(), INNER)
    state = initial_state(net, ROWS)
    expected = loop(net.module, state["module"], XS, DONE)
    run = jax.jit(net.unroll) if unrolled else functools.partial(compiled_steps, net)
    out = run(state, XS, DONE)
    assert_close("", expected, without_name(out), (1e-5, 1e-5))
    noise = out.rollout_extras["module"]["3"]
    assert noise.shape == (STEPS, ROWS, INNER, SIZE)
    assert len(np.unique(noise)) == noise.size


def test_replay_of_a_step_and_of_a_sequence_uses_the_extras_of_each_inner_step():
    net = Repeat(mixed_module(), INNER)
    state = initial_state(net, ROWS)
    other = jax.tree.map(lambda leaf: leaf[::-1], state)  # noise states of other rows
    calls = (jax.jit(lambda *inputs: net(*inputs)), XS[0], ()), (jax.jit(net.unroll), XS, (DONE,))
    for run, x, done in calls:
        acted = run(state, x, *done)
        rekeyed = {"module": {**state["module"], "3": other["module"]["3"]}}
        replayed = run(rekeyed, x, *done, acted.rollout_extras)
        assert_close("output", acted.output, replayed.output)
        afresh = run(rekeyed, x, *done)
        assert not np.allclose(acted.output, afresh.output, atol=1e-3)


def test_delay_in_inner_steps_is_shorter_by_their_number():
    delayed = Repeat(Delay(jnp.zeros(SIZE), k_steps=2 * INNER), INNER)
    expected = Delay(jnp.zeros(SIZE), k_steps=2)
    outputs = [
        jax.jit(net.unroll)(initial_state(net, ROWS), XS, DONE).output
        for net in (delayed, expected)
    ]
    assert_close("output", *outputs)


def test_one_inner_step_changes_nothing():
    module = LSTM(SIZE, SIZE, nnx.Rngs(0))
    net = Repeat(module, 1)
    state = initial_state(net, ROWS)
    expected = module.unroll(state["module"], XS, DONE)
    assert_close("output", expected.output, net.unroll(state, XS, DONE).output, (1e-6, 1e-6))


def test_gradients_equal_those_of_a_loop_in_float64():
    with jax.enable_x64(True):
        net = to_float64(Repeat(Sequential([LSTM(SIZE, SIZE, nnx.Rngs(0)), RowLossProbe()]), 2))
        graphdef, params = nnx.split(net)
        xs, done, state = jnp.asarray(XS, float), DONE, initial_state(net, ROWS)
        weights = np.random.default_rng(2).standard_normal((STEPS, ROWS, SIZE))

        def run_loop(net):
            return loop(net.module, state["module"], xs, done, inner=2)

        def loss(params, run):
            out = run(nnx.merge(graphdef, params))
            return jnp.sum(weights * out.output) + jnp.mean(out.regularization_loss)

        def run_unroll(net):
            return net.unroll(state, xs, done)

        expected, got = (
            jax.jit(jax.grad(lambda params, run=run: loss(params, run)))(params)
            for run in (run_loop, run_unroll)
        )
        assert_close("gradient", expected, got, (1e-9, 1e-10))
        assert all(np.abs(leaf).max() > 1e-3 for leaf in jax.tree.leaves(got))


class Recorder(StatefulModule):
    """Emits how many steps it has made, and keeps what update_statistics is given."""

    def __init__(self):
        self.given = nnx.Variable(None)

    def __call__(self, state, x, rollout_extras=None):
        return StatefulModuleOutput(state + 1, x, 0.0, {}, state)

    def initialize_state(self, batch_size):
        return jnp.zeros(batch_size, jnp.int32)

    def reset_state(self, prev_state):
        return jnp.full_like(prev_state, 100)

    def update_statistics(self, rollout_extras):
        self.given.set_value((rollout_extras, counted_steps()))


def test_statistics_get_the_inner_steps_in_order_of_time():
    net = Repeat(Recorder(), INNER)
    extras = net.unroll(initial_state(net, ROWS), XS, DONE).rollout_extras
    net.update_statistics(extras)
    given, mask = net.module.given.get_value()
    assert mask is None
    assert given.shape == (STEPS * INNER, ROWS)
    assert given[:, 0].tolist() == [0, 1, 2, 3, 4, 5, *range(100, 106)]  # reset after step 1


def test_steps_that_do_not_count_are_left_out_with_all_their_inner_steps():
    net = Repeat(Recorder(), INNER)
    with counting_only(DONE):
        net.update_statistics(net.unroll(initial_state(net, ROWS), XS, DONE).rollout_extras)
    _, mask = net.module.given.get_value()
    np.testing.assert_array_equal(mask, np.repeat(DONE, INNER, axis=0))


@pytest.mark.parametrize("counted", [None, DONE], ids=["all", "some"])
def test_normalizer_counts_each_inner_step(counted):
    net, norm = Repeat(Normalizer(SIZE), INNER), Normalizer(SIZE)
    extras = net.unroll(initial_state(net, ROWS), XS).rollout_extras
    samples = np.asarray(XS)[... if counted is None else np.asarray(counted)].reshape(-1, 1, SIZE)
    norm.update_statistics(jnp.asarray(np.repeat(samples, INNER, axis=0)))
    with counting_only(jnp.ones_like(DONE) if counted is None else counted):
        net.update_statistics(extras)
    assert net.module.sample_count == len(samples) * INNER
    np.testing.assert_allclose(net.module.mean[...], norm.mean[...], atol=1e-6)
    np.testing.assert_allclose(net.module.M2[...], norm.M2[...], rtol=1e-5)


def test_recorded_activation_is_that_of_the_last_inner_step():
    net = with_recording(Repeat(Sequential([Delay(jnp.zeros(SIZE), 2), Scale(2.0)]), INNER))
    state = initial_state(net, ROWS)
    for out in (net(state, XS[0]), net.unroll(state, XS, DONE)):
        recorded = extract_activations(out.metrics)
        assert sorted(recorded) == ["", "module", "module/0", "module/1"]
        np.testing.assert_array_equal(recorded["module/1"], 2 * recorded["module/0"])
        np.testing.assert_array_equal(recorded["module"], out.output)


def test_rng_streams_are_drawn_from_in_order_of_time():
    nets = [Repeat(StreamProbe(nnx.Rngs(3)), INNER) for _ in range(3)]
    state = initial_state(nets[0], ROWS)
    expected = [
        [nets[0].module((), x).output - x for _ in range(INNER)]  # not compiled: the stream is here
        for x in XS
    ]
    for out in (nets[1].unroll(state, XS), step_through(nets[2], state, XS)):
        noise = np.moveaxis(out.rollout_extras["module"], 2, 1)
        np.testing.assert_allclose(noise, np.asarray(expected), atol=1e-6)
    assert_close("streams", *(nnx.state(net, nnx.RngState) for net in nets[1:]))
    check_stateful_module(nets[1], XS[0], steps=3, laws=[4, 5, 6, 7])


class Clock(StatefulModule):
    """Needs no input: outputs how long the episode has run."""

    def __call__(self, state, x, rollout_extras=None):
        return StatefulModuleOutput(state + 1, state[:, None], 0.0, {})

    def initialize_state(self, batch_size):
        return jnp.zeros(batch_size)

    def reset_state(self, prev_state):
        return jnp.zeros_like(prev_state)


def test_module_without_input_runs():
    net = Repeat(Clock(), INNER)
    state = initial_state(net, ROWS)
    out = net.unroll(state, {}, DONE)
    assert out.output[:, 0, 0].tolist() == [2, 5, 2, 5]
    assert_close("", compiled_steps(net, state, {}, DONE), out)


def test_call_traces_the_module_once():
    traces = []

    class Tracing(Clock):
        def __call__(self, state, x, rollout_extras=None):
            traces.append(None)
            return super().__call__(state, x)

    net = Repeat(Tracing(), 7)
    net(initial_state(net, ROWS), XS[0])
    assert len(traces) == 1


def test_write_in_an_inner_step_raises_naming_module_and_variable():
    class Writer(StatefulModule):
        def __init__(self):
            self.seen = nnx.Variable(jnp.zeros(()))

        def __call__(self, state, x, rollout_extras=None):
            self.seen[...] += x.sum()
            return StatefulModuleOutput(state, x, 0.0, {})

    net = Repeat(Sequential([Scale(1.0), Writer()]), INNER)
    for run, x in ((net, XS[0]), (net.unroll, XS)):
        with pytest.raises(RuntimeError, match=r"Writer .* wrote its variable 'seen'"):
            run(initial_state(net, ROWS), x)
    assert float(net.module[1].seen[...]) == 0.0


@pytest.mark.parametrize(
    ("n_steps", "error", "message"),
    [
        (0, ValueError, "Repeat: n_steps: expected a positive int, got 0"),
        (True, TypeError, "Repeat: n_steps: expected a positive int, got True of type bool"),
        (2.0, TypeError, "Repeat: n_steps: expected a positive int, got 2.0 of type float"),
    ],
)
def test_bad_number_of_steps_raises(n_steps, error, message):
    with pytest.raises(error, match=message):
        Repeat(Scale(1.0), n_steps)


def test_module_that_is_no_module_raises():
    with pytest.raises(TypeError, match="Repeat: child 'module': expected a StatefulModule, got"):
        Repeat(jnp.tanh, 2)


def test_container_that_runs_its_children_otherwise_keeps_the_laws():
    class Backwards(Container):
        """Runs its child on the negative of its input."""

        def route(self, call, x):
            return call("a", x)

        def run_child(self, child, state, x, rollout_extras):
            return child(state, -x, rollout_extras)

        def unroll_child(self, child, state, xs, done, rollout_extras):
            return child.unroll(state, -xs, done, rollout_extras)

    net = Backwards({"a": Dense(SIZE, SIZE, nnx.Rngs(0))})
    check_stateful_module(net, XS[0], laws=[1, 6])
    expected = net.children["a"]((), -XS[0]).output
    assert_close("output", expected, net(initial_state(net, ROWS), XS[0]).output)
