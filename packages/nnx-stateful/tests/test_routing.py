"""The routing base: losses, metrics, extras and statistics of children."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_stateful import (
    Container,
    Dense,
    Map,
    Merge,
    Parallel,
    Scale,
    Sequential,
    StatefulModule,
    StatefulModuleOutput,
    VariationalBottleneck,
    initial_state,
)
from nnx_stateful.testing import (
    CounterProbe,
    EmittingProbe,
    MetricsProbe,
    RowLossProbe,
    ScalarLossProbe,
    StatisticsProbe,
    StreamProbe,
    check_stateful_module,
)

X = jnp.asarray(np.random.default_rng(0).standard_normal((4, 3)), jnp.float32)
XS = jnp.asarray(np.random.default_rng(1).standard_normal((5, 4, 3)), jnp.float32)


@pytest.mark.parametrize("probe", [RowLossProbe, ScalarLossProbe])
@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
def test_mean_loss_is_the_same_wherever_it_arises(probe, deep):
    net = Sequential([Parallel(a=probe()), Map(a=Scale(1.0))]) if deep else probe()
    loss = net(initial_state(net, 4), X).regularization_loss
    assert float(jnp.mean(loss)) == pytest.approx(float(jnp.mean(X**2)), rel=1e-5)


def test_losses_of_children_are_broadcast_to_rows_and_added():
    net = Parallel(row=RowLossProbe(), scalar=ScalarLossProbe(), none=Scale(1.0))
    expected = np.mean(np.square(X), axis=-1) + np.mean(np.square(X))
    loss = net(initial_state(net, 4), X).regularization_loss
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_losses_of_an_unrolled_container_lead_with_time_and_rows():
    net = Sequential([RowLossProbe(), Sequential([ScalarLossProbe()])])
    expected = np.mean(np.square(XS), axis=-1) + np.mean(np.square(XS), axis=(1, 2))[:, None]
    loss = net.unroll(initial_state(net, 4), XS).regularization_loss
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_loss_of_one_row_is_kept_apart_from_a_scalar():
    net = Sequential([RowLossProbe()])
    assert net(initial_state(net, 1), X[:1]).regularization_loss.shape == (1,)


def test_loss_with_further_axes_raises_naming_the_child():
    class PerFeature(StatefulModule):
        def __call__(self, state, x, rollout_extras=None):
            return StatefulModuleOutput(state, x, x**2, {})

    net = Sequential([Scale(1.0), PerFeature()])
    with pytest.raises(ValueError, match=r"Sequential: child '1': expected .* got shape \(4, 3\)"):
        net(initial_state(net, 4), X)


@pytest.mark.parametrize(
    "net",
    [
        Sequential([MetricsProbe(), MetricsProbe()]),
        Parallel(b=MetricsProbe(), a=Sequential([MetricsProbe()])),
        Merge(a=Sequential([MetricsProbe(), Parallel(x=MetricsProbe())])),
    ],
    ids=lambda net: type(net).__name__,
)
def test_metrics_are_never_dropped(net):
    def count_probes(metrics):
        return ("row" in metrics) + sum(
            count_probes(entry) for entry in metrics.values() if isinstance(entry, dict)
        )

    probes = sum(isinstance(module, MetricsProbe) for _, module in nnx.iter_modules(net))
    assert count_probes(net(initial_state(net, 4), X).metrics) == probes
    assert count_probes(net.unroll(initial_state(net, 4), XS).metrics) == probes


def test_statistics_reach_every_child():
    net = Sequential([StatisticsProbe(), Parallel(b=Scale(1.0), a=StatisticsProbe())])
    net.update_statistics(net.unroll(initial_state(net, 4), XS).rollout_extras)
    for probe in (net[0], net[1].children["a"]):
        assert int(probe.samples[...]) == 20
        assert float(probe.total[...]) == pytest.approx(float(XS.sum()), rel=1e-4)


def test_extras_reach_the_child_that_emitted_them():
    net = Sequential([EmittingProbe(), Parallel(b=EmittingProbe(), a=Scale(2.0))])
    extras = net(initial_state(net, 4), X).rollout_extras
    replayed = net(initial_state(net, 4), jnp.zeros_like(X), extras)
    assert jnp.array_equal(replayed.output["b"], X)
    assert jnp.array_equal(replayed.output["a"], 2 * X)


def test_child_called_twice_raises():
    class Twice(Container):
        def route(self, call, x):
            return call("a", call("a", x))

    net = Twice({"a": CounterProbe()})
    with pytest.raises(RuntimeError, match=r"Twice.route called child 'a' twice"):
        net(initial_state(net, 4), X)


def test_child_that_is_not_called_keeps_its_state():
    class Half(Container):
        def route(self, call, x):
            return call("a", x)

    net = Half({"a": CounterProbe(), "b": CounterProbe()})
    out = net(initial_state(net, 4), X)
    assert out.next_state["a"].tolist() == [1] * 4
    assert out.next_state["b"].tolist() == [0] * 4
    assert out.metrics["b"] == {}


def test_error_in_a_child_says_where_it_was():
    net = Sequential([Scale(1.0), Parallel(b=Dense(7, 1, nnx.Rngs(0)))])
    with pytest.raises(ValueError, match="Dense: expected an input with 7 features") as caught:
        net(initial_state(net, 4), X)
    assert caught.value.__notes__ == ["in child 'b' of Parallel", "in child '1' of Sequential"]


def test_user_container_keeps_all_laws():
    class Residual(Container):
        def __init__(self, inner, gate):
            super().__init__({"inner": inner, "gate": gate})

        def route(self, call, x):
            return x + call("gate", x) * call("inner", x)

    rngs = nnx.Rngs(0)
    inner = Sequential([Dense(3, 6, rngs), VariationalBottleneck(3, rngs)])
    check_stateful_module(Residual(inner, CounterProbe()), X)


def test_container_with_rng_streams_keeps_the_order_of_draws():
    check_stateful_module(Sequential([StreamProbe(nnx.Rngs(0)), StreamProbe(nnx.Rngs(1))]), X)


@pytest.mark.parametrize(
    ("state", "got"), [((), "tuple"), ({"1": ()}, r"entries \['1'\]"), (None, "NoneType")]
)
def test_state_without_the_child_raises_suggesting_initialize_state(state, got):
    net = Sequential([Scale(1.0), Scale(2.0)])
    message = rf"Sequential: expected a carry state .*, got {got} without '0'; .*initialize_state"
    with pytest.raises(ValueError, match=message):
        net(state, X)
