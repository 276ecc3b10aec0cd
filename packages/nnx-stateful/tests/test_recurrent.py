"""LSTM and GRU, against Flax's own cells."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nnx_stateful import GRU, LRU, LSTM, initial_state, reset_rows
from nnx_stateful.testing import check_stateful_module

XS = jnp.asarray(np.random.default_rng(0).standard_normal((6, 4, 3)), jnp.float32)
DONE = jnp.asarray(np.random.default_rng(1).random((6, 4)) < 0.3)


def _flax_lstm(lstm):
    cell = nnx.OptimizedLSTMCell(3, 5, rngs=nnx.Rngs(1))
    cell.dense_i.kernel[...] = lstm.kernel[...]
    cell.dense_h.kernel[...] = lstm.recurrent_kernel[...]
    cell.dense_h.bias[...] = lstm.bias[...]
    return cell


def _flax_gru(gru):
    cell = nnx.GRUCell(3, 5, rngs=nnx.Rngs(1))
    cell.dense_i.kernel[...] = gru.kernel[...]
    cell.dense_i.bias[...] = gru.bias[...]
    cell.dense_h.kernel[...] = gru.recurrent_kernel[...]
    return cell


def _run_cell(cell, carry):
    """Steps a Flax cell, with zeros as the carry of a fresh row."""
    outputs = []
    for x, ended in zip(XS, DONE, strict=True):
        carry, output = cell(carry, x)
        carry = jax.tree.map(lambda leaf, d=ended: jnp.where(d[:, None], 0, leaf), carry)
        outputs.append(output)
    return np.stack(outputs), carry


@pytest.mark.parametrize(("layer", "flax_cell"), [(LSTM, _flax_lstm), (GRU, _flax_gru)])
def test_layer_equals_the_flax_cell_across_resets(layer, flax_cell):
    module = layer(3, 5, nnx.Rngs(0), bias_init=nnx.initializers.normal(1.0))
    state = initial_state(module, 4)
    outputs, carry = _run_cell(flax_cell(module), state)
    unrolled = module.unroll(state, XS, DONE)
    np.testing.assert_allclose(unrolled.output, outputs, rtol=1e-4, atol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        unrolled.next_state,
        carry,
    )


def test_lstm_starts_with_the_parameters_of_the_flax_cell():
    lstm, cell = LSTM(3, 5, nnx.Rngs(7)), nnx.LSTMCell(3, 5, rngs=nnx.Rngs(7))
    kernels = [gate.kernel[...] for gate in (cell.ii, cell.if_, cell.ig, cell.io)]
    recurrent = [gate.kernel[...] for gate in (cell.hi, cell.hf, cell.hg, cell.ho)]
    np.testing.assert_array_equal(lstm.kernel[...], np.concatenate(kernels, axis=1))
    np.testing.assert_array_equal(lstm.recurrent_kernel[...], np.concatenate(recurrent, axis=1))


@pytest.mark.parametrize(("layer", "gates"), [(LSTM, 4), (GRU, 3)])
def test_recurrent_kernel_of_each_gate_is_orthogonal(layer, gates):
    packed = np.asarray(layer(3, 5, nnx.Rngs(0)).recurrent_kernel[...])
    assert packed.shape == (5, 5 * gates)
    for gate in np.split(packed, gates, axis=1):
        np.testing.assert_allclose(gate @ gate.T, np.eye(5), atol=1e-5)


def test_lstm_carry_is_c_and_h():
    lstm = LSTM(3, 5, nnx.Rngs(0))
    out = lstm(initial_state(lstm, 4), XS[0])
    assert jnp.array_equal(out.next_state[1], out.output)
    assert not jnp.array_equal(out.next_state[0], out.output)


def test_trainable_initial_state_fills_fresh_rows_and_gets_a_gradient():
    lstm = LSTM(3, 5, nnx.Rngs(0), trainable_initial_state=True)
    lstm.initial_c[...] = jnp.arange(5.0)
    c, h = reset_rows(lstm, lstm.unroll(initial_state(lstm, 4), XS).next_state, jnp.ones(4, bool))
    assert jnp.array_equal(c, jnp.broadcast_to(jnp.arange(5.0), (4, 5)))
    assert not h.any()
    graphdef, params = nnx.split(lstm)

    @jax.jit
    @jax.grad
    def gradient(params):
        state = (jnp.zeros((4, 5)), jnp.zeros((4, 5)))  # as stored by a rollout
        return nnx.merge(graphdef, params).unroll(state, XS, DONE).output.sum()

    assert float(jnp.abs(gradient(params)["initial_c"][...]).sum()) > 0


@pytest.mark.parametrize("layer", [LSTM, GRU])
def test_layer_in_float64_keeps_the_laws(layer):
    check_stateful_module(layer(3, 5, nnx.Rngs(0)), XS[0], float64=True, laws=[1, 6])


@pytest.mark.parametrize("layer", [LSTM, GRU])
def test_carry_has_the_dtype_of_the_parameters_whatever_the_input(layer):
    module = layer(3, 5, nnx.Rngs(0))
    out = module(initial_state(module, 4), jnp.ones((4, 3), jnp.int32))
    assert {leaf.dtype for leaf in jax.tree.leaves(out.next_state)} == {jnp.dtype("float32")}


@pytest.mark.parametrize("layer", [LSTM, GRU])
def test_another_width_raises(layer):
    module = layer(3, 5, nnx.Rngs(0))
    with pytest.raises(ValueError, match=rf"{layer.__name__}: expected an input with 3 features"):
        module(initial_state(module, 4), jnp.ones((4, 2)))


@pytest.mark.parametrize("layer", [LSTM, GRU, LRU])
def test_bad_constructor_arguments_and_dict_inputs_raise(layer):
    name = layer.__name__
    with pytest.raises(ValueError, match=f"{name}: hidden_features: expected a positive int"):
        layer(3, 0, nnx.Rngs(0))
    with pytest.raises(TypeError, match=f"{name}: in_features: expected a positive int"):
        layer(3.0, 5, nnx.Rngs(0))
    with pytest.raises(TypeError, match=f"{name}: rngs: expected nnx.Rngs, got a key"):
        layer(3, 5, jax.random.key(0))
    module = layer(3, 5, nnx.Rngs(0))
    with pytest.raises(TypeError, match=f"{name}: expected an array .* put a Flattener"):
        module(initial_state(module, 4), {"a": XS[0]})


@pytest.mark.parametrize("layer", [LSTM, GRU])
def test_gate_that_is_no_function_raises(layer):
    with pytest.raises(
        TypeError, match="gate_fn: expected a function, got 'tanh'; write gate_fn=n"
    ):
        layer(3, 5, nnx.Rngs(0), gate_fn="tanh")
