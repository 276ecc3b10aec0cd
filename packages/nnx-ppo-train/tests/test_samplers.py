"""What holds for every sampler: laws, noise, replay, mode, and input that is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_ppo_train import NormalTanhSampler
from nnx_stateful import initial_state, rekey_noise, reset_rows
from nnx_stateful.testing import check_stateful_module

from ._samplers import SAMPLERS, compiled

B, T = 3, 4

CLASSES = ["normal", "tanh", "beta", "categorical", "multi", "bernoulli"]

every_sampler = pytest.mark.parametrize("name", SAMPLERS)
every_class = pytest.mark.parametrize("name", CLASSES)


def build(name, **options):
    return SAMPLERS[name].build(nnx.Rngs(0), **options)


def step(name, inputs, extras=None):
    return compiled(SAMPLERS[name].build)(inputs, extras)


@pytest.mark.fast("tanh", "categorical", "multi, masked")
@every_sampler
def test_sampler_keeps_the_laws(name):
    row, sampler = SAMPLERS[name], build(name, entropy_weight=0.1)
    laws = [5, 6] if row.masked else None  # the sampler itself is another row
    check_stateful_module(sampler, row.inputs(B), steps=3, laws=laws)


@every_sampler
def test_actions_lie_where_the_environment_takes_them(name):
    inputs = SAMPLERS[name].inputs(B)
    wide = jax.tree.map(lambda leaf: leaf if leaf.dtype == bool else 1e3 * leaf, inputs)
    action = step(name, wide).output["action"]
    if SAMPLERS[name].discrete:
        assert action.dtype == jnp.int32
        assert ((action >= 0) & (action < 4)).all()
    elif name != "normal":
        assert (np.abs(action) <= 1).all()


# ---- extreme parameters -------------------------------------------------------------------------

EXTREMES = (-1e4, -300.0, -20.0, 0.0, 20.0, 300.0, 1e4)


def extreme_inputs(row, dtype):
    """Rows of parameters that combine extremes at random; the first ones have all the same."""
    random = np.random.default_rng(0)
    drawn = random.choice(EXTREMES, (25, row.width))
    same = np.tile(np.array(EXTREMES)[:, None], (1, row.width))
    params = jnp.asarray(np.concatenate([same, drawn]), dtype)
    if not row.masked:
        return params
    return {"params": params, "mask": jnp.asarray(row.inputs(len(params))["mask"])}


@pytest.mark.fast("*-bfloat16")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("name", ["tanh, quadrature", "categorical, masked", *CLASSES])
def test_likelihoods_and_gradients_are_finite_for_extreme_parameters(name, dtype):
    sampler = build(name, entropy_weight=0.1)
    inputs = extreme_inputs(SAMPLERS[name], dtype)
    state = initial_state(sampler, jax.tree.leaves(inputs)[0].shape[0])

    @jax.jit
    def both(inputs, extras):
        def total(inputs):
            out = sampler(state, inputs, extras)
            loss = out.output["log_likelihood"].sum() + out.regularization_loss.sum()
            return loss, out

        grads, out = jax.grad(total, has_aux=True, allow_int=True)(inputs)
        return out, jax.tree.leaves(grads)[-1]

    drawn = jax.jit(sampler)(state, inputs).rollout_extras
    for shift in (0, 1, 9):  # of its own draws, and of those of other parameters
        extras = jax.tree.map(lambda leaf, by=shift: jnp.roll(leaf, by, axis=0), drawn)
        out, gradient = both(inputs, extras)
        assert np.isfinite(out.output["log_likelihood"]).all()
        assert np.isfinite(out.metrics["entropy"]).all()
        if dtype != "float16" or shift == 0:  # else its range is too small for the true gradient
            assert np.isfinite(np.asarray(gradient, np.float32)).all()
        assert out.output["log_likelihood"].dtype == jnp.float32


# ---- noise -----------------------------------------------------------------------------------


@pytest.mark.fast("tanh", "categorical")
@every_class
def test_rows_steps_and_runs_draw_different_noise(name):
    sampler = build(name)
    xs = jnp.zeros((40, B, SAMPLERS[name].width))
    run = jax.jit(lambda state: sampler.unroll(state, xs))
    state = initial_state(sampler, B)
    action = np.asarray(run(state).output["action"])
    again = np.asarray(run(rekey_noise(state, jax.random.key(5))).output["action"])
    assert not np.array_equal(action, again)
    assert not np.array_equal(action[:, 0], action[:, 1])
    assert not np.array_equal(action[:20], action[20:])


@every_class
def test_episode_end_does_not_repeat_noise(name):
    sampler = build(name)
    state = initial_state(sampler, B)
    after = reset_rows(sampler, state.advance(1), jnp.ones(B, bool))
    assert after.count.tolist() == [1] * B


# ---- replay ----------------------------------------------------------------------------------

RANDOM = ("random_bits", "threefry", "random_fold_in")


def jaxpr_of(name, sampler, extras):
    state = initial_state(sampler, B)
    call = jax.make_jaxpr(lambda inputs, extras: sampler(state, inputs, extras))
    return str(call(SAMPLERS[name].inputs(B), extras))


@every_class
def test_replay_draws_nothing(name):
    sampler = build(name)
    extras = step(name, SAMPLERS[name].inputs(B)).rollout_extras
    assert any(word in jaxpr_of(name, sampler, None) for word in RANDOM)
    assert not any(word in jaxpr_of(name, sampler, extras) for word in RANDOM)


@every_class
def test_replay_reproduces_bit_for_bit(name):
    inputs = SAMPLERS[name].inputs(B)
    drawn = step(name, inputs)
    replayed = step(name, inputs, drawn.rollout_extras)
    jax.tree.map(np.testing.assert_array_equal, without_keys(drawn), without_keys(replayed))


@every_class
def test_replay_with_new_parameters_keeps_the_action(name):
    drawn = step(name, SAMPLERS[name].inputs(B))
    replayed = step(name, SAMPLERS[name].inputs(B, seed=1), drawn.rollout_extras)
    np.testing.assert_array_equal(drawn.output["action"], replayed.output["action"])
    assert not np.allclose(drawn.output["log_likelihood"], replayed.output["log_likelihood"])


@pytest.mark.fast("tanh")
@pytest.mark.parametrize("name", ["normal", "tanh", "beta"])
def test_no_gradient_flows_through_the_action(name):
    """PPO differentiates the likelihood of a given action, also where it was just drawn."""
    inputs = SAMPLERS[name].inputs(B)
    gradient = jax.grad(lambda inputs: step(name, inputs).output["action"].sum())(inputs)
    assert not np.any(gradient)


@pytest.mark.fast("tanh", "categorical")
@every_class
def test_unroll_equals_stepping_bit_for_bit(name):
    sampler = build(name)
    xs, state = SAMPLERS[name].inputs(T, B), initial_state(sampler, B)
    advance = jax.jit(lambda state, x: sampler(state, x))
    unrolled = jax.jit(lambda state, xs: sampler.unroll(state, xs))(state, xs)
    for t in range(T):
        out = advance(state, jax.tree.map(lambda leaf, t=t: leaf[t], xs))
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


@every_sampler
def test_deterministic_view_gives_the_mode(name):
    row, sampler = SAMPLERS[name], build(name)
    view = nnx.view(sampler, deterministic=True)
    inputs = row.inputs(T, B)
    out = jax.jit(view.unroll)(initial_state(sampler, B), inputs)
    np.testing.assert_allclose(out.output["action"], row.expected_mode(inputs), atol=1e-6)
    assert np.isfinite(out.output["log_likelihood"]).all()
    assert not sampler.deterministic
    assert not any(word in jaxpr_of(name, view, None) for word in RANDOM)


def test_eval_gives_the_mode_and_train_takes_it_back():
    sampler, row = NormalTanhSampler(nnx.Rngs(0)), SAMPLERS["tanh"]
    state, params = initial_state(sampler, B), row.inputs(B)
    drawn = sampler(state, params).output["action"]
    sampler.eval()
    np.testing.assert_allclose(sampler(state, params).output["action"], row.mode(params), rtol=1e-6)
    sampler.train()
    np.testing.assert_array_equal(sampler(state, params).output["action"], drawn)


# ---- bad input -------------------------------------------------------------------------------


@every_class
def test_input_that_is_no_vector_per_row_is_refused(name):
    sampler, width = build(name), SAMPLERS[name].width
    state = initial_state(sampler, B)
    for shape in [(B, 0), (B,), (B, 2, width)]:
        with pytest.raises(ValueError, match=r"Sampler: expected .* of shape \(B, F\), got"):
            sampler(state, jnp.zeros(shape))
    with pytest.raises(ValueError, match=rf"of shape \(T, B, F\), got \(3, {width}\)"):
        sampler.unroll(state, jnp.zeros((B, width)))


@every_class
def test_dict_input_is_refused_with_its_entries(name):
    sampler, row = build(name), SAMPLERS[name]
    inputs = {"params": row.inputs(B), "value": jnp.zeros(B)}
    with pytest.raises(TypeError, match=r"got a dict with \['params', 'value'\]; pick the entry"):
        sampler(initial_state(sampler, B), inputs)


@every_class
def test_input_that_is_no_array_is_refused(name):
    sampler = build(name)
    with pytest.raises(TypeError, match=r"expected an array of distribution .*got a tuple; pick"):
        sampler(initial_state(sampler, B), (jnp.zeros((B, 4)),))


@every_class
@pytest.mark.parametrize(
    ("weight", "error", "match"),
    [
        (-0.1, ValueError, r"Sampler\.entropy_weight: .* at least 0.0, got -0.1"),
        (float("nan"), ValueError, r"Sampler\.entropy_weight: .* got nan"),
        ("0.1", TypeError, r"Sampler\.entropy_weight: expected a number"),
    ],
)
def test_bad_entropy_weight_is_refused(name, weight, error, match):
    with pytest.raises(error, match=match):
        build(name, entropy_weight=weight)
