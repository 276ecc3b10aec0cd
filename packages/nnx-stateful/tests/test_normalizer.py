"""Normalizer and the merge of moments, against NumPy."""

import functools
from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from flax.core import FrozenDict
from hypothesis import given
from hypothesis import strategies as st
from nnx_stateful import (
    Delay,
    Normalizer,
    NormalizerStatistics,
    Sequential,
    counting_only,
    initial_state,
)
from nnx_stateful.testing import check_stateful_module

RANDOM = np.random.default_rng(0)
update = nnx.jit(Normalizer.update_statistics)


def rollouts(*sizes, features=3):
    """Rollouts (T, B, F) whose features differ in mean and scale."""
    scale, mean = np.array([0.1, 1.0, 30.0]), np.array([100.0, 0.0, -5.0])
    return [
        jnp.asarray(RANDOM.standard_normal((*size, features)) * scale + mean, jnp.float32)
        for size in sizes
    ]


def test_statistics_after_several_rollouts_equal_numpy():
    norm = Normalizer(3)
    parts = rollouts((4, 5), (2, 50), (1, 1))
    for xs in parts:
        norm.update_statistics(norm.unroll((), xs).rollout_extras)
    everything = np.concatenate([np.asarray(xs, np.float64).reshape((-1, 3)) for xs in parts])
    assert norm.sample_count == 121
    np.testing.assert_allclose(norm.mean[...], everything.mean(axis=0), rtol=1e-5, atol=1e-4)
    variance = norm.M2[...] / norm.sample_count
    np.testing.assert_allclose(variance, everything.var(axis=0), rtol=1e-3)


def test_output_is_standardized_by_what_was_seen():
    norm = Normalizer(3)
    (xs,) = rollouts((20, 20))
    norm.update_statistics(xs)
    out = np.asarray(norm.unroll((), xs).output)
    np.testing.assert_allclose(out.mean(axis=(0, 1)), 0, atol=2e-3)
    np.testing.assert_allclose(out.std(axis=(0, 1)), 1, atol=2e-3)


def test_input_passes_divided_by_a_constant_before_the_first_update():
    x = jnp.array([[1.0, -20.0]])
    np.testing.assert_allclose(Normalizer(2)((), x).output, x / 10)
    np.testing.assert_allclose(Normalizer(2, initial_std=1.0)((), x).output, x)


def test_clip_bounds_the_output():
    x = jnp.array([[1.0, -2000.0]])
    assert Normalizer(2, clip=5.0)((), x).output.tolist() == [[pytest.approx(0.1), -5.0]]


def test_constant_feature_gives_finite_output():
    norm = Normalizer(1)
    norm.update_statistics(jnp.ones((4, 4, 1)))
    assert norm((), jnp.ones((1, 1))).output.tolist() == [[0.0]]
    assert np.isfinite(norm((), jnp.zeros((1, 1))).output).all()


def test_extras_are_the_input_itself():
    x = {"b": jnp.ones((2, 1)), "a": jnp.ones((2, 3))}
    extras = Normalizer({"a": 3, "b": 1})((), x).rollout_extras
    assert extras["a"] is x["a"]
    assert extras["b"] is x["b"]


def test_statistics_are_no_parameters():
    norm = Normalizer({"a": 3})
    assert not jax.tree.leaves(nnx.state(norm, nnx.Param))
    assert len(jax.tree.leaves(nnx.state(norm, NormalizerStatistics))) == 5


def test_calling_does_not_change_statistics():
    norm = Normalizer(3)
    before = norm.mean[...]
    norm((), jnp.ones((2, 3)))
    assert norm.mean[...] is before
    assert norm.sample_count == 0


def test_count_stays_exact_beyond_32_bits():
    norm = Normalizer(1)
    norm.counter.set_value(jnp.array([0, 2**32 - 1], jnp.uint32))
    norm.mean[...] = jnp.array([4.0])
    norm.update_statistics(jnp.full((2, 3, 1), 4.0))
    assert norm.sample_count == 2**32 + 5
    assert norm.mean[...].tolist() == [4.0]


@given(
    values=st.lists(st.floats(-100, 100, width=32), min_size=6, max_size=6),
    offset=st.sampled_from([0.0, 1000.0]),
)
def test_merge_order_does_not_matter(values, offset):
    xs = jnp.asarray(values, jnp.float32).reshape((3, 2, 1)) + offset
    forth, back = Normalizer(1), Normalizer(1)
    for norm, order in ((forth, (0, 1, 2)), (back, (2, 1, 0))):
        for step in order:
            update(norm, xs[step : step + 1])
    scale = np.asarray(xs).std() + 1e-3 * abs(offset) + 1e-3
    np.testing.assert_allclose(forth.mean[...], back.mean[...], atol=1e-3 * scale)
    np.testing.assert_allclose(forth.M2[...], back.M2[...], atol=6e-2 * scale**2, rtol=1e-3)


