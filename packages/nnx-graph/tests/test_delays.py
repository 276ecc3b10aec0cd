"""Delays of each unit, between steps, and learnt ones: by hand, in gradients, and what is refused.

That random graphs with them keep the laws, equal the interpreter, and have the gradients of
stepping is tested where that is tested for all graphs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.test_util import check_grads
from nnx_graph import DelaySpread, LearnableDelay, Named, PopulationGraph, spec_from_dict
from nnx_stateful import scan_unroll
from nnx_stateful.testing import to_float64

PULSE = np.zeros((6, 1, 2), np.float32)
PULSE[0] = [[1.0, 2.0]]


def line(delay, size=2, **options):
    """A population whose output arrives unchanged, after a delay, unit by unit."""
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", size, input_from="x")
    graph.add_output("b", size)
    graph.connect("a", "b", delay=delay, **options)
    graph.finalize()
    if not options:
        graph.connection("a", "b").kernel[...] = jnp.eye(size)
    return graph


def run(graph, xs=PULSE, done=None):
    out = graph.unroll(graph.initialize_state(xs.shape[1]), {"x": jnp.asarray(xs)}, done)
    return np.asarray(out.output["b"])[:, 0]


def test_fraction_interpolates_between_the_steps_around_it():
    np.testing.assert_allclose(run(line(1.25))[:, 1], [0, 1.5, 0.5, 0, 0, 0], atol=1e-6)


def test_each_unit_has_its_own_delay():
    got = run(line([3, 0.5]))
    np.testing.assert_allclose(got[:, 0], [0, 0, 0, 1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(got[:, 1], [1, 1, 0, 0, 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (2.0, 2),
        (np.float32(1.5), 1.5),
        (np.array([1, 2]), (1, 2)),
        ([1.0, 2], (1, 2)),
        (np.int64(3), 3),
    ],
)
def test_delays_are_kept_in_one_form(given, kept):
    (connection,) = line(given).spec.connections
    assert connection.delay == kept
    assert repr(connection.delay) == repr(kept)


def test_whole_delays_of_each_unit_need_no_further_weights():
    several, one = line([1, 3]), line(3)
    shapes = [jax.tree.map(jnp.shape, nnx.state(graph, nnx.Param)) for graph in (several, one)]
    assert shapes[0] == shapes[1]
    assert (
        several.initialize_state(1)["buffers"].keys() == one.initialize_state(1)["buffers"].keys()
    )


@pytest.mark.parametrize(
    ("delay", "length"), [(2.5, 3), ([1, 4], 4), (LearnableDelay(1, 5), 5), (0.5, 1)]
)
def test_one_buffer_holds_the_longest_delay(delay, length):
    buffers = line(delay).initialize_state(3)["buffers"]
    assert {name: buffer.shape for name, buffer in buffers.items()} == {
        f"level0_length{length}": (3, length, 2)
    }


def test_learnable_delay_begins_in_the_middle_or_where_it_is_told():
    assert line(LearnableDelay(1, 4)).connection("a", "b").delay[...] == 2.5
    view = line(LearnableDelay(1, 4, initial=1.75)).connection("a", "b")
    assert view.delay[...] == pytest.approx(1.75)
    np.testing.assert_allclose(run(line(LearnableDelay(1, 4, 1.75)))[:3, 0], [0, 0.25, 0.75], 1e-5)


def test_learnable_delay_is_read_and_written_in_steps():
    graph = line(LearnableDelay(0, 4, per_unit=True))
    view = graph.connection("a", "b")
    view.delay[...] = jnp.array([3.0, 1.5])
    np.testing.assert_allclose(view.delay, [3, 1.5], rtol=1e-6)
    got = run(graph)
    np.testing.assert_allclose(got[:, 0], [0, 0, 0, 1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(got[:, 1], [0, 1, 1, 0, 0, 0], atol=1e-6)
    view.delay[1] = 4.0  # the parameter would be infinite at the bound
    np.testing.assert_allclose(view.delay, [3, 4 - 0.01], rtol=1e-6)


@pytest.mark.parametrize(
    "delays", [(1.25, 1.75), (LearnableDelay(1, 4, 1.5), LearnableDelay(1, 4, 3))]
)
def test_delays_between_the_same_steps_act_apart_at_each_destination(delays):
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 2, input_from="x")
    for name, delay in zip("bc", delays, strict=True):
        graph.add_output(name, 2)
        graph.connect("a", name, delay=delay)
    graph.finalize()
    for name in "bc":
        graph.connection("a", name).kernel[...] = jnp.eye(2)
    out = graph.unroll(graph.initialize_state(1), {"x": jnp.asarray(PULSE)}).output
    for name, delay in zip("bc", delays, strict=True):
        np.testing.assert_allclose(out[name][:, 0], run(line(delay)), atol=1e-6)


def test_spread_reaches_further_and_is_no_parameter():
    graph = line(LearnableDelay(0, 4, initial=2, spread=2.0))
    np.testing.assert_allclose(run(graph)[:, 0], [0, 0.25, 0.5, 0.25, 0, 0], atol=1e-6)
    graph.connection("a", "b").delay_spread[...] = 1.0
    np.testing.assert_allclose(run(graph)[:, 0], [0, 0, 1, 0, 0, 0], atol=1e-6)
    assert len(jax.tree.leaves(nnx.state(graph, DelaySpread))) == 1
    before = graph.connection("a", "b").delay_spread[...]
    train(graph, np.ones((6, 1, 2), np.float32), steps=2)
    assert graph.connection("a", "b").delay_spread[...] == before


def test_spread_below_a_step_acts_as_one():
    graph = line(LearnableDelay(0, 4, initial=1.25))
    expected = run(graph)
    graph.connection("a", "b").delay_spread[...] = 0.0
    np.testing.assert_array_equal(run(graph), expected)


@pytest.mark.parametrize("delay", [1.5, LearnableDelay(1, 3), LearnableDelay(1, 3, per_unit=True)])
def test_operations_and_parameters_do_not_grow_with_delays_of_a_kind(delay):
    def count(n):
        graph = PopulationGraph(nnx.Rngs(0))
        graph.add_input("a", 2, input_from="x")
        graph.add_output("out", 2)
        for number in range(n):
            graph.add_population(f"p{number}", 2)
            graph.connect("a", f"p{number}", delay=delay)
            graph.connect(f"p{number}", "out")
        graph.finalize()
        xs = {"x": jnp.ones((3, 1, 2))}
        traced = jax.make_jaxpr(lambda s: graph.unroll(s, xs).output)(graph.initialize_state(1))
        return len(traced.eqns), len(jax.tree.leaves(nnx.state(graph, nnx.Param)))

    assert count(40) == count(20)


def test_wide_spread_at_an_end_of_the_range_keeps_the_sum():
    graph = line(LearnableDelay(1, 3, initial=1, spread=3.0))
    assert run(graph, np.ones((6, 1, 2), np.float32))[-1, 0] == pytest.approx(1.0)


def train(graph, target, steps, rate=0.1):
    """Learns the delay alone, of a pulse that is to arrive as ``target``."""
    optimizer = nnx.Optimizer(graph, optax.adam(rate), wrt=nnx.Param)

    @nnx.jit
    def update(graph, optimizer):
        def loss(graph):
            out = graph.unroll(graph.initialize_state(1), {"x": jnp.asarray(PULSE)})
            return jnp.mean((out.output["b"] - target) ** 2)

        gradients = nnx.grad(loss)(graph)
        gradients["circuit"]["weights"] = jax.tree.map(
            jnp.zeros_like, gradients["circuit"]["weights"]
        )
        gradients["circuit"]["common"] = jax.tree.map(
            jnp.zeros_like, gradients["circuit"]["common"]
        )
        optimizer.update(graph, gradients)

    for _ in range(steps):
        update(graph, optimizer)


@pytest.mark.fast("1.0-*")
@pytest.mark.parametrize(("initial", "wanted"), [(3.4, 2.0), (1.0, 2.0), (2.0, 3.0)])
def test_gradient_finds_the_delay_within_a_step_or_two(initial, wanted):
    graph = line(LearnableDelay(0, 5, initial=initial, spread=2.0))
    train(graph, run(line(int(wanted)))[:, None], steps=40)
    graph.connection("a", "b").delay_spread[...] = 1.0
    train(graph, run(line(int(wanted)))[:, None], steps=80, rate=0.02)
    assert graph.connection("a", "b").delay[...] == pytest.approx(wanted, abs=0.05)


@pytest.mark.fast("delay2")
@pytest.mark.parametrize("delay", [1.3, [2, 0.25], LearnableDelay(0, 3, 1.4, True, 1.7)])
def test_gradients_match_finite_differences_across_resets(delay):
    with jax.enable_x64(True):
        graph = PopulationGraph(nnx.Rngs(0))
        graph.add_input("a", 2, input_from="x", activation=jnp.tanh)
        graph.add_output("b", 2, activation=jnp.tanh)
        graph.connect("a", "b", delay=delay)
        graph.connect("b", "b", delay=LearnableDelay(1, 3, initial=1.6, spread=1.3))
        graph.connect("b", "a", delay=[1, 2.5])
        graph.finalize()
        graph = to_float64(graph)
        graphdef, params, rest = nnx.split(graph, nnx.Param, ...)
        xs = jnp.asarray(np.random.default_rng(0).normal(size=(6, 2, 2)))
        done = jnp.zeros((6, 2), bool).at[2, 0].set(True)

        @jax.jit
        def loss(params, xs):
            local = nnx.merge(graphdef, params, rest)
            out = local.unroll(local.initialize_state(2), {"x": xs}, done)
            return jnp.sum(out.output["b"] ** 2)

        check_grads(loss, (params, xs), order=1, modes=["rev"], rtol=1e-6)


def test_gradient_at_a_whole_step_is_that_of_a_longer_delay():
    graph = line(LearnableDelay(0, 4, initial=2))

    def loss(graph):
        out = graph.unroll(graph.initialize_state(1), {"x": jnp.asarray(PULSE)})
        return out.output["b"][3, 0, 0]

    slope = nnx.grad(loss)(graph)["circuit"]["delays"]["logits"][0][0, 0]
    assert slope == pytest.approx(1.0)  # a quarter of the range per unit of the parameter, times 4


@pytest.mark.parametrize(
    "options", [{"frozen": True}, {"share": "w"}, {"connectivity": "one-to-one"}]
)
def test_bound_kernels_serve_all_taps(options):
    graph = line(LearnableDelay(0, 3, initial=1.5), **options)
    kernel = np.asarray(graph.connection("a", "b").kernel)
    assert kernel.shape == (2, 2)
    np.testing.assert_allclose(
        run(graph)[1:3], 0.5 * (PULSE[0] @ kernel) * np.ones((2, 1)), rtol=1e-5
    )
    is_parameter = any(
        leaf.shape[-2:] == (2, 2)
        for leaf in jax.tree.leaves(nnx.state(graph.circuit.common, nnx.Param))
    )
    assert is_parameter != ("frozen" in options)


def test_custom_transform_acts_on_what_the_taps_add_up_to():
    graph = PopulationGraph(nnx.Rngs(0))
    graph.add_input("a", 2, input_from="x")
    graph.add_output("b", 2)
    graph.connect("a", "b", delay=1.5, transform=Named("dense"))
    graph.connect("b", "b", delay=LearnableDelay(1, 2, initial=1.5), transform=Named("dense"))
    graph.finalize()
    first, second = graph.circuit.transforms.child_modules
    first.kernel[...], second.kernel[...] = jnp.eye(2), 2 * jnp.eye(2)
    half = 0.5
    expected = [0, half, half + half * 2 * half, half * 2 * (half + half * 2 * half + half)]
    np.testing.assert_allclose(run(graph)[:4, 0], expected, rtol=1e-5)
    stepped = scan_unroll(graph, graph.initialize_state(1), {"x": jnp.asarray(PULSE)}, None, None)
    np.testing.assert_allclose(run(graph), stepped.output["b"][:, 0], rtol=1e-5)


def test_shortest_delay_decides_about_cycles():
    def pair(delay):
        graph = PopulationGraph(nnx.Rngs(0))
        graph.add_input("a", 2, input_from="x")
        graph.add_output("b", 2)
        graph.connect("a", "b")
        graph.connect("b", "a", delay=delay)
        graph.finalize()

    for delay in (0.5, [0, 3], LearnableDelay(0, 3)):
        with pytest.raises(ValueError, match=r"got the delay-0 cycle b -> a -> b|a -> b -> a"):
            pair(delay)
    for delay in (1.5, [1, 3], LearnableDelay(1, 3)):
        pair(delay)


@pytest.mark.parametrize(
    ("delay", "error", "message"),
    [
        (-0.5, ValueError, r"delay of 'a' to 'b': expected at least 0, got -0.5"),
        ([1, -1], ValueError, r"delay of 'a' to 'b'\[1\]: expected at least 0, got -1"),
        ([1, 2, 3], ValueError, r"expected 2 delays, one for each unit of the source, got 3"),
        ([], ValueError, "expected a delay for each unit, got none"),
        (float("nan"), ValueError, "expected a finite number, got nan"),
        (True, TypeError, "expected a number, a list .*, or a LearnableDelay, got True"),
        ("1", TypeError, "got '1' of type str"),
        ([1, None], TypeError, r"\[1\]: expected a number"),
    ],
)
def test_bad_delay_raises(delay, error, message):
    with pytest.raises(error, match=message):
        line(delay)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1.5, 3), TypeError, "minimum: expected an int, got 1.5"),
        ((-1, 3), ValueError, "minimum: expected at least 0, got -1"),
        ((3, 3), ValueError, "maximum: expected at least 4, got 3"),
        ((1, 3, 4), ValueError, "initial: expected a delay from 1 to 3, got 4"),
        ((1, 3, "2"), TypeError, "initial: expected a number"),
        ((1, 3, None, 1), TypeError, "per_unit: expected True or False, got 1"),
        ((1, 3, None, False, 0.5), ValueError, "spread: expected at least 1 step, got 0.5"),
    ],
)
def test_bad_learnable_delay_raises(arguments, error, message):
    with pytest.raises(error, match=f"LearnableDelay: {message}"):
        LearnableDelay(*arguments)


def test_view_of_a_fixed_delay_names_the_way():
    view = line(2).connection("a", "b")
    for name in ("delay", "delay_spread"):
        with pytest.raises(
            ValueError, match=f"{name} of 'a->b': expected a learnable delay, got 2"
        ):
            getattr(view, name)


def test_data_with_a_bad_learnable_delay_names_the_place():
    data = line(LearnableDelay(1, 3)).to_dict()
    data["connections"][0]["delay"]["maximum"] = 0
    with pytest.raises(ValueError, match=r"connections\[0\].delay: .*maximum: expected at least 2"):
        spec_from_dict(data)
