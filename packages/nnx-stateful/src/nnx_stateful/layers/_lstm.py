"""LSTM: long short-term memory."""

from collections.abc import Callable

import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from ._lstm_cell import LSTMCell
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


class LSTM(RecurrentLayer):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), as in Flax.

    With gates i, f, g, o packed in this order along the last axis of every parameter::

        i, f, g, o = x @ kernel + h @ recurrent_kernel + bias
        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h' = sigmoid(o) * tanh(c')

    The carry is ``(c, h)``, each (B, H); the output is h'. Drawn from the same rngs, the initial
    parameters are those of ``nnx.LSTMCell``.

    In training, ``unroll`` is fast with elementwise nonlinearities that :class:`RecurrentLayer`
    lists; differentiate it in reverse (``jax.grad``): ``jax.jvp`` of it is a TypeError.

    Args:
      in_features: number of input features F.
      hidden_features: number of units H.
      rngs: the source of the initial parameters.
      gate_fn: nonlinearity of the gates i, f and o.
      activation_fn: nonlinearity of g and of the output.
      kernel_init: initialiser of each gate's input weights (F, H).
      recurrent_kernel_init: initialiser of each gate's recurrent weights (H, H).
      bias_init: initialiser of each gate's bias (H,).
      trainable_initial_state: makes the fresh carry a pair of parameters, ``initial_c`` and
        ``initial_h``, that start at zero.
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
      >>> lstm = LSTM(3, 8, nnx.Rngs(0))
      >>> out = lstm(lstm.initialize_state(2), jnp.ones((2, 3)))
      >>> out.output.shape, [leaf.shape for leaf in out.next_state]
      ((2, 8), [(2, 8), (2, 8)])
    """

    gated_cell = LSTMCell

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
        trainable_initial_state: bool = False,
        compute_dtype: DTypeLike | None = None,
    ):
        super().__init__(in_features, hidden_features, rngs, gate_fn, activation_fn, compute_dtype)
        self.trainable_initial_state = trainable_initial_state
        hidden = hidden_features
        kernel_keys = draw_keys(rngs, 4)
        recurrent_keys = draw_keys(rngs, 8)  # of a weight and a bias in turn, as Flax draws them
        self.kernel = nnx.Param(init_packed(kernel_init, kernel_keys, (in_features, hidden)))
        self.recurrent_kernel = nnx.Param(
            init_packed(recurrent_kernel_init, recurrent_keys[::2], (hidden, hidden))
        )
        self.bias = nnx.Param(init_packed(bias_init, recurrent_keys[1::2], (hidden,)))
        if trainable_initial_state:
            self.initial_c = nnx.Param(jnp.zeros(hidden, jnp.float32))
            self.initial_h = nnx.Param(jnp.zeros(hidden, jnp.float32))

    def cell(
        self, carry: tuple[Array, Array], projected: Float[Array, "B gates"]
    ) -> tuple[tuple[Array, Array], Array]:
        c, h = carry
        gates = projected + multiply_rows(h, self.recurrent_kernel[...], self.compute_dtype)
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = self.gate_fn(f) * c + self.gate_fn(i) * self.activation_fn(g)
        h = self.gate_fn(o) * self.activation_fn(c)
        return (c, h), h

    def initial_row(self) -> tuple[Float[Array, " H"], Float[Array, " H"]]:
        if self.trainable_initial_state:
            return self.initial_c[...], self.initial_h[...]
        zeros = jnp.zeros(self.hidden_features, self.bias[...].dtype)
        return zeros, zeros
