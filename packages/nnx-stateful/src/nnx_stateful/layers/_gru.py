"""GRU: gated recurrent unit."""

from collections.abc import Callable

import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ._gru_cell import GRUCell
from ._product import multiply_rows
from ._recurrent import (
    BIAS_INIT,
    KERNEL_INIT,
    RECURRENT_INIT,
    Initializer,
    RecurrentLayer,
    draw_keys,
    init_packed,
)


class GRU(RecurrentLayer):
    """Gated recurrent unit (Cho et al., 2014), as in Flax.

    With gates r, z, n packed in this order along the last axis of every parameter::

        xr, xz, xn = x @ kernel + bias
        hr, hz, hn = h @ recurrent_kernel
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        n = tanh(xn + r * hn)
        h' = (1 - z) * n + z * h

    The carry and the output are h', (B, H).

    In training, ``unroll`` is fast with elementwise nonlinearities that :class:`RecurrentLayer`
    lists; differentiate it in reverse (``jax.grad``): ``jax.jvp`` of it is a TypeError.

    Args:
      in_features: number of input features F.
      hidden_features: number of units H.
      rngs: the source of the initial parameters.
      gate_fn: nonlinearity of the gates r and z.
      activation_fn: nonlinearity of n.
      kernel_init: initialiser of each gate's input weights (F, H).
      recurrent_kernel_init: initialiser of each gate's recurrent weights (H, H).
      bias_init: initialiser of each gate's bias (H,).
      compute_dtype: type of the operands of matrix products, such as "bfloat16", in the gradients
        too; see :func:`multiply_rows`. Parameters, carry and output keep theirs. None for the
        parameters' own type.

    Raises:
      TypeError: if an argument is of another kind; on call, if the input is no array.
      ValueError: if a size is not positive, or ``compute_dtype`` will not do; on call, if the
        input has another number of features.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> gru = GRU(3, 8, nnx.Rngs(0))
      >>> gru.unroll(gru.initialize_state(2), jnp.ones((5, 2, 3))).output.shape
      (5, 2, 8)
    """

    gated_cell = GRUCell

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        rngs: nnx.Rngs,
        *,
        gate_fn: Callable[[Array], Array] = nnx.sigmoid,
        activation_fn: Callable[[Array], Array] = nnx.tanh,
        kernel_init: Initializer = KERNEL_INIT,
        recurrent_kernel_init: Initializer = RECURRENT_INIT,
        bias_init: Initializer = BIAS_INIT,
        compute_dtype: DTypeLike | None = None,
    ):
        super().__init__(in_features, hidden_features, rngs, gate_fn, activation_fn, compute_dtype)
        hidden = hidden_features
        keys = draw_keys(rngs, 9)
        self.kernel = nnx.Param(init_packed(kernel_init, keys[:3], (in_features, hidden)))
        self.recurrent_kernel = nnx.Param(
            init_packed(recurrent_kernel_init, keys[3:6], (hidden, hidden))
        )
        self.bias = nnx.Param(init_packed(bias_init, keys[6:], (hidden,)))

    def cell(
        self, carry: Float[Array, "B H"], projected: Float[Array, "B gates"]
    ) -> tuple[Array, Array]:
        xr, xz, xn = jnp.split(projected, 3, axis=-1)
        recurrent = multiply_rows(carry, self.recurrent_kernel[...], self.compute_dtype)
        hr, hz, hn = jnp.split(recurrent, 3, axis=-1)
        r, z = self.gate_fn(xr + hr), self.gate_fn(xz + hz)
        n = self.activation_fn(xn + r * hn)
        h = (1 - z) * n + z * carry
        return h, h

    def initial_row(self) -> Float[Array, " H"]:
        return jnp.zeros(self.hidden_features, self.bias[...].dtype)
