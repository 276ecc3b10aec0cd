"""What gated recurrent layers share: packed parameters and one scan over time."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Key

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._state import reset_rows
from .._unroll import sequence_length
from .._validate import as_compute_dtype, check_function, check_int, check_rngs
from ._gated_sequence import GatedCell, is_elementwise, run_sequence
from ._inputs import check_features
from ._product import multiply_rows

Initializer = Callable[..., Array]

KERNEL_INIT: Initializer = nnx.initializers.lecun_normal()
RECURRENT_INIT: Initializer = nnx.initializers.orthogonal()
BIAS_INIT: Initializer = nnx.initializers.zeros_init()


class RecurrentLayer(StatefulModule):
    """A recurrent layer whose gates are linear in the input.

    That part of the gates does not depend on the carry, so ``unroll`` computes it for the whole
    sequence in one product and scans over the rest. Inputs are cast to the parameters' dtype,
    which is the dtype of the carry.

    A subclass creates ``kernel`` (F, G * H), ``recurrent_kernel`` (H, G * H) and ``bias``
    (G * H,) for its G gates, and implements :meth:`cell` and :meth:`initial_row`. It multiplies
    with ``multiply_rows(..., self.compute_dtype)``.

    A class may give the derivative of its :meth:`cell` as ``gated_cell``; ``unroll`` then has a
    derivative of its own, as fast in training as the products of matrices allow. It knows the
    nonlinearities ``nnx.sigmoid``, ``tanh``, ``hard_sigmoid``, ``hard_tanh``, ``relu``, ``silu``,
    ``softplus`` and ``soft_sign``. With another one, or where a subclass redefines :meth:`cell` or
    :meth:`project`, JAX differentiates the scan.
    """

    gated_cell: ClassVar[type[GatedCell] | None] = None

    kernel: nnx.Param
    recurrent_kernel: nnx.Param
    bias: nnx.Param

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        rngs: nnx.Rngs,
        gate_fn: Callable[[Array], Array],
        activation_fn: Callable[[Array], Array],
        compute_dtype: DTypeLike | None = None,
    ):
        kind = type(self).__name__
        check_int(kind, "in_features", in_features)
        check_int(kind, "hidden_features", hidden_features)
        check_rngs(kind, rngs)
        check_function(kind, "gate_fn", gate_fn)
        check_function(kind, "activation_fn", activation_fn)
        self.in_features = in_features
        self.hidden_features = hidden_features
        self.gate_fn = gate_fn
        self.activation_fn = activation_fn
        self.compute_dtype = as_compute_dtype(kind, compute_dtype)

    @abc.abstractmethod
    def cell(self, carry: PyTree, projected: Float[Array, "B gates"]) -> tuple[PyTree, Array]:
        """Returns the next carry and the output, (B, H), given ``x @ kernel + bias``."""

    @abc.abstractmethod
    def initial_row(self) -> PyTree:
        """Returns the carry of one fresh row, leaves (H,)."""

    def project(self, x: Float[Array, "*lead F"]) -> Float[Array, "*lead gates"]:
        """Returns the input's part of the gates, ``x @ kernel + bias``."""
        return self._weigh(x) + self.bias[...]

    def initialize_state(self, batch_size: int) -> PyTree:
        return jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (batch_size, *leaf.shape)), self.initial_row()
        )

    def reset_state(self, prev_state: PyTree) -> PyTree:
        return self.initial_row()

    def __call__(
        self, state: PyTree, x: Float[Array, "B F"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        del rollout_extras
        next_state, output = self.cell(state, self.project(x))
        return StatefulModuleOutput(next_state, output, 0.0, {})

    def unroll(
        self,
        state: PyTree,
        xs: Float[Array, "T B F"],
        done: Bool[Array, "T B"] | None = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        length = sequence_length(self, xs, done, rollout_extras)
        cell = self._gated_cell()
        if cell is None:
            state, output = self._scan(state, xs, done)
        else:
            state, output = self._run(cell, state, xs, done)
        return StatefulModuleOutput(state, output, jnp.zeros(length, output.dtype), {})

    def _gated_cell(self) -> GatedCell | None:
        """Returns :meth:`cell` with its derivative, or None to let JAX differentiate it."""
        kind = type(self)
        if kind.gated_cell is None or _is_overridden(kind):
            return None
        if is_elementwise(self.gate_fn) and is_elementwise(self.activation_fn):
            return kind.gated_cell(self.gate_fn, self.activation_fn, self.compute_dtype)
        return None

    def _run(
        self, cell: GatedCell, state: PyTree, xs: Array, done: Array | None
    ) -> tuple[PyTree, Array]:
        carry = tuple(jax.tree.leaves(state))
        fresh = tuple(jax.tree.leaves(self.initial_row()))
        weights = self._weigh(xs), self.bias[...], self.recurrent_kernel[...]
        ended = None if done is None else done.astype(bool)
        output, carry = run_sequence(cell, *weights, carry, fresh, ended)
        return jax.tree.unflatten(jax.tree.structure(state), carry), output

    def _scan(self, state: PyTree, xs: Array, done: Array | None) -> tuple[PyTree, Array]:
        def step(carry: PyTree, inputs: tuple[Array, Array | None]) -> tuple[PyTree, Array]:
            projected, ended = inputs
            carry, output = self.cell(carry, projected)
            return (carry if ended is None else reset_rows(self, carry, ended)), output

        return jax.lax.scan(step, state, (self.project(xs), done))

    def _weigh(self, x: Float[Array, "*lead F"]) -> Float[Array, "*lead gates"]:
        check_features(self, x, self.in_features)
        kernel = self.kernel[...]
        return multiply_rows(x.astype(kernel.dtype), kernel, self.compute_dtype)


def _is_overridden(kind: type[RecurrentLayer]) -> bool:
    """Whether a class redefines what the ``gated_cell`` that it inherits describes."""
    first = next(c for c in kind.__mro__ if {"cell", "project", "gated_cell"} & vars(c).keys())
    return "gated_cell" not in vars(first)


def init_packed(
    init: Initializer, keys: list[Key[Array, ""]], shape: tuple[int, ...]
) -> Float[Array, "*shape"]:
    """Initialises one array of ``shape`` per key and joins them along the last axis.

    Each gate gets what it would get alone: an orthogonal initialiser makes each gate's square
    matrix orthogonal, which it would not if it saw the packed one.
    """
    return jnp.concatenate([init(key, shape, jnp.float32) for key in keys], axis=-1)


def draw_keys(rngs: nnx.Rngs, count: int) -> list[Any]:
    """Takes ``count`` parameter keys."""
    return [rngs.params() for _ in range(count)]
