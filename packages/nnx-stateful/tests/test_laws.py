"""The laws hold for every module shipped, and fail for modules that break them."""

import inspect

import jax
import jax.numpy as jnp
import nnx_stateful
import numpy as np
import pytest
from flax import nnx
from nnx_stateful import (
    LSTM,
    Apply,
    Container,
    Dense,
    Parallel,
    Scale,
    Sequential,
    StatefulModule,
    StatefulModuleOutput,
    initial_state,
)
from nnx_stateful.testing import (
    LAWS,
    BrokenLawError,
    CounterProbe,
    EmittingProbe,
    KeepingProbe,
    MetricsProbe,
    RowLossProbe,
    ScalarLossProbe,
    StatisticsProbe,
    StreamProbe,
    assert_close,
    check_stateful_module,
    shipped_modules,
    to_float64,
)

X = jnp.asarray(np.random.default_rng(0).standard_normal((4, 3)), jnp.float32)
PROBES = [
    CounterProbe,
    EmittingProbe,
    KeepingProbe,
    MetricsProbe,
    RowLossProbe,
    ScalarLossProbe,
    StatisticsProbe,
]
BASES = {"Container", "RecurrentLayer", "StatefulModule", "StochasticModule"}


@pytest.mark.fast(
    "Apply",
    "Filter",
    "Flattener",
    "Splitter",
    "Dense",
    "Map",
    "LSTM",
    "LRU",
    "Delay, nested input",
    "Normalizer",
    "Noise",
    "ALIF",
    "nested",
)
@pytest.mark.parametrize("case", shipped_modules(), ids=lambda case: case.name)
def test_shipped_module_keeps_all_laws(case):
    check_stateful_module(case.build(nnx.Rngs(0)), case.sample(4))


@pytest.mark.parametrize("probe", PROBES)
def test_probe_keeps_all_laws(probe):
    check_stateful_module(probe(), X)


def test_stream_probe_keeps_all_laws():
    check_stateful_module(StreamProbe(nnx.Rngs(0)), X)


def test_table_has_every_module_shipped():
    shipped = {
        name
        for name in nnx_stateful.__all__
        if inspect.isclass(entry := getattr(nnx_stateful, name))
        and issubclass(entry, StatefulModule)
    }
    in_table = {
        type(module).__name__
        for case in shipped_modules()
        for _, module in nnx.iter_modules(case.build(nnx.Rngs(0)))
    }
    assert shipped - BASES <= in_table


# ---- modules that break one law each -----------------------------------------------------------


class Broken(StatefulModule):
    """A counter; the subclasses break one thing each."""

    def __call__(self, state, x, rollout_extras=None):
        return StatefulModuleOutput(state + 1, x + state[:, None], 0.0, {})

    def initialize_state(self, batch_size):
        return jnp.zeros(batch_size)

    def reset_state(self, prev_state):
        return jnp.zeros_like(prev_state)


class ChangesShape(Broken):
    def __call__(self, state, x, rollout_extras=None):
        return super().__call__(state, x).replace(next_state=jnp.zeros((4, 1)))


class ChangesDtype(Broken):
    def __call__(self, state, x, rollout_extras=None):
        return super().__call__(state, x).replace(next_state=state.astype(jnp.int32))


class LosesBatchAxis(Broken):
    def __call__(self, state, x, rollout_extras=None):
        return super().__call__(state, x).replace(output={"a": x.sum(axis=0)})


class LossPerFeature(Broken):
    def __call__(self, state, x, rollout_extras=None):
        return super().__call__(state, x).replace(regularization_loss=x)


class StateWithoutBatch(Broken):
    def initialize_state(self, batch_size):
        return jnp.zeros(3)


class NeverResets(Broken):
    def reset_state(self, prev_state):
        return prev_state


class ResetsElsewhere(Broken):
    def reset_state(self, prev_state):
        return jnp.ones_like(prev_state)


class ResetExpectsBatch(Broken):
    def reset_state(self, prev_state):
        return jnp.zeros(prev_state.shape[0])


class SaysItKeepsButResets(Broken):
    keeps_state_on_reset = True


