"""compute_dtype: products of rounded operands, and everything else as without it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.extend.core import jaxprs_in_params
from nnx_stateful import GRU, LRU, LSTM, Dense, initial_state, make_mlp, multiply_rows
from nnx_stateful.testing import check_stateful_module, to_float64

T, B, F, OUT = 5, 4, 3, 2
KERNEL = jnp.asarray(np.random.default_rng(0).standard_normal((F, OUT)), jnp.float32)
XS = jnp.asarray(np.random.default_rng(1).standard_normal((T, B, F)), jnp.float32)
DONE = jnp.asarray(np.random.default_rng(2).random((T, B)) < 0.3)

LAYERS = {
    "Dense": functools.partial(Dense, F, OUT),
    "make_mlp": functools.partial(make_mlp, [F, 4, OUT]),
    "LSTM": functools.partial(LSTM, F, 4),
    "LSTM, own gate": functools.partial(LSTM, F, 4, gate_fn=jnp.sin),
    "GRU": functools.partial(GRU, F, 4),
    "LRU": functools.partial(LRU, F, 4, out_features=OUT),
}
each_layer = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS.keys())


def rounded(x):
    """The numbers of bfloat16 that are nearest, in float64."""
    return np.asarray(x).astype(jnp.bfloat16).astype(np.float64)


def products(jaxpr):
    """All matrix products in a program: types of the operands, type of the result."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            operands = tuple(str(operand.aval.dtype) for operand in equation.invars)
            yield operands, str(equation.outvars[0].aval.dtype)
        for inner in jaxprs_in_params(equation.params):
            yield from products(inner)


# ---- the product -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(F,), (B, F), (T, B, F)])
def test_product_and_its_gradients_are_those_of_rounded_operands(shape):
    x, weights = jnp.resize(XS, shape), jnp.resize(jnp.sin(XS), (*shape[:-1], OUT))

    def weighted(x, kernel):
        y = multiply_rows(x, kernel, "bfloat16")
        return jnp.sum(weights * y), y

    (_, y), grads = jax.value_and_grad(weighted, (0, 1), has_aux=True)(x, KERNEL)
    assert [leaf.dtype for leaf in (y, *grads)] == [jnp.float32] * 3
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    close(y, rounded(x) @ rounded(KERNEL))
    close(grads[0], rounded(weights) @ rounded(KERNEL).T)
    close(grads[1], rounded(x).reshape(-1, F).T @ rounded(weights).reshape(-1, OUT))
    assert np.abs(y - x @ KERNEL).max() > 1e-4


def test_sum_is_of_float32():
    ones = jnp.ones((1, 257))  # one more than bfloat16 can count to
    assert float(multiply_rows(ones, ones.T, "bfloat16")[0, 0]) == 257.0


def test_product_without_a_type_is_the_plain_one():
    wide = jnp.tile(KERNEL, (1, 8))

    def plain(x, kernel):
        return (x.reshape(-1, F) @ kernel).reshape(T, B, kernel.shape[-1])

    def gradients(multiply):
        return jax.make_jaxpr(jax.grad(lambda x, k: multiply(x, k).sum(), (0, 1)))(XS, wide)

    assert str(gradients(multiply_rows)) == str(gradients(plain))


@pytest.mark.parametrize("columns", [1, 2, 6, 7])
def test_products_of_any_width_and_their_derivatives_are_the_plain_ones(columns):
    def derivatives(multiply):
        y, forward = jax.jvp(multiply, (x, kernel), (x + 1, kernel + 1))
        backward = jax.vjp(multiply, x, kernel)[1](y)
        many = jax.vmap(multiply)(jnp.stack([x, -x]), jnp.stack([kernel, kernel]))
        return y, forward, backward, many

    close = functools.partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)
    with jax.enable_x64(True):
        x = jax.random.normal(jax.random.key(columns), (T, B, F), jnp.float64)
        kernel = jax.random.normal(jax.random.key(0), (F, columns), jnp.float64)
        jax.tree.map(close, derivatives(multiply_rows), derivatives(jnp.matmul))


@pytest.mark.parametrize(("platform", "products"), [("cpu", 3), ("cuda", 1)])
def test_few_columns_are_computed_one_by_one_on_a_cpu_alone(platform, products):
    traced = jax.jit(multiply_rows).trace(XS, jnp.ones((F, 3)))
    program = traced.lower(lowering_platforms=(platform,)).as_text()
    assert program.count("stablehlo.dot_general") == products


def test_type_that_is_no_narrower_changes_nothing():
    wide = jnp.tile(KERNEL, (1, 8))  # few columns are summed in another order
    np.testing.assert_array_equal(multiply_rows(XS, wide, "float32"), multiply_rows(XS, wide))
    half = XS.astype(jnp.bfloat16), wide.astype(jnp.bfloat16)
    y = multiply_rows(*half, "float32")
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y, multiply_rows(*half, "bfloat16"))


def test_rounding_is_an_operation_that_no_compiler_may_leave_out():
    jaxpr = jax.make_jaxpr(lambda x: multiply_rows(x, KERNEL, "bfloat16"))(XS)
    assert str(jaxpr).count("reduce_precision") == 2


def test_second_derivative_takes_rounding_for_the_identity():
    def half_square(x):
        return jnp.sum(multiply_rows(x, KERNEL, "bfloat16") ** 2) / 2

    expected = rounded(KERNEL) @ rounded(KERNEL).T
    np.testing.assert_allclose(jax.hessian(half_square)(XS[0, 0]), expected, rtol=1e-5)


