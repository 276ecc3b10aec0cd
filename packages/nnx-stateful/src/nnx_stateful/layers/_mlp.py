"""make_mlp: a stack of Dense layers."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array

from ..containers import Sequential
from ._dense import Dense


def make_mlp_layers(
    sizes: Sequence[int],
    rngs: nnx.Rngs,
    activation: Callable[[Array], Array] = nnx.relu,
    activation_last_layer: bool = True,
    *,
    compute_dtype: DTypeLike | None = None,
    **linear_kwargs: Any,
) -> list[Dense]:
    """Returns the layers of :func:`make_mlp` as a list, to be placed among other modules.

    Example:
      >>> from flax import nnx
      >>> layers = make_mlp_layers([4, 8, 2], nnx.Rngs(0), activation_last_layer=False)
      >>> [(layer.in_features, layer.out_features) for layer in layers]
      [(4, 8), (8, 2)]
    """
    vector = isinstance(sizes, np.ndarray) and sizes.ndim == 1
    if not (vector or isinstance(sizes, Sequence)) or isinstance(sizes, str | bytes):
        raise TypeError(
            f"make_mlp: sizes: expected a sequence of ints such as [4, 8, 2], got {sizes!r}"
        )
    sizes = list(sizes)
    if len(sizes) < 2:
        raise ValueError(
            "make_mlp: expected at least two sizes, those of the input and of the output, "
            f"got {sizes}"
        )
    last = len(sizes) - 2
    return [
        Dense(
            size,
            following,
            rngs,
            activation=activation if index < last or activation_last_layer else None,
            compute_dtype=compute_dtype,
            **linear_kwargs,
        )
        for index, (size, following) in enumerate(itertools.pairwise(sizes))
    ]


def make_mlp(
    sizes: Sequence[int],
    rngs: nnx.Rngs,
    activation: Callable[[Array], Array] = nnx.relu,
    activation_last_layer: bool = True,
    *,
    compute_dtype: DTypeLike | None = None,
    **linear_kwargs: Any,
) -> Sequential:
    """Builds a multilayer perceptron.

    Args:
      sizes: widths from the input to the output, at least two.
      rngs: the source of the initial parameters.
      activation: applied between layers.
      activation_last_layer: whether it is applied to the output, too.
      compute_dtype: type of the operands of matrix products, see :class:`Dense`.
      **linear_kwargs: passed on to each ``nnx.Linear``.

    Returns:
      A Sequential of Dense layers.

    Raises:
      TypeError: if ``sizes`` is no sequence of ints.
      ValueError: if there are fewer than two sizes, or one is not positive.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> net = make_mlp([4, 8, 2], nnx.Rngs(0), nnx.swish, activation_last_layer=False)
      >>> net(net.initialize_state(3), jnp.ones((3, 4))).output.shape
      (3, 2)
    """
    return Sequential(
        make_mlp_layers(
            sizes,
            rngs,
            activation,
            activation_last_layer,
            compute_dtype=compute_dtype,
            **linear_kwargs,
        )
    )