class RandomStart(Broken):
    calls = 0

    def initialize_state(self, batch_size):
        type(self).calls += 1
        return jnp.full(batch_size, float(self.calls))


class MixesRows(Broken):
    def __call__(self, state, x, rollout_extras=None):
        return super().__call__(state, x).replace(output=x - x.mean(axis=0))


class KnowsPosition(Broken):
    def __call__(self, state, x, rollout_extras=None):
        return super().__call__(state, x).replace(output=x + jnp.arange(x.shape[0])[:, None])


class SumsLoss(Broken):
    def __call__(self, state, x, rollout_extras=None):
        return super().__call__(state, x).replace(regularization_loss=jnp.sum(x**2))


class DependsOnTracing(Broken):
    def __call__(self, state, x, rollout_extras=None):
        out = super().__call__(state, x)
        return out if isinstance(x, jax.core.Tracer) else out.replace(output=x + 1)


class TurnsWeak(Broken):
    def __call__(self, state, x, rollout_extras=None):
        weak = jnp.where(jnp.arange(state.shape[0]) > 9, 0.0, 1.0)
        return super().__call__(state, x).replace(next_state=weak)


class ForgetsItsNoise(StreamProbe):
    def __call__(self, state, x, rollout_extras=None):
        return super().__call__(state, x).replace(rollout_extras=None)


class ReplaysDifferently(EmittingProbe):
    def __call__(self, state, x, rollout_extras=None):
        out = super().__call__(state, x, rollout_extras)
        return out if rollout_extras is None else out.replace(output=2 * out.output)


class IgnoresResets(Broken):
    def unroll(self, state, xs, done=None, rollout_extras=None):
        return super().unroll(state, xs, None, rollout_extras)


class UnrollsWithoutMetrics(MetricsProbe):
    def unroll(self, state, xs, done=None, rollout_extras=None):
        return super().unroll(state, xs, done, rollout_extras).replace(metrics={})


class FoldsWhatMixesRows(StatefulModule):
    folds_time = True

    def __call__(self, state, x, rollout_extras=None):
        return StatefulModuleOutput(state, x, 0.0, {"mean": x.mean()})


class Writes(Broken):
    def __init__(self):
        self.last = nnx.Variable(jnp.zeros(()))

    def __call__(self, state, x, rollout_extras=None):
        self.last[...] = x.sum()
        return super().__call__(state, x)


class WritesInUnroll(StatisticsProbe):
    def unroll(self, state, xs, done=None, rollout_extras=None):
        self.total[...] += 1.0
        return super().unroll(state, xs, done, rollout_extras)


class TrainsInStatistics(Dense):
    def update_statistics(self, rollout_extras):
        self.kernel[...] = 2 * self.kernel[...]


class DropsMetrics(Sequential):
    def __call__(self, state, x, rollout_extras=None):
        out = super().__call__(state, x, rollout_extras)
        return out.replace(metrics={name: {} for name in out.metrics})


class RenamesExtras(Sequential):
    def __call__(self, state, x, rollout_extras=None):
        out = super().__call__(state, x, rollout_extras)
        return out.replace(rollout_extras=list(out.rollout_extras.values()))


class IntegerMetrics(Broken):
    def __call__(self, state, x, rollout_extras=None):
        return super().__call__(state, x).replace(metrics={0: state})


class MultipliesByZero(Broken):
    def reset_state(self, prev_state):
        return 0.0 * prev_state


class MasksByProduct(Broken):
    def unroll(self, state, xs, done=None, rollout_extras=None):
        if done is None:
            return super().unroll(state, xs)
        goes_on = (~done).astype(xs.dtype)

        def step(state, inputs):
            x, going = inputs
            return (state + 1) * going, x + state[:, None]

        state, output = jax.lax.scan(step, state, (xs, goes_on))
        return StatefulModuleOutput(state, output, jnp.zeros(len(xs)), {})


class OrderOfDict(StatefulModule):
    def __call__(self, state, x, rollout_extras=None):
        first = next(iter(x.values()))
        return StatefulModuleOutput(state, first, 0.0, {})


