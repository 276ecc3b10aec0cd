"""Tied, against explicit loops over copies."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_stateful import (
    LSTM,
    Delay,
    Dense,
    LeakyIntegrator,
    Noise,
    Normalizer,
    Scale,
    Sequential,
    StatefulModule,
    StatefulModuleOutput,
    Tied,
    VariationalBottleneck,
    counting_only,
    extract_activations,
    initial_state,
    rekey_noise,
    reset_rows,
    with_recording,
)
from nnx_stateful.testing import (
    CounterProbe,
    MetricsProbe,
    RowLossProbe,
    ScalarLossProbe,
    StreamProbe,
    assert_close,
    to_float64,
)
from nnx_stateful.testing._stepping import step_loop

STEPS, ROWS, COPIES, SIZE = 4, 3, 2, 3
RANDOM = np.random.default_rng(0)
XS = jnp.asarray(RANDOM.standard_normal((STEPS, ROWS, COPIES, SIZE)), jnp.float32)
DONE = jnp.asarray(RANDOM.random((STEPS, ROWS)) < 0.3).at[1, 0].set(True)


def mixed_module():
    rngs = nnx.Rngs(0)
    norm = Normalizer(SIZE)
    norm.update_statistics(3 * XS[:, :, 0] + 1)
    bottleneck = VariationalBottleneck(SIZE, rngs)
    layers = [norm, LSTM(SIZE, SIZE, rngs), Dense(SIZE, 2 * SIZE, rngs), bottleneck]
    return Sequential([*layers, RowLossProbe(), ScalarLossProbe(), MetricsProbe()])


def of_copy(tree, copy, axis=1):
    return jax.tree.map(lambda leaf: jnp.take(leaf, copy, axis), tree)


def loop(module, state, xs, done):
    """One copy after the other, step by step; returns what Tied should, without the name."""
    call = jax.jit(lambda state, x: module(state, x))
    copies = []
    for copy in range(COPIES):
        carry, steps = of_copy(state, copy), []
        for x, ended in zip(xs, done, strict=True):
            out = call(carry, x[:, copy])
            carry = reset_rows(module, out.next_state, ended)
            steps.append(out.replace(next_state=()))
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *steps)
        copies.append(stacked.replace(next_state=carry))

    def stack(field, axis):
        entries = [getattr(out, field) for out in copies]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis), *entries)

    return StatefulModuleOutput(
        next_state=stack("next_state", 1),
        output=stack("output", 2),
        regularization_loss=sum(out.regularization_loss for out in copies),
        metrics=stack("metrics", -1),
        rollout_extras=stack("rollout_extras", 2),
    )


def compiled_steps(net, state, xs, done):
    """What :func:`step_through` gives, with a compiled call."""
    inputs = [(jax.tree.map(lambda leaf, t=t: leaf[t], xs), done[t], None) for t in range(STEPS)]
    reset = jax.jit(lambda state, done: reset_rows(net, state, done))
    return step_loop(jax.jit(lambda *inputs: net(*inputs)), reset, state, inputs)


def without_name(out):
    """Takes the child's name off what a Tied returned."""
    fields = ("next_state", "metrics", "rollout_extras")
    return out.replace(**{field: getattr(out, field)["module"] for field in fields})


@pytest.mark.parametrize("unrolled", [True, False], ids=["unroll", "calls"])
def test_tied_equals_a_loop_over_copies_across_resets(unrolled):
    net = Tied(mixed_module(), COPIES)
    state = initial_state(net, ROWS)
    expected = loop(net.module, state["module"], XS, DONE)
    run = jax.jit(net.unroll) if unrolled else functools.partial(compiled_steps, net)
    out = run(state, XS, DONE)
    assert_close("", expected, without_name(out), (1e-5, 1e-5))


