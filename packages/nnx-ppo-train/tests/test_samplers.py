"""Samplers: densities, entropies, gradients and replay, each against an independent source."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from flax import nnx
from nnx_ppo_train import CategoricalSampler, NormalSampler, NormalTanhSampler
from nnx_stateful import initial_state, rekey_noise, reset_rows
from nnx_stateful.testing import check_stateful_module

GAUSSIAN = (NormalSampler, NormalTanhSampler)
ALL = (*GAUSSIAN, CategoricalSampler)
B, T, WIDTH = 3, 4, 4

by_kind = pytest.mark.parametrize("kind", ALL)


def parameters(*lead, seed=0, width=WIDTH):
    return np.random.default_rng(seed).normal(size=(*lead, width)).astype(np.float32)


def gaussian_parameters(mean, std):
    """The input that makes a sampler with min_std 1e-6 use these means and deviations."""
    scale = np.log(np.expm1(np.asarray(std) - 1e-6))
    return np.concatenate([mean, scale], axis=-1).astype(np.float32)


@functools.cache
def compiled(kind, **options):
    """A compiled step of a sampler from its initial state: (params, extras) -> output."""
    sampler = kind(nnx.Rngs(0), **options)

    @jax.jit
    def step(params, extras=None):
        return sampler(sampler.initialize_state(params.shape[0]), params, extras)

    return step


def evaluate(kind, mean, std, raw_action, noise=None, **options):
    """Evaluates raw actions (B, A) under one mean and deviation (A,)."""
    rows = raw_action.shape[0]
    params = np.tile(gaussian_parameters(mean, std), (rows, 1))
    extras = {"raw_action": raw_action, "noise": np.zeros_like(raw_action)}
    if noise is not None:
        extras["noise"] = noise
    return compiled(kind, min_std=1e-6, **options)(params, extras)


@by_kind
def test_sampler_keeps_the_laws(kind):
    check_stateful_module(kind(nnx.Rngs(0), entropy_weight=0.1), parameters(B), steps=3)


# ---- densities -------------------------------------------------------------------------------


def test_normal_log_density_equals_scipy():
    raw = parameters(50, width=2, seed=1) * 3
    mean, std = np.array([0.3, -2.0]), np.array([0.05, 4.0])
    expected = scipy.stats.norm.logpdf(np.asarray(raw, float), mean, std).sum(-1)
    got = evaluate(NormalSampler, mean, std, raw)
    np.testing.assert_allclose(got.output["log_likelihood"], expected, rtol=1e-4)
    np.testing.assert_array_equal(got.output["action"], raw)


def test_tanh_log_density_equals_the_change_of_variables():
    raw = parameters(50, width=2, seed=1)
    mean, std = np.array([0.3, -1.0]), np.array([0.1, 2.0])
    z = np.asarray(raw, float)
    action = np.tanh(z)
    expected = scipy.stats.norm.logpdf(np.arctanh(action), mean, std) - np.log(1 - action**2)
    got = evaluate(NormalTanhSampler, mean, std, raw)
    np.testing.assert_allclose(got.output["log_likelihood"], expected.sum(-1), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(got.output["action"], action, atol=1e-6)


def grid(mean, std, rows=4001):
    return np.linspace(mean - 8 * std, mean + 8 * std, rows, dtype=np.float32)[:, None]


def actions_of(kind, raw):
    z = np.asarray(raw[:, 0], float)
    return z if kind is NormalSampler else np.tanh(z)


@pytest.mark.parametrize("std", [0.02, 0.7, 2.0])
@pytest.mark.parametrize("kind", GAUSSIAN)
def test_density_integrates_to_one(kind, std):
    raw = grid(0.5, std)
    density = np.exp(evaluate(kind, [0.5], [std], raw).output["log_likelihood"])
    total = np.trapezoid(np.asarray(density, float), actions_of(kind, raw))
    assert total == pytest.approx(1.0, abs=2e-3)


def test_categorical_probabilities_equal_softmax():
    logits = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
    extras = {"raw_action": np.arange(4, dtype=np.int32)}
    out = compiled(CategoricalSampler)(np.tile(logits, (4, 1)), extras).output
    expected = scipy.special.softmax(np.asarray(logits, float))
    np.testing.assert_allclose(np.exp(out["log_likelihood"]), expected, rtol=1e-5)
    np.testing.assert_array_equal(out["action"], np.arange(4))


def test_std_is_scaled_and_bounded_below():
    step = compiled(NormalSampler, min_std=0.25, std_scale=2.0)
    sigma = step(np.array([[0.0, -1e4], [0.0, 0.0]])).metrics["sigma"][:, 0]
    np.testing.assert_allclose(sigma, [0.5, 2 * (np.log(2) + 0.25)], rtol=1e-6)


# ---- entropies -------------------------------------------------------------------------------


def test_normal_entropy_equals_scipy():
    std = np.array([0.05, 4.0])
    out = evaluate(NormalSampler, np.zeros(2), std, np.zeros((1, 2)), entropy_weight=0.5)
    expected = scipy.stats.norm.entropy(0, std).sum()
    np.testing.assert_allclose(out.metrics["entropy"], [expected], rtol=1e-5)
    np.testing.assert_allclose(out.regularization_loss, [-0.5 * expected], rtol=1e-5)


def test_categorical_entropy_equals_scipy():
    logits = parameters(5)
    out = compiled(CategoricalSampler, entropy_weight=2.0)(logits)
    probabilities = scipy.special.softmax(np.asarray(logits, float), axis=-1)
    expected = scipy.stats.entropy(probabilities, axis=-1)
    np.testing.assert_allclose(out.metrics["entropy"], expected, rtol=1e-5)
    np.testing.assert_allclose(out.regularization_loss, -2 * expected, rtol=1e-5)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.3), (0.7, 1.0), (-1.0, 2.5)])
def test_tanh_entropy_estimate_averages_to_the_integral(mean, std):
    """Over all standard normal noise the estimate must average to -integral of p log p."""
    raw = grid(mean, std)
    density = np.asarray(
        evaluate(NormalTanhSampler, [mean], [std], raw).output["log_likelihood"], float
    )
    action = actions_of(NormalTanhSampler, raw)
    expected = -np.trapezoid(np.exp(density) * density, action)

    noise = grid(0.0, 1.0)
    out = evaluate(NormalTanhSampler, [mean], [std], np.zeros_like(noise), noise)
    z = np.asarray(noise[:, 0], float)
    weights = scipy.stats.norm.pdf(z) * (z[1] - z[0])
    assert (weights * out.metrics["entropy"]).sum() == pytest.approx(expected, abs=5e-3)


def test_tanh_entropy_estimate_does_not_depend_on_the_stored_action():
    """The noise of the rollout is used, not the action: parameters have changed since."""
    noise = parameters(B, width=1)
    outs = [
        evaluate(NormalTanhSampler, [0.2], [1.0], np.full((B, 1), raw), noise) for raw in (0.0, 2.0)
    ]
    np.testing.assert_array_equal(*(out.metrics["entropy"] for out in outs))


# ---- extremes --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GAUSSIAN)
def test_gaussian_gradients_are_finite_at_the_bounds(kind):
    sampler = kind(nnx.Rngs(0), entropy_weight=1.0)
    extreme, raws = np.array([-1e4, -60.0, 0.0, 60.0, 1e4]), [-1e3, -10.0, 0.0, 10.0, 1e3]
    corners = np.stack(np.meshgrid(extreme, extreme, raws, [-5.0, 5.0]), axis=-1).reshape(-1, 4)
    params, raw_action, noise = jnp.split(jnp.asarray(corners, jnp.float32), (2, 3), axis=-1)
    state = sampler.initialize_state(corners.shape[0])

    @jax.value_and_grad
    def loss(params):
        out = sampler(state, params, {"raw_action": raw_action, "noise": noise})
        return out.output["log_likelihood"].sum() + out.regularization_loss.sum()

    value, gradient = loss(params)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_categorical_gradients_are_finite_at_the_bounds():
    sampler = CategoricalSampler(nnx.Rngs(0), entropy_weight=1.0)
    params = jnp.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [0.0, -jnp.inf, 1.0]])
    state = sampler.initialize_state(3)

    def loss(params, action):
        out = sampler(state, params, {"raw_action": action})
        return out.output["log_likelihood"].sum() + out.regularization_loss.sum()

    value, gradient = jax.value_and_grad(loss)(params, jnp.array([1, 0, 2]))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_categorical_never_draws_what_is_ruled_out():
    out = compiled(CategoricalSampler)(np.tile([0.0, -np.inf, 0.0], (200, 1)))
    assert set(np.unique(out.output["action"])) == {0, 2}
    np.testing.assert_allclose(out.metrics["entropy"], np.log(2), rtol=1e-6)


@by_kind
def test_actions_lie_where_the_environment_takes_them(kind):
    action = compiled(kind)(1e3 * parameters(B)).output["action"]
    if kind is CategoricalSampler:
        assert action.dtype == jnp.int32
        assert ((action >= 0) & (action < WIDTH)).all()
    elif kind is NormalTanhSampler:
        assert (np.abs(action) <= 1).all()


# ---- drawing ---------------------------------------------------------------------------------


def test_categorical_frequencies_follow_the_probabilities():
    rows = 20_000
    logits = np.array([1.0, 0.0, -1.0, -3.0])
    out = compiled(CategoricalSampler)(np.tile(logits, (rows, 1)))
    counts = np.bincount(out.output["action"], minlength=4)
    expected = scipy.special.softmax(np.asarray(logits, float))
    error = np.sqrt(expected * (1 - expected) / rows)
    assert (np.abs(counts / rows - expected) < 4 * error).all()


@pytest.mark.parametrize("kind", GAUSSIAN)
def test_gaussian_draws_follow_the_distribution(kind):
    rows = 20_000
    out = compiled(kind, min_std=1e-6)(np.tile(gaussian_parameters([0.5], [1.5]), (rows, 1)))
    z = np.asarray(out.output["action"][:, 0], float)
    if kind is NormalTanhSampler:
        z = np.arctanh(np.clip(z, -1 + 1e-7, 1 - 1e-7))
    assert scipy.stats.kstest(z, scipy.stats.norm(0.5, 1.5).cdf).pvalue > 1e-4


@by_kind
def test_rows_steps_and_runs_draw_different_noise(kind):
    sampler = kind(nnx.Rngs(0))
    run = jax.jit(lambda state: sampler.unroll(state, jnp.zeros((40, B, WIDTH))))
    state = initial_state(sampler, B)
    action = np.asarray(run(state).output["action"])
    again = np.asarray(run(rekey_noise(state, jax.random.key(5))).output["action"])
    assert not np.array_equal(action, again)
    assert not np.array_equal(action[:, 0], action[:, 1])
    assert not np.array_equal(action[:20], action[20:])


@by_kind
def test_episode_end_does_not_repeat_noise(kind):
    sampler = kind(nnx.Rngs(0))
    state = initial_state(sampler, B)
    after = reset_rows(sampler, state.advance(1), jnp.ones(B, bool))
    assert after.count.tolist() == [1] * B


# ---- replay ----------------------------------------------------------------------------------


def jaxpr_of(sampler, extras):
    state = initial_state(sampler, B)
    return str(jax.make_jaxpr(lambda p, e: sampler(state, p, e))(parameters(B), extras))


RANDOM = ("random_bits", "threefry", "random_fold_in")


@by_kind
def test_replay_draws_nothing(kind):
    sampler = kind(nnx.Rngs(0))
    out = compiled(kind)(parameters(B))
    assert any(name in jaxpr_of(sampler, None) for name in RANDOM)
    assert not any(name in jaxpr_of(sampler, out.rollout_extras) for name in RANDOM)


@by_kind
def test_replay_reproduces_bit_for_bit(kind):
    step = compiled(kind)
    drawn = step(parameters(B))
    replayed = step(parameters(B), drawn.rollout_extras)
    jax.tree.map(np.testing.assert_array_equal, without_keys(drawn), without_keys(replayed))


@by_kind
def test_replay_with_new_parameters_keeps_the_action(kind):
    drawn = compiled(kind)(parameters(B))
    replayed = compiled(kind)(parameters(B, seed=1), drawn.rollout_extras)
    np.testing.assert_array_equal(drawn.output["action"], replayed.output["action"])
    assert not np.allclose(drawn.output["log_likelihood"], replayed.output["log_likelihood"])


@pytest.mark.parametrize("kind", GAUSSIAN)
def test_no_gradient_flows_through_the_action(kind):
    """PPO differentiates the likelihood of a given action, also where it was just drawn."""
    gradient = jax.grad(lambda p: compiled(kind)(p).output["action"].sum())(parameters(B))
    assert not np.any(gradient)


@by_kind
def test_unroll_equals_stepping_bit_for_bit(kind):
    sampler = kind(nnx.Rngs(0))
    xs, state = parameters(T, B), initial_state(sampler, B)
    step = jax.jit(lambda state, x: sampler(state, x))
    unrolled = jax.jit(lambda state, xs: sampler.unroll(state, xs))(state, xs)
    for t in range(T):
        out = step(state, xs[t])
        state = out.next_state
        np.testing.assert_array_equal(out.output["action"], unrolled.output["action"][t])
    jax.tree.map(
        np.testing.assert_array_equal, without_keys(state), without_keys(unrolled.next_state)
    )


def without_keys(tree):
    def plain(leaf):
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return jax.random.key_data(leaf) if is_key else leaf

    return jax.tree.map(plain, tree)


# ---- deterministic ---------------------------------------------------------------------------


def modes(kind, params):
    if kind is CategoricalSampler:
        return np.argmax(params, -1)
    mean = np.asarray(params)[..., : WIDTH // 2]
    return mean if kind is NormalSampler else np.tanh(mean)


@by_kind
def test_deterministic_view_gives_the_mode(kind):
    sampler = kind(nnx.Rngs(0))
    view = nnx.view(sampler, deterministic=True)
    params = parameters(T, B)
    out = view.unroll(initial_state(sampler, B), params)
    np.testing.assert_allclose(out.output["action"], modes(kind, params), rtol=1e-6)
    assert not sampler.deterministic
    assert not any(name in jaxpr_of(view, None) for name in RANDOM)


def test_eval_gives_the_mode_and_train_takes_it_back():
    sampler = NormalTanhSampler(nnx.Rngs(0))
    state, params = initial_state(sampler, B), parameters(B)
    drawn = sampler(state, params).output["action"]
    sampler.eval()
    np.testing.assert_allclose(
        sampler(state, params).output["action"], modes(NormalTanhSampler, params), rtol=1e-6
    )
    sampler.train()
    np.testing.assert_array_equal(sampler(state, params).output["action"], drawn)


# ---- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GAUSSIAN)
def test_odd_width_is_refused(kind):
    sampler = kind(nnx.Rngs(0))
    with pytest.raises(ValueError, match=rf"{kind.__name__}: expected an even number .* \(3, 5\)"):
        sampler(initial_state(sampler, B), jnp.zeros((B, 5)))


@by_kind
@pytest.mark.parametrize("shape", [(B, 0), (B,), (B, 2, 4)])
def test_input_that_is_no_vector_per_row_is_refused(kind, shape):
    sampler = kind(nnx.Rngs(0))
    with pytest.raises(ValueError, match=rf"{kind.__name__}: expected .* of shape \(B, F\), got"):
        sampler(initial_state(sampler, B), jnp.zeros(shape))


@by_kind
def test_sequence_without_time_is_refused(kind):
    sampler = kind(nnx.Rngs(0))
    with pytest.raises(ValueError, match=r"of shape \(T, B, F\), got \(3, 4\)"):
        sampler.unroll(initial_state(sampler, B), jnp.zeros((B, 4)))


@by_kind
def test_dict_input_is_refused_with_its_entries(kind):
    sampler = kind(nnx.Rngs(0))
    with pytest.raises(TypeError, match=r"got a dict with \['params', 'value'\]; pick the entry"):
        sampler(initial_state(sampler, B), {"params": jnp.zeros((B, 4)), "value": jnp.zeros(B)})


@by_kind
@pytest.mark.parametrize(
    ("weight", "error", "match"),
    [
        (-0.1, ValueError, r"Sampler\.entropy_weight: .* at least 0.0, got -0.1"),
        (float("nan"), ValueError, r"Sampler\.entropy_weight: .* got nan"),
        ("0.1", TypeError, r"Sampler\.entropy_weight: expected a number"),
    ],
)
def test_bad_entropy_weight_is_refused(kind, weight, error, match):
    with pytest.raises(error, match=match):
        kind(nnx.Rngs(0), entropy_weight=weight)


@pytest.mark.parametrize("kind", GAUSSIAN)
@pytest.mark.parametrize("name", ["min_std", "std_scale"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf")])
def test_bad_std_option_is_refused(kind, name, value):
    with pytest.raises(ValueError, match=rf"{kind.__name__}\.{name}: expected a finite number"):
        kind(nnx.Rngs(0), **{name: value})