def test_products_at_once_equal_one_after_the_other():
    kernels = jnp.stack([KERNEL, jnp.sin(KERNEL)])
    multiply = functools.partial(multiply_rows, compute_dtype="bfloat16")
    together = jax.vmap(multiply, (1, 0), 1)(XS[:, :2], kernels)
    one_by_one = [multiply(XS[:, i], kernels[i]) for i in range(2)]
    np.testing.assert_allclose(together, jnp.stack(one_by_one, axis=1), rtol=1e-6, atol=1e-7)


# ---- layers ------------------------------------------------------------------------------------


def gradients_of(module):
    """A function to gradients and results over a step and a sequence, and its arguments."""
    graphdef, params = nnx.split(module)

    def loss(params, state, xs):
        merged = nnx.merge(graphdef, params)
        outs = [merged(state, xs[0]), merged.unroll(state, xs, DONE)]
        results = [(out.next_state, out.output) for out in outs]
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(results)), results

    return jax.grad(loss, (0, 1, 2), has_aux=True), (params, initial_state(module, B), XS)


@each_layer
def test_every_product_of_a_layer_has_rounded_operands_and_a_float32_sum(layer):
    for dtype, operand in (("bfloat16", "bfloat16"), (None, "float32")):
        function, arguments = gradients_of(layer(nnx.Rngs(0), compute_dtype=dtype))
        found = set(products(jax.make_jaxpr(function)(*arguments).jaxpr))
        assert found == {((operand, operand), "float32")}


@each_layer
def test_everything_but_the_operands_stays_float32(layer):
    function, arguments = gradients_of(layer(nnx.Rngs(0), compute_dtype=jnp.bfloat16))
    leaves = jax.tree.leaves((arguments, jax.eval_shape(function, *arguments)))
    assert {leaf.dtype for leaf in leaves} == {jnp.dtype("float32")}


@each_layer
def test_parameters_are_drawn_as_without_it_and_results_lie_near(layer):
    narrow, plain = (layer(nnx.Rngs(0), compute_dtype=dtype) for dtype in ("bfloat16", None))
    jax.tree.map(np.testing.assert_array_equal, nnx.state(narrow), nnx.state(plain))
    outputs = [m.unroll(initial_state(m, B), XS, DONE).output for m in (narrow, plain)]
    difference = np.abs(outputs[0] - outputs[1]).max()
    assert 1e-5 < difference < 5e-2


@pytest.mark.fast("make_mlp", "GRU")
@pytest.mark.parametrize("name", ["make_mlp", "LSTM", "GRU", "LRU"])
def test_layer_in_float64_keeps_the_laws_and_rounds_as_before(name):
    module = LAYERS[name](nnx.Rngs(0), compute_dtype="bfloat16")
    check_stateful_module(module, XS[0], float64=True, laws=[1, 6])
    out = module(initial_state(module, B), XS[0]).output
    with jax.enable_x64(True):
        wide = to_float64(module)
        wide_out = wide(initial_state(wide, B), XS[0].astype(jnp.float64)).output
    assert wide_out.dtype == jnp.float64
    np.testing.assert_allclose(out, wide_out, rtol=1e-5, atol=1e-6)


# ---- mistakes ----------------------------------------------------------------------------------


@each_layer
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("bf16", ValueError, "got 'bf16', which is no type; write compute_dtype='bfloat16'"),
        (16, TypeError, "got 16, which is no type; write compute_dtype='bfloat16'"),
        ({"a": {}}, TypeError, "got {'a': {}}, which is no type; write compute_dtype='bfloat16'"),
        ("int8", ValueError, "a floating type with the range of float32, or None, got 'int8'"),
        (
            "float16",
            ValueError,
            "a floating type with the range of float32, or None, got 'float16'",
        ),
        (jnp.complex64, ValueError, "a floating type with the range of float32"),
        (jnp.float8_e8m0fnu, ValueError, "a floating type with the range of float32"),
    ],
)
def test_type_that_will_not_do_raises(layer, given, error, message):
    with pytest.raises(error, match=rf"^(Dense|LSTM|GRU|LRU): compute_dtype: expected .*{message}"):
        layer(nnx.Rngs(0), compute_dtype=given)


@pytest.mark.parametrize(
    ("option", "given"),
    [("dtype", jnp.bfloat16), ("precision", "highest"), ("preferred_element_type", jnp.float32)],
)
def test_dense_takes_one_word_on_the_arithmetic_of_its_product(option, given):
    with pytest.raises(ValueError, match=f"Dense: {option}: expected None beside a compute_dtype"):
        Dense(F, OUT, nnx.Rngs(0), compute_dtype="bfloat16", **{option: given})
    out = Dense(F, OUT, nnx.Rngs(0), **{option: given})((), XS[0]).output
    assert out.dtype == (jnp.bfloat16 if option == "dtype" else jnp.float32)


def test_dense_without_a_bias_has_a_compute_dtype():
    layer = Dense(F, OUT, nnx.Rngs(0), use_bias=False, compute_dtype="bfloat16")
    expected = rounded(XS[0]) @ rounded(layer.kernel[...])
    np.testing.assert_allclose(layer((), XS[0]).output, expected, rtol=1e-5, atol=1e-6)