def test_leaves_have_the_axis_of_copies_where_it_is_said():
    net = Tied(mixed_module(), COPIES)
    state = initial_state(net, ROWS)
    step = jax.eval_shape(lambda *inputs: net(*inputs), state, XS[0])
    sequence = jax.eval_shape(net.unroll, state, XS, DONE)
    for out, lead in ((step, ()), (sequence, (STEPS,))):
        assert out.output.shape == (*lead, ROWS, COPIES, SIZE)
        assert out.rollout_extras["module"]["3"].shape == (*lead, ROWS, COPIES, SIZE)
        assert out.regularization_loss.shape == (*lead, ROWS)
        metrics = out.metrics["module"]
        assert metrics["6"]["mean"].shape == (*lead, COPIES)
        assert metrics["6"]["row"].shape == (*lead, ROWS, COPIES)
        assert metrics["3"]["mu"].shape == (*lead, ROWS, SIZE, COPIES)
    assert state["module"]["1"][0].shape == (ROWS, COPIES, SIZE)


def test_gradients_equal_those_of_a_loop_in_float64():
    with jax.enable_x64(True):
        net = to_float64(Tied(Sequential([LSTM(SIZE, SIZE, nnx.Rngs(0)), RowLossProbe()]), COPIES))
        graphdef, params = nnx.split(net)
        xs, state = jnp.asarray(XS, float), initial_state(net, ROWS)
        weights = np.random.default_rng(2).standard_normal(XS.shape)

        def loss(params, run):
            out = run(nnx.merge(graphdef, params))
            return jnp.sum(weights * out.output) + jnp.mean(out.regularization_loss)

        def run_loop(net):
            return loop(net.module, state["module"], xs, DONE)

        def run_unroll(net):
            return net.unroll(state, xs, DONE)

        expected, got = (
            jax.jit(jax.grad(lambda params, run=run: loss(params, run)))(params)
            for run in (run_loop, run_unroll)
        )
        assert_close("gradient", expected, got, (1e-9, 1e-10))
        assert all(np.abs(leaf).max() > 1e-3 for leaf in jax.tree.leaves(got))


@pytest.mark.parametrize("rekeyed", [False, True])
def test_copies_and_rows_draw_noise_of_their_own(rekeyed):
    net = Tied(Noise(SIZE, nnx.Rngs(0)), COPIES)
    state = initial_state(net, ROWS)
    if rekeyed:
        state = rekey_noise(state, jax.random.key(1))
    noise = net.unroll(state, XS, DONE).rollout_extras["module"]
    assert noise.shape == XS.shape
    assert len(np.unique(noise)) == noise.size
    stepped = compiled_steps(net, state, XS, DONE).rollout_extras["module"]
    np.testing.assert_array_equal(noise, stepped)


def test_eval_makes_the_copies_deterministic():
    net = Tied(Noise(SIZE, nnx.Rngs(0)), COPIES)
    quiet = nnx.view(net, deterministic=True, raise_if_not_found=False)
    np.testing.assert_array_equal(quiet(initial_state(net, ROWS), XS[0]).output, XS[0])


@pytest.mark.parametrize("counted", [None, DONE], ids=["all", "some"])
def test_statistics_take_copies_for_rows(counted):
    net, norm = Tied(Normalizer(SIZE), COPIES), Normalizer(SIZE)
    extras = net.unroll(initial_state(net, ROWS), XS, DONE).rollout_extras
    samples = np.asarray(XS)[... if counted is None else np.asarray(counted)].reshape(-1, 1, SIZE)
    norm.update_statistics(jnp.asarray(samples))
    with counting_only(jnp.ones_like(DONE) if counted is None else counted):
        net.update_statistics(extras)
    assert net.module.sample_count == len(samples)
    np.testing.assert_allclose(net.module.mean[...], norm.mean[...], atol=1e-6)
    np.testing.assert_allclose(net.module.M2[...], norm.M2[...], rtol=1e-5)


def test_trees_of_inputs_and_nested_copies_run():
    net = Tied(Tied(Delay({"a": jnp.zeros(SIZE)}, 1), 2), COPIES)
    inner = Delay({"a": jnp.zeros((COPIES, 2, SIZE))}, 1)
    xs = {"a": jnp.stack([XS, 2 * XS], axis=3)}
    got, expected = (
        jax.jit(module.unroll)(initial_state(module, ROWS), xs, DONE).output
        for module in (net, inner)
    )
    assert_close("output", expected, got)


