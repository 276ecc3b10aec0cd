"""Which activations may see populations side by side as one."""

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from nnx_graph._engine._elementwise import is_elementwise

SIZE, WIDTH = 3, 12


@jax.custom_vjp
def spike(x):
    return jnp.where(x > 0, 1.0, 0.0)


spike.defvjp(lambda x: (spike(x), x), lambda x, g: (g / (1 + jnp.abs(x)),))


@pytest.mark.parametrize(
    "function",
    [jnp.tanh, nnx.relu, nnx.swish, nnx.gelu, nnx.elu, nnx.softplus, spike, lambda x: 2 * x + 1],
)
def test_functions_of_one_number_are_elementwise(function):
    assert is_elementwise(function, SIZE, WIDTH)


@pytest.mark.parametrize(
    "function",
    [
        jax.nn.softmax,
        jnp.sort,
        lambda x: x / x.sum(),
        lambda x: x - x.mean(0),
        lambda x: x[:, ::-1],
        lambda x: x * jnp.arange(3.0),
        lambda x: x / x.shape[-1],
        lambda x: x if x.shape[-1] == SIZE else 2 * x,
        lambda x: x + jnp.arange(x.shape[-1]),
        lambda x: jax.lax.map(lambda row: row * row.sum(), x),
    ],
)
def test_functions_of_several_numbers_or_of_the_size_are_not(function):
    assert not is_elementwise(function, SIZE, WIDTH)
