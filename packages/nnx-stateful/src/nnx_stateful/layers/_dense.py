"""Dense: an affine map with an optional activation."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._unroll import sequence_length
from .._validate import as_compute_dtype, check_function, check_int, check_rngs
from ._inputs import check_features
from ._product import multiply_rows

_OTHER_ARITHMETIC = ("dot_general", "dtype", "precision", "preferred_element_type", "promote_dtype")
"""Options of ``nnx.Linear`` that say, as ``compute_dtype`` does, how the product is computed."""


class Dense(StatefulModule):
    """Computes ``activation(x @ kernel + bias)``.

    Args:
      in_features: number of input features.
      out_features: number of output features.
      rngs: the source of the initial parameters.
      activation: applied once, to the result of the linear map; None for a linear layer. It sees
        one batch, (B, out_features), also in a sequence, so it need not be row-wise.
      compute_dtype: type of the operands of the matrix product, such as "bfloat16", in the
        gradients too; see :func:`multiply_rows`. Parameters and output keep theirs. None for the
        parameters' own type. Flax's ``dtype`` is something else: it casts kernel, bias and input,
        and so the output, and sums in that type. Only one of the two can be given.
      **linear_kwargs: passed on to ``nnx.Linear``: kernel_init, bias_init, use_bias, dtype, ...

    Attributes:
      linear: the ``nnx.Linear`` that holds the parameters.

    Raises:
      TypeError: if an argument is of another kind; on call, if the input is no array.
      ValueError: if a size is not positive; if ``compute_dtype`` will not do, or is given together
        with an option of ``nnx.Linear`` on the arithmetic of the product; on call, if the input
        has another number of features.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> layer = Dense(3, 2, nnx.Rngs(0), activation=nnx.relu)
      >>> layer((), jnp.ones((5, 3))).output.shape
      (5, 2)
      >>> layer.kernel.shape, layer.bias.shape
      ((3, 2), (2,))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        rngs: nnx.Rngs,
        activation: Callable[[Array], Array] | None = None,
        *,
        compute_dtype: DTypeLike | None = None,
        **linear_kwargs: Any,
    ):
        check_int("Dense", "in_features", in_features)
        check_int("Dense", "out_features", out_features)
        check_rngs("Dense", rngs)
        check_function("Dense", "activation", activation, optional=True)
        self.compute_dtype = as_compute_dtype("Dense", compute_dtype)
        if self.compute_dtype is not None:
            _check_no_other_arithmetic(linear_kwargs)
        self.in_features = in_features
        self.out_features = out_features
        self.linear = nnx.Linear(in_features, out_features, rngs=rngs, **linear_kwargs)
        self.activation = activation

    @property
    def kernel(self) -> nnx.Param:
        """The weights, (in_features, out_features)."""
        return self.linear.kernel

    @property
    def bias(self) -> nnx.Param | None:
        """The bias, (out_features,); None if the layer was built with ``use_bias=False``."""
        return self.linear.bias

    def __call__(
        self, state: PyTree, x: Float[Array, "B F"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        del rollout_extras
        check_features(self, x, self.in_features)
        y = self._affine(x)
        if self.activation is not None:
            y = self.activation(y)
        return StatefulModuleOutput(state, y, 0.0, {})

    def unroll(
        self,
        state: PyTree,
        xs: Float[Array, "T B F"],
        done: Any = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        del rollout_extras
        check_features(self, xs, self.in_features)
        steps = sequence_length(self, xs, done, None)
        flat = self._affine(xs.reshape((-1, *xs.shape[2:])))  # one product for all steps
        y = flat.reshape((*xs.shape[:-1], self.out_features))
        if self.activation is not None:
            y = jax.vmap(self.activation)(y)
        return StatefulModuleOutput(state, y, jnp.zeros(steps), {})

    def _affine(self, x: Float[Array, "B F"]) -> Float[Array, "B O"]:
        if self.compute_dtype is None:
            return self.linear(x)
        y = multiply_rows(x, self.kernel[...], self.compute_dtype)
        return y if self.bias is None else y + self.bias[...]


def _check_no_other_arithmetic(linear_kwargs: dict[str, Any]) -> None:
    for name in _OTHER_ARITHMETIC:
        given = linear_kwargs.get(name)
        if given is not None:
            raise ValueError(
                f"Dense: {name}: expected None beside a compute_dtype, got {given!r}; both say how "
                "the product is computed, so leave one of them out"
            )