class IteratesDict(StatefulModule):
    def __init__(self):
        self.layers = nnx.Dict({"b": Scale(2.0), "a": Dense(3, 3, nnx.Rngs(0), jnp.tanh)})

    def __call__(self, state, x, rollout_extras=None):
        for name in self.layers:
            x = self.layers[name]((), x).output
        return StatefulModuleOutput(state, x, 0.0, {})


@pytest.mark.parametrize(
    ("build", "law", "message"),
    [
        (ChangesShape, 1, r"ChangesShape: next_state: expected shape \(4,\), got \(4, 1\)"),
        (ChangesDtype, 1, "next_state: expected dtype float32, got int32"),
        (LosesBatchAxis, 1, r"output\['a'\]: expected to lead with the batch axis \(4, ...\)"),
        (
            LossPerFeature,
            1,
            r"regularization_loss: expected a scalar or shape \(4,\), got",
        ),
        (StateWithoutBatch, 1, "raised ValueError: StateWithoutBatch.initialize_state"),
        (NeverResets, 2, "state after reset_state: expected 0.0, got 2.0 .* Implement reset_state"),
        (ResetsElsewhere, 2, "expected 0.0, got 1.0"),
        (ResetExpectsBatch, 2, "raised (IndexError|ValueError)"),
        (SaysItKeepsButResets, 2, "SaysItKeepsButResets, which keeps it: expected 2.0, got 0.0"),
        (RandomStart, 2, "initialize_state, called twice"),
        (lambda: Parallel(b=NeverResets(), a=CounterProbe()), 2, r"reset_state\['b'\]"),
        (MixesRows, 3, "in a part of the batch: output: expected"),
        (KnowsPosition, 3, "after permuting the batch: output: expected"),
        (SumsLoss, 3, "in parts of the batch: mean of regularization_loss: expected"),
        (DependsOnTracing, 4, "compiled.output: expected"),
        (TurnsWeak, 4, "traced again: expected one trace, got two"),
        (lambda: ForgetsItsNoise(nnx.Rngs(0)), 5, "replayed step: output: expected"),
        (ReplaysDifferently, 5, "replayed step: output: expected"),
        (IgnoresResets, 6, "unroll: next_state: expected"),
        (UnrollsWithoutMetrics, 6, "unroll: metrics: expected structure"),
        (FoldsWhatMixesRows, 6, r"unroll: metrics\['mean'\]: expected"),
        (Writes, 7, "raised RuntimeError: Writes .* wrote its variable 'last'"),
        (WritesInUnroll, 7, r"variables after unroll\['total'\]: expected 0.0, got 1.0"),
        (lambda: TrainsInStatistics(3, 3, nnx.Rngs(0)), 7, "parameters after update_statistics"),
        (lambda: DropsMetrics([CounterProbe()]), 8, r"metrics\['0'\]: DropsMetrics drops what"),
        (lambda: RenamesExtras([CounterProbe()]), 8, r"rollout_extras: expected an entry for"),
        (IntegerMetrics, 8, "metrics: expected keys of type str, got 0"),
        (MultipliesByZero, 10, r"nan in row 0 up to .*: output of other rows and later steps: exp"),
        (MasksByProduct, 10, r"nan in row 0 up to .*: output of other rows and later steps: exp"),
        (IteratesDict, 9, "after split and merge.output: expected"),
    ],
)
def test_broken_module_fails_its_law(build, law, message):
    with pytest.raises(BrokenLawError, match=rf"(?s)^law {law} \(.*{message}"):
        check_stateful_module(build(), X, laws=[law])


def test_module_that_depends_on_the_order_of_dict_entries_fails():
    with pytest.raises(BrokenLawError, match=r"law 9 .* with dict entries in another order"):
        check_stateful_module(OrderOfDict(), {"b": X, "a": 2 * X}, laws=[9])


