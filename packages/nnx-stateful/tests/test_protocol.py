"""The protocol: what a user's own module gets for free, and what it is told when it is wrong."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_stateful import (
    LSTM,
    Delay,
    Dense,
    Normalizer,
    Sequential,
    StatefulModule,
    StatefulModuleOutput,
    initial_state,
)
from nnx_stateful.testing import assert_close, check_stateful_module, step_through

# ---- three modules as a user would write them -------------------------------------------------


class WindowMean(StatefulModule):
    """The mean of the last ``k`` inputs of each row; zeros before there are any."""

    def __init__(self, features, k):
        self.features = features
        self.k = k

    def __call__(self, state, x, rollout_extras=None):
        rows = jnp.arange(state["slot"].shape[0])
        window = state["window"].at[rows, state["slot"]].set(x)
        return StatefulModuleOutput(
            next_state={"window": window, "slot": (state["slot"] + 1) % self.k},
            output=window.mean(axis=1),
            regularization_loss=jnp.array(0.0),
            metrics={},
            rollout_extras=None,
        )

    def initialize_state(self, batch_size):
        return {
            "window": jnp.zeros((batch_size, self.k, self.features)),
            "slot": jnp.zeros(batch_size, jnp.int32),
        }

    def reset_state(self, prev_state):
        return {
            "window": jnp.zeros_like(prev_state["window"]),
            "slot": jnp.zeros_like(prev_state["slot"]),
        }


class InputStatistic(nnx.Variable):
    pass


class WindowMeanWithStatistics(WindowMean):
    """Also keeps the mean of everything it has ever seen."""

    def __init__(self, features, k):
        super().__init__(features, k)
        self.mean = InputStatistic(jnp.zeros(features))
        self.count = InputStatistic(jnp.zeros((), jnp.int32))

    def __call__(self, state, x, rollout_extras=None):
        return super().__call__(state, x).replace(rollout_extras=x)

    def update_statistics(self, rollout_extras):
        values = rollout_extras.reshape((-1, *rollout_extras.shape[2:]))
        total = self.count[...] + values.shape[0]
        shift = values.mean(axis=0) - self.mean[...]
        self.mean[...] = self.mean[...] + shift * (values.shape[0] / total)
        self.count[...] = total


class Tower(StatefulModule):
    """A list of layers whose length depends on an argument."""

    def __init__(self, sizes, rngs):
        pairs = itertools.pairwise(sizes)
        self.layers = nnx.List([Dense(d_in, d_out, rngs) for d_in, d_out in pairs])

    def __call__(self, state, x, rollout_extras=None):
        for layer in self.layers:
            x = layer((), x).output
        return StatefulModuleOutput(state, x, 0.0, {})


def _sequence(steps=7, rows=4, features=2):
    random = np.random.default_rng(0)
    xs = random.standard_normal((steps, rows, features)).astype(np.float32)
    done = random.random((steps, rows)) < 0.25
    return jnp.asarray(xs), jnp.asarray(done)


def test_window_mean_unrolled_equals_plain_lists_across_resets():
    xs, done = _sequence()
    out = WindowMean(2, 3).unroll(initial_state(WindowMean(2, 3), 4), xs, done)
    for row in range(4):
        seen = []
        for step in range(7):
            seen.append(np.asarray(xs[step, row]))
            expected = sum(seen[-3:]) / 3
            np.testing.assert_allclose(out.output[step, row], expected, rtol=1e-5, atol=1e-6)
            if done[step, row]:
                seen = []


def test_window_mean_statistics_equal_numpy_after_two_rollouts():
    xs, done = _sequence()
    net = Sequential([WindowMeanWithStatistics(2, 3)])
    for rollout in (xs, 10 * xs):
        net.update_statistics(net.unroll(initial_state(net, 4), rollout, done).rollout_extras)
    both = np.concatenate([xs, 10 * xs]).reshape((-1, 2))
    np.testing.assert_allclose(net[0].mean[...], both.mean(axis=0), rtol=1e-5, atol=1e-5)
    assert int(net[0].count[...]) == 2 * 7 * 4


def test_tower_in_nnx_list_shows_all_its_parameters():
    net = Tower([2, 5, 5, 3], nnx.Rngs(0))
    assert len(jax.tree.leaves(nnx.state(net, nnx.Param))) == 6
    assert net((), jnp.ones((4, 2))).output.shape == (4, 3)


@pytest.mark.parametrize(
    "module",
    [WindowMean(2, 3), WindowMeanWithStatistics(2, 3), Tower([2, 3], nnx.Rngs(0))],
    ids=lambda module: type(module).__name__,
)
def test_module_as_in_the_tutorial_keeps_all_laws(module):
    check_stateful_module(module, _sequence()[0][0])


# ---- a subclass that acts differently gets the default unroll ---------------------------------


class DoubledLSTM(LSTM):
    def __call__(self, state, x, rollout_extras=None):
        out = super().__call__(state, x, rollout_extras)
        return out.replace(output=2 * out.output)


class WarmLSTM(LSTM):
    def reset_state(self, prev_state):
        return jax.tree.map(jnp.ones_like, prev_state)


class NoBatchMean(Dense):
    """Not row-wise, though its parent is: folding time into the batch would be wrong."""

    def __call__(self, state, x, rollout_extras=None):
        out = super().__call__(state, x)
        return out.replace(output=out.output - out.output.mean(axis=0))


class Noisier:
    """A mixin that is no StatefulModule itself."""

    def __call__(self, state, x, rollout_extras=None):
        out = super().__call__(state, x, rollout_extras)
        return out.replace(output=out.output + 1)


class NoisierDelay(Noisier, Delay):
    pass


@pytest.mark.parametrize(
    "module",
    [
        DoubledLSTM(2, 3, nnx.Rngs(0)),
        WarmLSTM(2, 3, nnx.Rngs(0)),
        NoBatchMean(2, 3, nnx.Rngs(0)),
        NoisierDelay(jnp.zeros(2), 2),
    ],
    ids=lambda module: type(module).__name__,
)
def test_subclass_of_shipped_layer_unrolls_as_it_steps(module):
    xs, done = _sequence()
    state = initial_state(module, 4)
    unrolled = module.unroll(state, xs, done)
    assert_close("", step_through(module, state, xs, done), unrolled, (1e-5, 1e-6))


def test_subclass_with_its_own_unroll_keeps_it():
    class Fast(DoubledLSTM):
        def unroll(self, state, xs, done=None, rollout_extras=None):
            raise NotImplementedError("mine")

    with pytest.raises(NotImplementedError, match="mine"):
        Fast(2, 3, nnx.Rngs(0)).unroll((), jnp.zeros((1, 1, 2)))


def test_subclass_that_only_adds_methods_keeps_the_fast_unroll():
    class Named(LSTM):
        def hello(self):
            return "hello"

    class Counting(Normalizer):
        pass

    assert Named.unroll is LSTM.unroll
    assert Counting.folds_time


# ---- what is refused --------------------------------------------------------------------------


class Writer(StatefulModule):
    def __init__(self):
        self.seen = nnx.Variable(jnp.zeros(()))

    def __call__(self, state, x, rollout_extras=None):
        self.seen[...] = self.seen[...] + x.sum()
        return StatefulModuleOutput(state, x, 0.0, {})


def test_write_in_call_raises_naming_module_and_variable():
    net = Sequential([Dense(2, 2, nnx.Rngs(0)), Writer()])
    with pytest.raises(RuntimeError, match=r"Writer \(at child_modules/1\) wrote .* 'seen'"):
        net(initial_state(net, 1), jnp.ones((1, 2)))
    assert float(net[1].seen[...]) == 0.0  # and the old value is back


class ArrayWriter(StatefulModule):
    """Keeps its carry in plain attributes, which NNX does not tell from parameters."""

    def __init__(self, name="h"):
        self.h = jnp.zeros(())
        self.kept = nnx.List([jnp.zeros(())])
        self.name = name

    def __call__(self, state, x, rollout_extras=None):
        if self.name == "kept/0":
            self.kept[0] = self.kept[0] + 1
        else:
            setattr(self, self.name, self.h + 1)
        return StatefulModuleOutput(state, x + self.h, 0.0, {})


@pytest.mark.parametrize(
    ("name", "verb"), [("h", "wrote"), ("kept/0", "wrote"), ("fresh", "created")]
)
def test_write_of_a_plain_array_raises_and_is_undone(name, verb):
    module = ArrayWriter(name)
    net = Sequential([module])
    message = rf"ArrayWriter \(at child_modules/0\) {verb} its array attribute '{name}'"
    with pytest.raises(RuntimeError, match=message):
        net(initial_state(net, 1), jnp.ones((1, 2)))
    with pytest.raises(RuntimeError, match=rf"ArrayWriter .* {verb} its array attribute '{name}'"):
        net.unroll(initial_state(net, 1), jnp.ones((3, 1, 2)))
    assert float(module.h) == float(module.kept[0]) == 0.0
    assert not hasattr(module, "fresh")


def test_error_inside_a_call_undoes_what_was_written():
    class Failing(Writer):
        def __init__(self):
            super().__init__()
            self.h = jnp.zeros(())

        def __call__(self, state, x, rollout_extras=None):
            self.seen[...] = self.seen[...] + 1
            self.h = self.h + 1
            raise ArithmeticError("mine")

    module = Failing()
    with pytest.raises(ArithmeticError, match="mine"):
        module((), jnp.ones((1, 2)))
    assert float(module.seen[...]) == float(module.h) == 0.0


@pytest.mark.parametrize("transform", [nnx.jit, lambda call: call], ids=["jit", "eager"])
def test_write_in_unroll_raises_naming_module_and_variable(transform):
    run = transform(lambda net, xs: net.unroll({"0": ()}, xs))
    with pytest.raises(RuntimeError, match=r"Writer .* wrote its variable 'seen'"):
        run(Sequential([Writer()]), jnp.ones((3, 1, 2)))


def test_write_through_a_mixin_raises():
    class Writing:
        def __call__(self, state, x, rollout_extras=None):
            self.linear.kernel[...] = jnp.zeros((2, 2))
            return super().__call__(state, x)

    class WritingDense(Writing, Dense):
        pass

    with pytest.raises(RuntimeError, match=r"wrote its variable 'kernel'"):
        WritingDense(2, 2, nnx.Rngs(0))((), jnp.ones((1, 2)))


def test_variable_created_in_call_raises():
    class Creator(StatefulModule):
        def __call__(self, state, x, rollout_extras=None):
            self.fresh = nnx.Variable(x)
            return StatefulModuleOutput(state, x, 0.0, {})

    with pytest.raises(RuntimeError, match=r"Creator .* created its variable 'fresh'"):
        Creator()((), jnp.ones((1, 2)))


def test_advancing_an_rng_stream_is_allowed():
    class Dropping(StatefulModule):
        def __init__(self, rngs):
            self.dropout = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, state, x, rollout_extras=None):
            return StatefulModuleOutput(state, self.dropout(x), 0.0, {})

    module = Dropping(nnx.Rngs(0))
    first, second = (module((), jnp.ones((4, 8))).output for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("wrap", "wrapper"),
    [
        (lambda layer: [layer], "nnx.List"),
        (lambda layer: {"a": layer}, "nnx.Dict"),
        (lambda layer: [[layer]], "nnx.List"),
    ],
)
def test_plain_collection_of_modules_raises_naming_the_wrapper(wrap, wrapper):
    class Holder(StatefulModule):
        def __init__(self):
            self.layers = wrap(Dense(2, 2, nnx.Rngs(0)))

        def __call__(self, state, x, rollout_extras=None):
            return StatefulModuleOutput(state, x, 0.0, {})

    with pytest.raises(TypeError, match=rf"Holder.layers is a plain .* self.layers = {wrapper}"):
        Holder()


def test_call_with_wrong_signature_raises_at_class_definition():
    with pytest.raises(TypeError, match=r"must accept \(self, state, x, rollout_extras=None\)"):

        class TwoArguments(StatefulModule):
            def __call__(self, state, x):
                return StatefulModuleOutput(state, x, 0.0, {})


def test_result_of_another_type_raises():
    class Tuple(StatefulModule):
        def __call__(self, state, x, rollout_extras=None):
            return x, state

    with pytest.raises(TypeError, match=r"Tuple.__call__ must return a StatefulModuleOutput, got"):
        Tuple()((), jnp.ones((1, 2)))


def test_class_without_call_cannot_be_instantiated():
    class Empty(StatefulModule):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Empty()


def test_replace_returns_a_changed_copy():
    out = StatefulModuleOutput((), jnp.ones(2), 0.0, {})
    changed = out.replace(metrics={"a": 1})
    assert changed.metrics == {"a": 1}
    assert out.metrics == {}
    with pytest.raises(AttributeError, match="cannot assign"):
        out.metrics = {}
