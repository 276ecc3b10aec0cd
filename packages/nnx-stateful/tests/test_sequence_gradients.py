"""The derivatives of their own that LSTM, GRU and LRU have over a sequence, against stepping."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given
from hypothesis import strategies as st
from jax.extend.core import jaxprs_in_params
from nnx_stateful import GRU, LRU, LSTM, RecurrentLayer, initial_state, reset_rows
from nnx_stateful.testing import done_masks, to_float64

STEPS, ROWS, FEATURES, UNITS = 5, 3, 2, 4
SOME_DONE = np.array([[0, 1, 0], [0, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]], bool)

TrainableLSTM = functools.partial(LSTM, trainable_initial_state=True)
LAYERS = {"LSTM": LSTM, "trainable LSTM": TrainableLSTM, "GRU": GRU, "LRU": LRU}
each_layer = pytest.mark.parametrize("layer", [TrainableLSTM, GRU, LRU], ids=["LSTM", "GRU", "LRU"])
each_gated_layer = pytest.mark.parametrize("layer", [TrainableLSTM, GRU], ids=["LSTM", "GRU"])


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def make(layer, seed=0, **options):
    """A layer in float64, its parameters drawn anew, so that none is zero."""
    module = to_float64(layer(FEATURES, UNITS, nnx.Rngs(seed), **options))
    values = np.random.default_rng(seed)
    nnx.update(module, jax.tree.map(lambda x: values.normal(size=x.shape), nnx.state(module)))
    return module


def arguments(module, steps=STEPS, rows=ROWS, seed=0):
    """Parameters, initial carry and inputs: all that has a gradient."""
    values = np.random.default_rng(seed)
    state = jax.tree.map(lambda x: values.normal(size=x.shape), initial_state(module, rows))
    return nnx.state(module), state, values.normal(size=(steps, rows, FEATURES))


def step_through(module, state, xs, done):
    outputs = []
    for t in range(len(xs)):
        out = module(state, xs[t])
        state = out.next_state if done is None else reset_rows(module, out.next_state, done[t])
        outputs.append(out.output)
    return state, jnp.stack(outputs)


def unroll(module, state, xs, done):
    out = module.unroll(state, xs, done)
    return out.next_state, out.output


def make_loss(run, module):
    """A loss that weighs every output and every entry of the last carry differently."""
    graphdef = nnx.graphdef(module)

    def loss(params, state, xs, done):
        results = jax.tree.leaves(run(nnx.merge(graphdef, params), state, xs, done))
        return sum(jnp.sum(jnp.sin(x + jnp.arange(x.size).reshape(x.shape))) for x in results)

    return loss


def make_gradients(run, module):
    return jax.jit(jax.value_and_grad(make_loss(run, module), argnums=(0, 1, 2)))


def assert_equal(got, expected):
    def close(a, b):
        scale = max(1.0, float(np.abs(b).max(initial=0.0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * scale)

    jax.tree.map(close, got, expected)


def assert_equals_stepping(module, done, steps=STEPS, rows=ROWS):
    inputs = arguments(module, steps, rows)
    got, expected = (make_gradients(run, module)(*inputs, done) for run in (unroll, step_through))
    assert_equal(got, expected)


# ---- values and gradients ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled():
    """For each layer its inputs, and its loss with gradients: unrolled and stepped."""
    with jax.enable_x64(True):
        modules = {name: make(layer) for name, layer in LAYERS.items()}
        return {
            name: (arguments(m), make_gradients(unroll, m), make_gradients(step_through, m))
            for name, m in modules.items()
        }


@pytest.mark.parametrize("name", LAYERS)
@given(done=done_masks(STEPS, ROWS), kind=st.sampled_from([bool, np.int32, np.float64]))
def test_gradients_equal_those_of_stepping(compiled, name, done, kind):
    inputs, unrolled, stepped = compiled[name]
    done = done.astype(kind)
    assert_equal(unrolled(*inputs, done), stepped(*inputs, done))


@pytest.mark.fast("*-LSTM")
@each_layer
@pytest.mark.parametrize(
    ("steps", "rows", "done"),
    [
        (STEPS, ROWS, None),
        (1, ROWS, None),
        (STEPS, 1, SOME_DONE[:, 1:2]),
        (1, 1, np.ones((1, 1), bool)),
    ],
)
def test_gradients_equal_those_of_stepping_in_small_shapes(layer, steps, rows, done):
    assert_equals_stepping(make(layer), done, steps, rows)


@pytest.mark.fast("GRU")
@each_layer
def test_gradients_in_bfloat16_equal_those_of_stepping(layer):
    assert_equals_stepping(make(layer, compute_dtype="bfloat16"), SOME_DONE)


def swapped_softmax(x):
    return jax.nn.softmax(x, axis=-1)[..., ::-1]


@pytest.mark.fast("*-own-LSTM", "*-plain-GRU")
@each_gated_layer
@pytest.mark.parametrize(
    ("gate_fn", "activation_fn", "scans"),
    [
        (nnx.hard_sigmoid, nnx.soft_sign, "own"),
        (nnx.softplus, nnx.silu, "own"),
        (jnp.sin, nnx.tanh, "plain"),
        (nnx.sigmoid, swapped_softmax, "plain"),
    ],
)
def test_any_nonlinearity_has_the_gradients_of_stepping(layer, gate_fn, activation_fn, scans):
    module = make(layer, gate_fn=gate_fn, activation_fn=activation_fn)
    jaxpr = jax.make_jaxpr(functools.partial(unroll, module))(*arguments(module)[1:], SOME_DONE)
    assert ("custom_vjp_call" in str(jaxpr)) == (scans == "own")
    assert_equals_stepping(module, SOME_DONE)


def test_fresh_rows_alone_carry_the_gradient_of_a_trainable_initial_state():
    module = make(TrainableLSTM)
    graphdef, params = nnx.split(module)
    _, state, xs = arguments(module)
    done = jnp.zeros((STEPS, ROWS), bool).at[1, 2].set(True)

    @jax.grad
    def gradient(params, row):
        return nnx.merge(graphdef, params).unroll(state, xs, done).output[2:, row].sum()

    assert not gradient(params, 0)["initial_h"][...].any()
    assert gradient(params, 2)["initial_h"][...].all()
    assert gradient(params, 2)["initial_c"][...].all()


# ---- transformations -----------------------------------------------------------------------------


@pytest.mark.fast("*-LSTM")
@each_layer
@pytest.mark.parametrize("transform", [jax.vmap, lambda f: functools.partial(jax.lax.map, f)])
def test_many_seeds_at_once_equal_one_at_a_time(layer, transform):
    modules = [make(layer, seed) for seed in range(3)]
    gradients = make_gradients(unroll, modules[0])
    inputs = [(*arguments(m, seed=i), np.roll(SOME_DONE, i, 1)) for i, m in enumerate(modules)]
    stack = functools.partial(jax.tree.map, lambda *leaves: jnp.stack(leaves))
    together = jax.jit(transform(lambda inputs: gradients(*inputs)))(stack(*inputs))
    assert_equal(together, stack(*(gradients(*each) for each in inputs)))


@pytest.mark.fast("GRU")
@each_layer
def test_gradient_of_a_gradient_equals_that_of_stepping(layer):
    module = make(layer)

    def sharpness(run):
        def squared(*inputs):
            gradients = jax.grad(make_loss(run, module), argnums=(0, 1, 2))(*inputs, SOME_DONE[1:4])
            return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradients))

        return jax.jit(jax.grad(squared, argnums=(0, 1, 2)))

    inputs = arguments(module, steps=3)
    assert_equal(sharpness(unroll)(*inputs), sharpness(step_through)(*inputs))


@each_layer
def test_forward_mode_is_refused(layer):
    module = make(layer)
    _, state, xs = arguments(module)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda xs: module.unroll(state, xs).output, (xs,), (xs,))


@each_layer
def test_done_has_no_gradient(layer):
    module = make(layer)
    _, state, xs = arguments(module)
    output, pull_back = jax.vjp(lambda xs, done: unroll(module, state, xs, done)[1], xs, SOME_DONE)
    assert pull_back(output)[1].dtype == jax.dtypes.float0


# ---- subclasses ----------------------------------------------------------------------------------


class OwnCell(LSTM):
    def cell(self, carry, projected):
        (c, h), _ = super().cell(carry, projected)
        return (0.5 * c, h), h


class OwnProjection(GRU):
    def project(self, x):
        return jnp.sin(super().project(x))


class OwnFreshRow(GRU):
    def initial_row(self):
        return jnp.cos(self.bias[...][:UNITS])


class Mixin:
    def project(self, x):
        return 2.0 * RecurrentLayer.project(self, x)


class MixedIn(Mixin, LSTM):
    pass


@pytest.mark.parametrize("layer", [OwnCell, OwnProjection, OwnFreshRow, MixedIn])
def test_what_a_subclass_redefines_is_unrolled(layer):
    assert_equals_stepping(make(layer), SOME_DONE)


# ---- cost ----------------------------------------------------------------------------------------


def count_products(jaxpr, in_scan=False):
    """Counts the matrix products outside scans and inside them."""
    counts = np.zeros(2, int)
    for equation in jaxpr.eqns:
        counts[int(in_scan)] += equation.primitive.name == "dot_general"
        inside = in_scan or equation.primitive.name == "scan"
        for inner in jaxprs_in_params(equation.params):
            counts += count_products(inner, inside)
    return counts


@each_gated_layer
def test_one_product_is_left_in_each_scan(layer):
    module = make(layer)
    inputs = (*arguments(module), SOME_DONE)
    counts = [
        count_products(jax.make_jaxpr(f(unroll, module))(*inputs).jaxpr).tolist()
        for f in (make_loss, make_gradients)
    ]
    assert counts == [[1, 1], [4, 2]]  # with gradients also those of x and of both kernels


@pytest.mark.parametrize(("layer", "gates"), [(LSTM, 4), (TrainableLSTM, 4), (GRU, 3)])
def test_no_step_copies_the_sequence(layer, gates):
    module = make(layer)
    compiled = make_gradients(unroll, module).lower(*arguments(module), SOME_DONE).compile()
    bodies = re.findall(r"\bbody=(%[\w.]+)", compiled.as_text())
    assert len(bodies) == 2
    for computation in compiled.as_text().split("\n\n"):
        if computation.strip().startswith(tuple(f"{body} " for body in bodies)):
            shape = rf"f64\[{STEPS},{ROWS},{gates * UNITS}\]"
            assert re.search(shape, computation)
            assert not re.search(rf"= {shape}\S* copy\(", computation)