def spoiled(module, value=jnp.nan):
    nnx.update(module, jax.tree.map(lambda leaf: leaf * value, nnx.state(module, nnx.Param)))
    return module


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: spoiled(Sequential([Dense(3, 3, nnx.Rngs(0)), LSTM(3, 3, nnx.Rngs(0))])),
            r"^Sequential: Linear: its variable 'child_modules/0/linear/bias': .* got nan at index",
        ),
        (
            lambda: Sequential(
                [Scale(2.0), Parallel(b=Apply(lambda x: x / (0 * x)), a=Scale(1.0))]
            ),
            r"^Sequential: output of the module at '1/b': expected numbers, got nan at index",
        ),
    ],
)
def test_network_of_nan_fails_naming_module_and_leaf(build, message):
    with pytest.raises(BrokenLawError, match=message):
        check_stateful_module(build(), X.at[0].set(0.0), laws=[1])


def test_input_that_is_nan_is_refused():
    with pytest.raises(BrokenLawError, match=r"sample_input\['a'\]: .* got nan at index \(1, 2\)"):
        check_stateful_module(Scale(2.0), {"a": X.at[1, 2].set(jnp.nan)})


def test_nan_equals_nothing():
    with pytest.raises(BrokenLawError, match=r"leaf: expected nan, got nan at index \(1,\)"):
        assert_close("leaf", np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    assert_close("leaf", np.array([-np.inf]), np.array([-np.inf]))


def test_check_reports_what_it_checked():
    report = check_stateful_module(Scale(2.0), X, laws=[1, 8])
    assert repr(report).startswith("check_stateful_module(Scale): passed\n  checked  finite: ")
    assert "  checked  law 8: names mirror children" in repr(report)


def test_law_titles_are_read_from_their_functions():
    assert list(LAWS) == list(range(1, 11))
    assert all(law.__doc__ for law in LAWS.values())


def test_check_leaves_the_module_as_it_is():
    module = Sequential([StreamProbe(nnx.Rngs(0)), StatisticsProbe()])
    before = jax.tree.leaves(nnx.state(module))
    check_stateful_module(module, X, laws=[5, 6, 7])
    assert all(a is b for a, b in zip(before, jax.tree.leaves(nnx.state(module)), strict=True))


def test_check_without_arrays_needs_the_batch_size():
    with pytest.raises(ValueError, match="expected batch_size, since sample_input has no arrays"):
        check_stateful_module(Broken(), {})

    class Silent(Broken):
        def __call__(self, state, x, rollout_extras=None):
            return StatefulModuleOutput(state + 1, state, 0.0, {})

    check_stateful_module(Silent(), {}, batch_size=4)


def test_check_of_a_batch_of_one_row_passes():
    check_stateful_module(LSTM(3, 2, nnx.Rngs(0)), X[:1], laws=[1, 2, 3, 6])


def test_float64_check_finds_what_float32_hides():
    class Approximate(Broken):
        def unroll(self, state, xs, done=None, rollout_extras=None):
            out = super().unroll(state, xs, done, rollout_extras)
            return out.replace(output=out.output + 1e-6)

    check_stateful_module(Approximate(), X, laws=[6])
    with pytest.raises(BrokenLawError, match=r"law 6 .* unroll: output"):
        check_stateful_module(Approximate(), X, laws=[6], float64=True)


def test_to_float64_widens_a_copy():
    net = Sequential([Dense(3, 2, nnx.Rngs(0), dtype=jnp.float32), LSTM(2, 2, nnx.Rngs(0))])
    with jax.enable_x64(True):
        wide = to_float64(net)
        out = wide(initial_state(wide, 4), X.astype(jnp.float64))
        assert out.output.dtype == jnp.float64
    assert net[0].kernel.dtype == jnp.float32


def test_to_float64_without_x64_raises():
    with pytest.raises(RuntimeError, match="to_float64: expected x64 to be enabled"):
        to_float64(Dense(2, 2, nnx.Rngs(0)))


def test_user_container_is_looked_into():
    class Pair(Container):
        def route(self, call, x):
            return call("a", x)

    with pytest.raises(BrokenLawError, match=r"metrics\['b'\]: Pair drops what its child reports"):
        check_stateful_module(Pair({"a": Scale(1.0), "b": Scale(1.0)}), X, laws=[8])
