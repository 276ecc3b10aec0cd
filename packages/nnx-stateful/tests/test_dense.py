"""Dense and make_mlp."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_stateful import Dense, Sequential, initial_state, make_mlp, make_mlp_layers

X = jnp.asarray(np.random.default_rng(0).standard_normal((4, 3)), jnp.float32)


def test_dense_applies_its_activation_once_after_the_linear_map():
    layer = Dense(3, 2, nnx.Rngs(0), activation=nnx.swish, bias_init=nnx.initializers.ones)
    y = np.asarray(X) @ np.asarray(layer.kernel[...]) + 1
    np.testing.assert_allclose(layer((), X).output, y / (1 + np.exp(-y)), rtol=1e-5)


def test_dense_shows_its_parameters_and_passes_options_on():
    layer = Dense(3, 2, nnx.Rngs(0), use_bias=False, kernel_init=nnx.initializers.ones)
    assert layer.bias is None
    assert layer.kernel is layer.linear.kernel
    assert isinstance(layer.kernel, nnx.Param)
    np.testing.assert_allclose(layer((), X).output[:, 0], X.sum(axis=1), rtol=1e-5)


def test_dense_with_another_width_raises():
    with pytest.raises(ValueError, match=r"Dense: expected an input with 3 features .* \(4, 2\)"):
        Dense(3, 2, nnx.Rngs(0))((), X[:, :2])


@pytest.mark.parametrize("last", [True, False])
def test_mlp_equals_numpy(last):
    net = make_mlp([3, 5, 2], nnx.Rngs(0), activation_last_layer=last)
    y = np.asarray(X)
    for index, layer in enumerate(net):
        y = y @ np.asarray(layer.kernel[...]) + np.asarray(layer.bias[...])
        if index == 0 or last:
            y = np.maximum(y, 0)
    out = net(initial_state(net, 4), X).output
    np.testing.assert_allclose(out, y, rtol=1e-5, atol=1e-6)


def test_mlp_layers_may_stand_among_others():
    net = Sequential([*make_mlp_layers([3, 4, 4], nnx.Rngs(0)), Dense(4, 1, nnx.Rngs(1))])
    assert net(initial_state(net, 4), X).output.shape == (4, 1)


def test_mlp_of_one_size_raises():
    with pytest.raises(ValueError, match=r"make_mlp: expected at least two sizes, .* got \[3\]"):
        make_mlp([3], nnx.Rngs(0))


@pytest.mark.parametrize("activation", [lambda y: y - y.mean(0), nnx.tanh])
def test_activation_that_mixes_rows_unrolls_as_it_steps(activation):
    layer = Dense(3, 2, nnx.Rngs(0), activation=activation)
    xs = jnp.stack([X, 2 * X + 1])
    stepped = [layer((), x).output for x in xs]
    np.testing.assert_allclose(layer.unroll((), xs).output, jnp.stack(stepped), rtol=1e-5)


def test_dense_of_a_dict_raises_suggesting_a_flattener():
    message = r"Dense: expected an array .* got dict with entries \['a'\]; put a Flattener"
    with pytest.raises(TypeError, match=message):
        Dense(3, 2, nnx.Rngs(0))((), {"a": X})
    with pytest.raises(TypeError, match=message):
        Dense(3, 2, nnx.Rngs(0)).unroll((), {"a": X[None]})


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((0, 2, nnx.Rngs(0)), ValueError, "Dense: in_features: expected a positive int, got 0"),
        ((3, 2.0, nnx.Rngs(0)), TypeError, "out_features: expected a positive int, got 2.0 of"),
        ((3, 2, 0), TypeError, r"Dense: rngs: expected nnx.Rngs, got int; write nnx.Rngs\(seed\)"),
        ((3, 2, nnx.Rngs(0), "relu"), TypeError, "'relu'; write activation=nnx.relu"),
        ((3, 2, nnx.Rngs(0), 3), TypeError, "activation: expected a function or None, got 3"),
    ],
)
def test_dense_of_bad_arguments_raises(arguments, kind, message):
    with pytest.raises(kind, match=message):
        Dense(*arguments)