def test_module_without_carry_is_not_reset():
    net = Sequential([Tied(Scale(2.0), COPIES), Tied(CounterProbe(), COPIES)])
    out = net.unroll(initial_state(net, ROWS), XS, DONE)
    steps = [0, 1, 0, 1] if not DONE[0, 0] else [0, 0, 0, 1]  # row 0 is reset after step 1
    expected = 2 * XS[:, 0] + jnp.array(steps)[:, None, None]
    np.testing.assert_allclose(out.output[:, 0], expected, rtol=1e-6)


def test_sequence_goes_through_the_modules_own_unroll():
    net = Tied(Dense(SIZE, SIZE, nnx.Rngs(0)), COPIES)
    text = str(jax.make_jaxpr(lambda xs: net.unroll(initial_state(net, ROWS), xs).output)(XS))
    assert "scan" not in text
    assert text.count("dot_general") == 1
    leaky = Tied(LeakyIntegrator(SIZE, nnx.Rngs(0)), COPIES)
    run = jax.jit(lambda xs: leaky.unroll(initial_state(leaky, ROWS), xs).output)
    assert "stablehlo.while" not in run.trace(XS).lower(lowering_platforms=("cuda",)).as_text()


def test_recorded_activations_have_the_copies_last():
    net = with_recording(Tied(Sequential([Dense(SIZE, SIZE, nnx.Rngs(0)), Scale(2.0)]), COPIES))
    state = initial_state(net, ROWS)
    for out in (net(state, XS[0]), net.unroll(state, XS, DONE)):
        recorded = extract_activations(out.metrics)
        assert sorted(recorded) == ["", "module", "module/0", "module/1"]
        np.testing.assert_array_equal(recorded[""], out.output)
        np.testing.assert_array_equal(recorded["module"], jnp.swapaxes(out.output, -1, -2))
        np.testing.assert_array_equal(recorded["module/1"], 2 * recorded["module/0"])


def test_write_in_a_copy_raises_naming_module_and_variable():
    class Writer(StatefulModule):
        def __init__(self):
            self.seen = nnx.Variable(jnp.zeros(()))

        def __call__(self, state, x, rollout_extras=None):
            self.seen[...] += x.sum()
            return StatefulModuleOutput(state, x, 0.0, {})

    net = Tied(Sequential([Scale(1.0), Writer()]), COPIES)
    for run, x in ((net, XS[0]), (net.unroll, XS)):
        with pytest.raises(RuntimeError, match=r"Writer .* wrote its variable 'seen'"):
            run(initial_state(net, ROWS), x)
    assert float(net.module[1].seen[...]) == 0.0


# ---- what is refused -----------------------------------------------------------------------------


def test_input_with_another_number_of_copies_raises():
    net = Tied(Sequential([Scale(1.0)]), COPIES)
    state = initial_state(net, ROWS)
    message = r"Tied: expected an input with 2 copies side by side, shape \(B, 2, ...\), got "
    with pytest.raises(ValueError, match=rf"{message}\(3, 3\) at input"):
        net(state, XS[0, :, 0])
    with pytest.raises(ValueError, match=rf"{message}\(3,\) at input\['a'\]"):
        net(state, {"a": XS[0, :, 0, 0]})
    with pytest.raises(ValueError, match=r"shape \(T, B, 2, ...\), got \(4, 3, 3\) at input"):
        net.unroll(state, XS[:, :, 0])


@pytest.mark.parametrize(
    ("copies", "error", "message"),
    [
        (0, ValueError, "Tied: copies: expected a positive int, got 0"),
        (True, TypeError, "Tied: copies: expected a positive int, got True of type bool"),
        (2.0, TypeError, "Tied: copies: expected a positive int, got 2.0 of type float"),
    ],
)
def test_bad_number_of_copies_raises(copies, error, message):
    with pytest.raises(error, match=message):
        Tied(Scale(1.0), copies)


def test_module_with_rng_streams_raises():
    module = Sequential([Scale(1.0), StreamProbe(nnx.Rngs(0))])
    message = r"Tied: module: expected .* without RNG streams, got a Sequential with one at "
    with pytest.raises(TypeError, match=rf"{message}'child_modules/1/stream'.* noise state"):
        Tied(module, COPIES)


def test_module_that_is_no_module_raises():
    with pytest.raises(TypeError, match="Tied: child 'module': expected a StatefulModule, got"):
        Tied(nnx.Linear(3, 3, rngs=nnx.Rngs(0)), COPIES)