def test_update_compiles():
    norm = Normalizer({"a": 3, "b": ()})

    @nnx.jit
    def update(norm, extras):
        norm.update_statistics(extras)

    update(norm, {"a": jnp.ones((4, 5, 3)), "b": jnp.ones((4, 5))})
    assert norm.sample_count == 20


def test_steps_left_out_leave_the_statistics_alone():
    norm = Normalizer({"a": 3, "b": ()})
    (xs,) = rollouts((6, 5))
    mask = jnp.asarray(RANDOM.random((6, 5)) < 0.5)

    @nnx.jit
    def update(norm, xs, mask):
        with counting_only(mask):
            Sequential([norm]).update_statistics({"0": {"a": xs, "b": xs[..., 0]}})

    update(norm, jnp.where(mask[..., None], xs, jnp.nan), mask)
    counted = np.asarray(xs)[np.asarray(mask)]
    assert norm.sample_count == len(counted)
    np.testing.assert_allclose(norm.mean.get_value()["a"], counted.mean(axis=0), rtol=1e-4)
    m2 = counted.var(axis=0) * len(counted)
    np.testing.assert_allclose(norm.M2.get_value()["a"], m2, rtol=1e-3)


def test_rollout_of_which_no_step_counts_changes_nothing():
    norm = Normalizer(1)
    with counting_only(jnp.zeros((2, 3), bool)):
        norm.update_statistics(jnp.ones((2, 3, 1)))
    assert (norm.sample_count, norm.mean[...].tolist(), norm.M2[...].tolist()) == (0, [0], [0])
    norm.update_statistics(jnp.ones((2, 3, 1)))
    assert norm.sample_count == 6


def test_normalizer_behind_a_delay_sees_delayed_inputs():
    net = Sequential([Delay(jnp.zeros(1), 2), Normalizer(1)])
    xs = jnp.arange(1.0, 5.0).reshape((4, 1, 1))
    net.update_statistics(net.unroll(initial_state(net, 1), xs).rollout_extras)
    assert net[1].mean[...].tolist() == [pytest.approx((0 + 0 + 1 + 2) / 4)]


# ---- values that are not finite ----------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e25, -3e38, 2e15])
@pytest.mark.parametrize("compiled", [False, True])
def test_unusable_value_leaves_its_sample_out_of_all_leaves(bad, compiled):
    norm, clean = Normalizer({"a": 3, "b": ()}, clip=5.0), Normalizer({"a": 3, "b": ()})
    (xs,) = rollouts((6, 5))
    fold = update if compiled else Normalizer.update_statistics
    fold(norm, {"a": xs, "b": xs[..., 0].at[2, 3].set(bad)})
    with counting_only(jnp.ones((6, 5), bool).at[2, 3].set(False)):
        clean.update_statistics({"a": xs, "b": xs[..., 0]})
    assert norm.sample_count == clean.sample_count == 29
    for name in ("mean", "M2"):
        got, wanted = getattr(norm, name).get_value(), getattr(clean, name).get_value()
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), got, wanted)
    out = norm((), {"a": jnp.full((1, 3), bad), "b": jnp.full(1, bad)}).output
    bounded = jax.tree.map(lambda leaf: bool((jnp.abs(leaf) == 5.0).all()), out)
    assert all(jax.tree.leaves(bounded)) != np.isnan(bad)


