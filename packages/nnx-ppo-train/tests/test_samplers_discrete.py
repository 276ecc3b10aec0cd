"""The discrete samplers: probabilities, entropies, masks, gradients, and what is refused."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from flax import nnx
from nnx_ppo_train import BernoulliSampler, CategoricalSampler, MultiCategoricalSampler
from nnx_stateful import initial_state

from ._samplers import SAMPLERS, compiled

SIZES = (2, 3)
WIDTH = {"categorical": 5, "multi": 5, "bernoulli": 5}
by_name = pytest.mark.parametrize("name", WIDTH)


def every_action(name):
    """All actions for parameters of width 5."""
    choices = {
        "categorical": range(5),
        "multi": itertools.product(range(2), range(3)),
        "bernoulli": itertools.product((0, 1), repeat=5),
    }
    return np.array(list(choices[name]), np.int32)


def probabilities(name, logits):
    """Probability of every action, by SciPy, in float64; a logit of -inf rules out."""
    logits = np.asarray(logits, float)
    actions = every_action(name)
    if name == "categorical":
        return scipy.special.softmax(logits)
    if name == "multi":
        first, second = scipy.special.softmax(logits[:2]), scipy.special.softmax(logits[2:])
        return first[actions[:, 0]] * second[actions[:, 1]]
    on = scipy.special.expit(logits)
    return np.where(actions == 1, on, 1.0 - on).prod(-1)


def evaluate_all(name, logits, mask=None, **options):
    """Evaluates every action under the same parameters."""
    actions = every_action(name)
    inputs = np.tile(np.asarray(logits, np.float32), (len(actions), 1))
    if mask is not None:
        inputs = {"params": inputs, "mask": np.tile(mask, (len(actions), 1))}
    return compiled(SAMPLERS[name].build, **options)(inputs, {"raw_action": actions})


LOGITS = np.array([0.3, -2.0, 0.5, 3.0, 1.0])
MASKS = [[1, 0, 0, 1, 1], [1, 1, 0, 1, 0], [0, 1, 0, 0, 1]]


@by_name
def test_probabilities_and_entropy_equal_scipy(name):
    out = evaluate_all(name, LOGITS, entropy_weight=2.0)
    expected = probabilities(name, LOGITS)
    found = np.exp(np.asarray(out.output["log_likelihood"], float))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found.sum() == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_array_equal(out.output["action"], every_action(name))
    entropy = scipy.stats.entropy(expected)
    np.testing.assert_allclose(out.metrics["entropy"], entropy, rtol=1e-5)
    np.testing.assert_allclose(out.regularization_loss, -2.0 * entropy, rtol=1e-5)


@by_name
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", [bool, np.int32, np.float32])
def test_mask_rules_out_what_it_does_not_allow(name, mask, dtype):
    out = evaluate_all(name, LOGITS, np.array(mask, dtype))
    expected = probabilities(name, np.where(mask, LOGITS, -np.inf))
    likelihood = np.asarray(out.output["log_likelihood"], float)
    assert np.isfinite(likelihood).all()
    np.testing.assert_allclose(np.exp(likelihood), expected, rtol=1e-5)
    np.testing.assert_allclose(out.metrics["entropy"], scipy.stats.entropy(expected), rtol=1e-5)


@by_name
def test_frequencies_follow_the_probabilities_under_a_mask(name):
    rows, mask = 20_000, np.array([1, 1, 0, 1, 1], bool)
    inputs = {
        "params": np.tile(np.float32(LOGITS), (rows, 1)),
        "mask": np.tile(mask, (rows, 1)),
    }
    drawn = np.asarray(compiled(SAMPLERS[name].build)(inputs).output["action"])
    same = (drawn[:, None] == every_action(name)[None]).reshape(rows, len(every_action(name)), -1)
    found = same.all(-1).mean(0)
    expected = probabilities(name, np.where(mask, LOGITS, -np.inf))
    error = np.sqrt(expected * (1 - expected) / rows)
    assert (np.abs(found - expected) <= 4 * error).all()
    assert not found[expected == 0].any()


def gradients(name, logits, action, mask=None):
    """Gradients of likelihood and entropy together, (rows, 5)."""
    sampler = SAMPLERS[name].build(nnx.Rngs(0), entropy_weight=1.0)
    action = jnp.asarray(action, jnp.int32)
    state = initial_state(sampler, action.shape[0])

    @jax.jit
    def total(logits):
        inputs = logits if mask is None else {"params": logits, "mask": mask}
        out = sampler(state, inputs, {"raw_action": action})
        return out.output["log_likelihood"].sum() + out.regularization_loss.sum()

    return jax.value_and_grad(total)(jnp.asarray(logits, jnp.float32))


@by_name
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_are_finite_at_the_bounds(name, masked):
    """Under a mask also where the stored action is one that is masked."""
    corners = np.array(list(itertools.product([-1e4, 0.0, 1e4], repeat=5)))
    rows, actions = len(corners), every_action(name)
    mask = np.tile(MASKS[1], (rows, 1)) if masked else None
    for action in (actions[0], actions[-1]):
        value, gradient = gradients(
            name, corners, np.tile(action, (rows,) + (1,) * action.ndim), mask
        )
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
        if masked:
            assert not gradient[:, [2, 4]].any()


def test_logit_of_minus_infinity_is_never_drawn():
    inputs = np.tile([0.0, -np.inf, 0.0], (200, 1))
    out = compiled(CategoricalSampler)(inputs)
    assert set(np.unique(out.output["action"])) == {0, 2}
    np.testing.assert_allclose(out.metrics["entropy"], np.log(2), rtol=1e-6)
    value, gradient = gradients("categorical", np.float32([[0, -np.inf, 1, 0, 0]]), [2])
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_switches_may_all_be_masked():
    sampler = BernoulliSampler(nnx.Rngs(0))
    inputs = {"params": jnp.ones((3, 2)), "mask": jnp.zeros((3, 2))}
    out = sampler(initial_state(sampler, 3), inputs)
    assert not out.output["action"].any()
    np.testing.assert_array_equal(out.output["log_likelihood"], np.zeros(3))
    np.testing.assert_array_equal(out.metrics["entropy"], np.zeros(3))


# ---- a mask that allows nothing --------------------------------------------------------------


@pytest.mark.parametrize("steps", [None, 2])
@pytest.mark.parametrize(
    ("name", "mask", "where"),
    [
        ("categorical", [[1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], "CategoricalSampler: mask"),
        ("multi", [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], "MultiCategoricalSampler, choice 1: mask"),
    ],
)
def test_row_that_allows_nothing_is_refused_where_it_is_seen(name, mask, where, steps):
    sampler = SAMPLERS[name].build(nnx.Rngs(0))
    state, mask = initial_state(sampler, 2), np.array(mask, bool)
    if steps is None:
        with pytest.raises(
            ValueError, match=rf"{where}: .* allowed choice, got none in row \(1,\)"
        ):
            sampler(state, {"params": np.zeros((2, 5), np.float32), "mask": mask})
        return
    masks = np.stack([np.ones_like(mask), mask])
    with pytest.raises(ValueError, match=rf"{where}: .* got none in row \(1, 1\); an environ"):
        sampler.unroll(state, {"params": np.zeros((2, 2, 5), np.float32), "mask": masks})


@pytest.mark.parametrize(
    ("name", "nothing", "as_if"),
    [
        ("categorical", [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]),
        ("multi", [1, 0, 0, 0, 0], [1, 0, 1, 1, 1]),
    ],
)
def test_choice_without_anything_allowed_counts_as_free_under_jit(name, nothing, as_if):
    got = evaluate_all(name, LOGITS, np.array(nothing, bool))
    expected = evaluate_all(name, LOGITS, np.array(as_if, bool))
    for field in ("log_likelihood", "action"):
        np.testing.assert_array_equal(got.output[field], expected.output[field])


# ---- bad input -------------------------------------------------------------------------------


def call(name, inputs):
    sampler = SAMPLERS[name].build(nnx.Rngs(0))
    return sampler(initial_state(sampler, 2), inputs)


@by_name
def test_mask_of_another_shape_is_refused(name):
    params = jnp.zeros((2, 5))
    for mask, got in ((jnp.ones(5), r"\(5,\)"), (jnp.ones((2, 4)), r"\(2, 4\)"), (True, "bool")):
        match = rf"Sampler: mask: expected .* of the parameters, \(2, 5\), got {got}; give one"
        with pytest.raises(ValueError, match=match):
            call(name, {"params": params, "mask": mask})


@by_name
def test_entries_beside_params_and_mask_are_refused(name):
    params = jnp.zeros((2, 5))
    with pytest.raises(ValueError, match=r"entries 'params' and 'mask', got one with \['mask'\]"):
        call(name, {"mask": params})
    with pytest.raises(ValueError, match=r"got one with \['mask', 'params', 'value'\]; pick them"):
        call(name, {"params": params, "mask": params, "value": params})


@by_name
def test_params_beside_a_mask_are_checked_as_well(name):
    with pytest.raises(ValueError, match=r"of shape \(B, F\), got \(5,\)"):
        call(name, {"params": jnp.zeros(5), "mask": jnp.ones(5)})
    with pytest.raises(TypeError, match=r"expected an array of distribution .*got a tuple"):
        call(name, {"params": (jnp.zeros((2, 5)),), "mask": jnp.ones(5)})


def test_width_that_is_not_the_sum_of_sizes_is_refused():
    with pytest.raises(ValueError, match=r"expected 5 features, .*\(2, 3\), got .*\(2, 4\)"):
        call("multi", jnp.zeros((2, 4)))


@pytest.mark.parametrize(
    ("sizes", "error", "match"),
    [
        ((), ValueError, "sizes: expected at least one choice, got none"),
        ((2, 0), ValueError, r"sizes\[1\]: expected a whole number of at least 1, got 0"),
        ((2, 1.5), TypeError, r"sizes\[1\]: expected a whole number"),
        (5, TypeError, r"sizes: expected the number of alternatives .* such as \(2, 3\), got 5"),
        ("23", TypeError, r"sizes: expected the number of alternatives"),
    ],
)
def test_bad_sizes_are_refused(sizes, error, match):
    with pytest.raises(error, match=rf"^MultiCategoricalSampler\.{match}"):
        MultiCategoricalSampler(sizes, nnx.Rngs(0))
