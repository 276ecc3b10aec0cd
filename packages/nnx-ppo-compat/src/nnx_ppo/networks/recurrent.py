"""Recurrent layers."""

from collections.abc import Callable
from typing import Any

import nnx_stateful
from flax import nnx

__all__ = ["LSTM"]


class LSTM(nnx_stateful.LSTM):
    """As :class:`nnx_stateful.LSTM`, with the published options.

    Args:
      in_features: number of input features.
      hidden_features: number of units.
      rngs: the source of the initial parameters.
      gate_fn: nonlinearity of the gates.
      activation_fn: nonlinearity of the cell.
      kernel_init: initialiser of the input weights; None for the default.
      recurrent_kernel_init: initialiser of the recurrent weights; None for the default.
      bias_init: initialiser of the biases; None for the default.
      use_optimized: chose between two implementations of the same function. There is one here,
        whose parameters are packed, so both values give it.
      trainable_initial_state: whether the fresh carry is a parameter.

    Example:
      >>> LSTM(3, 8, nnx.Rngs(0), use_optimized=False, kernel_init=None).hidden_features
      8
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        rngs: nnx.Rngs,
        *,
        gate_fn: Callable[..., Any] = nnx.sigmoid,
        activation_fn: Callable[..., Any] = nnx.tanh,
        kernel_init: Callable[..., Any] | None = None,
        recurrent_kernel_init: Callable[..., Any] | None = None,
        bias_init: Callable[..., Any] | None = None,
        use_optimized: bool = True,
        trainable_initial_state: bool = False,
    ):
        del use_optimized
        given: dict[str, Any] = {
            "kernel_init": kernel_init,
            "recurrent_kernel_init": recurrent_kernel_init,
            "bias_init": bias_init,
        }
        super().__init__(
            in_features,
            hidden_features,
            rngs,
            gate_fn=gate_fn,
            activation_fn=activation_fn,
            trainable_initial_state=trainable_initial_state,
            **{name: init for name, init in given.items() if init is not None},
        )