def test_values_up_to_the_bound_keep_the_statistics_finite():
    norm = Normalizer(1)
    for _ in range(3):
        norm.update_statistics(1e15 * jnp.array([1.0, -1.0] * 500).reshape((50, 20, 1)))
    assert norm.sample_count == 3000
    assert float(norm.std[0]) == pytest.approx(1e15, rel=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_inputs_are_summed_in_float32(dtype):
    norm = Normalizer(1)
    xs = jnp.array([60000.0, -60000.0, jnp.inf, jnp.nan], dtype).reshape((4, 1, 1))
    norm.update_statistics(xs)
    assert norm.sample_count == 2
    assert float(norm.std[0]) == pytest.approx(60000.0, rel=4e-3)


def test_sum_that_overflows_leaves_all_statistics_as_they_were():
    norm = Normalizer({"a": 1, "b": 1})
    x = jnp.array([1.0, 2.0]).reshape((2, 1, 1))
    norm.update_statistics({"a": x, "b": x})
    norm.M2.set_value({"a": jnp.array([np.finfo(np.float32).max]), "b": jnp.array([0.5])})
    before = nnx.state(norm)
    wide = jnp.where(jnp.arange(100) % 2, 9e14, -9e14).reshape((-1, 1, 1))
    norm.update_statistics({"a": wide, "b": jnp.ones((100, 1, 1))})
    assert np.isfinite(norm.std["a"]).all()
    jax.tree.map(np.testing.assert_array_equal, before, nnx.state(norm))


# ---- very many samples --------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2**36, 2**47])
def test_variance_follows_after_very_many_samples(count):
    """1,000 updates with another mean and standard deviation, against exact integers."""
    batch, updates = 2**16, 1000
    norm = Normalizer(1)
    norm.counter.set_value(jnp.array(divmod(count, 2**32), jnp.uint32))
    norm.M2.set_value(jnp.array([float(count)]))
    xs = jnp.where(jnp.arange(batch) % 2, 3.0 + 3.1, 3.0 - 3.1).astype(jnp.float32)
    graphdef, start = nnx.split(norm)

    @jax.jit
    def run(state):
        def update(_, state):
            one = nnx.merge(graphdef, state)
            one.update_statistics(xs.reshape((-1, 1, 1)))
            return nnx.state(one)

        return jax.lax.fori_loop(0, updates, update, state)

    nnx.update(norm, run(start))
    low, high = np.float64(xs[0]), np.float64(xs[1])
    old, new = count, batch * updates
    assert norm.sample_count == old + new
    mean = new * (low + high) / 2 / (old + new)
    square = (old + new * (low**2 + high**2) / 2) / (old + new)
    exact = np.sqrt(square - mean**2)
    assert float(norm.std[0]) == pytest.approx(exact, rel=1e-7)
    assert float(norm.mean[0]) == pytest.approx(mean, rel=1e-6)
    deviations = np.float64(norm.M2[0]) + np.float64(norm.M2_low[0]) - old
    assert deviations == pytest.approx((square - mean**2) * (old + new) - old, rel=1e-4)


def test_mean_and_variance_are_unchanged_in_distribution_by_the_second_float():
    """What the first float holds is the rounded sum: the second one is below half a unit of it."""
    norm = Normalizer(3)
    for xs in rollouts((4, 5), (2, 50), (30, 11)):
        norm.update_statistics(xs)
    for high, low in ((norm.mean, norm.mean_low), (norm.M2, norm.M2_low)):
        assert (np.abs(low[...]) <= np.spacing(np.abs(np.asarray(high[...]))) / 2).all()
        assert np.abs(low[...]).any()


@pytest.mark.parametrize("kind", [FrozenDict, OrderedDict, dict])
def test_any_mapping_is_taken_as_shape_and_as_input(kind):
    norm = Normalizer(kind({"b": 2, "a": kind({"c": (1, 2)})}))
    x = kind({"b": jnp.ones((3, 2)), "a": kind({"c": jnp.ones((3, 1, 2))})})
    out = norm((), x)
    assert type(out.output) is dict
    assert out.output["a"]["c"].shape == (3, 1, 2)


def test_shape_tree_of_tuples_and_lists_is_taken():
    norm = Normalizer([2, ((3,), ())])
    x = [jnp.ones((4, 2)), (jnp.ones((4, 3)), jnp.ones(4))]
    assert jax.tree.structure(norm((), x).output) == jax.tree.structure(x)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"pose": jnp.ones((2, 4))}, r"\(B, 3\) at input\['pose'\], got \(2, 4\)"),
        ({"pos": jnp.ones((2, 3))}, r"no entry input\['pose'\]; it has \[.*'pos'.*\], and"),
        ({"pose": jnp.ones((2, 3)), "eye": jnp.ones((2, 1))}, r"an entry input\['eye'\] that"),
        (jnp.ones((2, 3)), r"input has no entry input\['pose'\]; it has \['input'\]"),
        ({"pose": jnp.ones(3)}, r"expected shape \(B, 3\) at input\['pose'\], got \(3,\)"),
    ],
)
def test_input_unlike_the_shape_tree_raises_naming_the_path(x, message):
    with pytest.raises(ValueError, match=message):
        Normalizer({"pose": 3})((), x)


def test_extras_unlike_the_shape_tree_raise():
    with pytest.raises(ValueError, match=r"expected shape \(T, B, 3\) at input, got \(5, 3\)"):
        Normalizer(3).update_statistics(jnp.ones((5, 3)))


@pytest.mark.parametrize("shape", [2.0, {"a": "3"}, None, True])
def test_shape_that_is_no_shape_raises(shape):
    with pytest.raises(TypeError, match=r"Normalizer: shape.*: expected an int, a tuple of ints"):
        Normalizer(shape)


@pytest.mark.parametrize("option", ["clip", "epsilon", "initial_std"])
def test_option_that_is_not_positive_raises(option):
    with pytest.raises(ValueError, match=f"Normalizer: {option}: expected a positive number, got"):
        Normalizer(3, **{option: float("nan")})


def test_normalizer_in_float64_keeps_the_laws():
    norm = Normalizer(3)
    norm.update_statistics(rollouts((4, 5))[0])
    check_stateful_module(norm, rollouts((1, 4))[0][0], float64=True, laws=[1, 6, 7])


@pytest.mark.parametrize("shape", [{}, [], {"a": {}}])
def test_shape_without_any_shape_raises(shape):
    with pytest.raises(ValueError, match="Normalizer: shape: expected at least one shape, got"):
        Normalizer(shape)


@pytest.mark.parametrize("shape", [-1, (2, -1)])
def test_negative_size_raises(shape):
    with pytest.raises(ValueError, match=r"shape\['a'\]: expected an int of at least 0, got -1"):
        Normalizer({"a": shape})
