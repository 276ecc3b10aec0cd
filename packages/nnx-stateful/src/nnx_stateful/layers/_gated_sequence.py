"""A gated recurrent layer over a whole sequence, with a derivative of its own."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float

from .._state import select_rows
from ._product import narrow, product

Rows = tuple[Float[Array, "B H"], ...]
"""A carry; the hidden units h, which are the output as well, come last."""

FreshRow = tuple[Float[Array, " H"], ...]
"""The carry of one row at the beginning of an episode, in the order of a carry."""

_ELEMENTWISE = (
    nnx.sigmoid,
    nnx.tanh,
    nnx.hard_sigmoid,
    nnx.hard_tanh,
    nnx.relu,
    nnx.silu,
    nnx.softplus,
    nnx.soft_sign,
)


@dataclasses.dataclass(frozen=True)
class GatedCell(abc.ABC):
    """One step of a gated layer and its derivative: the elementwise part of both.

    With ``a = x @ kernel + bias`` and ``b = h @ recurrent_kernel``, each (B, G * H) for G gates, a
    step maps the carry, a and b to the next carry. Its derivative is a product with factors that
    are known once the step is taken, the *slopes*: nothing else is stored. An instance is hashable
    and holds no arrays.

    Args:
      gate_fn: nonlinearity of the gates; :func:`is_elementwise` must hold for both.
      activation_fn: the other nonlinearity.
      compute_dtype: type of the operands of the products with the recurrent kernel; None for
        their own.
    """

    gate_fn: Callable[[Array], Array]
    activation_fn: Callable[[Array], Array]
    compute_dtype: np.dtype | None = None

    @abc.abstractmethod
    def advance(
        self, carry: Rows, a: Float[Array, "B gates"], b: Float[Array, "B gates"]
    ) -> tuple[Rows, Float[Array, "B gates"], Rows]:
        """Returns the next carry, the slopes of the gates in the layout of b, and the others."""

    @abc.abstractmethod
    def pull_back(
        self, grads: Rows, slopes: Float[Array, "B gates"], others: Rows
    ) -> tuple[Float[Array, "B gates"], Rows, Rows]:
        """Returns the gradients of b and of the carry (without what b adds), and what to keep."""

    def projected_grads(
        self, grads: Float[Array, "T B gates"], kept: tuple[Float[Array, "T B H"], ...]
    ) -> Float[Array, "T B gates"]:
        """Returns the gradient of a, given that of b and what was kept; equal unless overridden."""
        del kept
        return grads


def _sequence(
    cell: GatedCell,
    projected: Float[Array, "T B gates"],
    bias: Float[Array, " gates"],
    recurrent_kernel: Float[Array, "H gates"],
    carry: Rows,
    fresh: FreshRow,
    done: Bool[Array, "T B"] | None,
) -> tuple[Float[Array, "T B H"], Rows]:
    """Runs a gated layer over a sequence.

    With W the recurrent kernel, p[t] the projected input, s[t] the slopes and d the gradients::

        forward    t = 0 .. T-1
          carry, s[t] = advance(carry, p[t] + bias, h @ W)
          output[t] = h
          carry = fresh                                         where done[t]

        backward   t = T-1 .. 0
          dfresh += dcarry, then dcarry = 0                     where done[t]
          dh += doutput[t]
          db[t], dcarry = pull_back(dcarry, s[t])
          dh += db[t] @ W.T

        after it
          dW = sum over t and rows of outer(h before step t, db[t])
          dp = da = projected_grads(db)
          dbias = sum over t and rows of da

    The derivative of a plain scan computes the same, but adds up dW in T small products instead
    of one, stores each intermediate value in an array of its own and pads the gradient of each
    gate. Here the slopes overwrite the projected input and db overwrites the slopes, so that one
    array (T, B, G * H) serves all three.

    ``jax.grad``, ``jax.vjp`` and their own derivatives (``jax.hessian``) work; forward mode alone
    (``jax.jvp``, ``jax.jacfwd``, ``jax.linearize``) is a TypeError, as for any ``jax.custom_vjp``.

    Args:
      cell: the step; static.
      projected: ``x @ kernel``.
      bias: what is added to it.
      recurrent_kernel: W.
      carry: before the first step.
      fresh: what the carry of a done row is reset to.
      done: true where the row is reset after the step; None means that none is.

    Returns:
      The outputs and the carry after the last step.
    """
    kernel = narrow(recurrent_kernel, cell.compute_dtype)  # once, not in every step

    def step(carry: Rows, inputs: tuple[Array, Array | None]) -> tuple[Rows, Array]:
        row, ended = inputs
        a, b = row + bias, product(carry[-1], kernel, cell.compute_dtype)
        carry, _, _ = cell.advance(carry, a, b)
        return _reset(carry, fresh, ended), carry[-1]

    carry, outputs = jax.lax.scan(step, carry, (projected, done))
    return outputs, carry


def _forward(
    cell: GatedCell,
    projected: Array,
    bias: Array,
    recurrent_kernel: Array,
    carry: Rows,
    fresh: FreshRow,
    done: Array | None,
) -> tuple[tuple[Array, Rows], tuple[Any, ...]]:
    kernel = narrow(recurrent_kernel, cell.compute_dtype)

    def step(state: tuple[Rows, Array], inputs: tuple[Array, Array | None]) -> tuple[Any, Any]:
        (carry, buffer), (t, ended) = state, inputs
        a, b = _row(buffer, t) + bias, product(carry[-1], kernel, cell.compute_dtype)
        carry, slopes, others = cell.advance(carry, a, b)
        return (_reset(carry, fresh, ended), _with_row(buffer, t, slopes)), (carry[-1], others)

    start, steps = carry[-1], jnp.arange(len(projected))
    (carry, slopes), (outputs, others) = jax.lax.scan(step, (carry, projected), (steps, done))
    residuals = (kernel, start, fresh, done, outputs, slopes, others)
    return (outputs, carry), residuals


def _backward(cell: GatedCell, residuals: tuple[Any, ...], grads: tuple[Array, Rows]) -> Any:
    kernel, start, fresh, done, outputs, slopes, others = residuals
    output_grads, carry = grads
    nothing = jax.tree.map(jnp.zeros_like, carry)

    def step(state: tuple[Rows, Rows, Array], inputs: tuple[Any, ...]) -> tuple[Any, Rows]:
        (carry, lost, buffer), (t, ended, output, others) = state, inputs
        if ended is not None:
            lost = jax.tree.map(jnp.add, lost, select_rows(ended, carry, nothing))
            carry = select_rows(ended, nothing, carry)
        carry = (*carry[:-1], carry[-1] + output)
        b, carry, kept = cell.pull_back(carry, _row(buffer, t), others)
        carry = (*carry[:-1], carry[-1] + product(b, kernel.T, cell.compute_dtype))
        return (carry, lost, _with_row(buffer, t, b)), kept

    inputs = (jnp.arange(len(outputs)), done, output_grads, others)
    (carry, lost, b), kept = jax.lax.scan(step, (carry, nothing, slopes), inputs, reverse=True)
    if done is not None:
        outputs = jnp.where(done[..., None], fresh[-1], outputs)
    before = jnp.concatenate([start[None], outputs])[:-1]
    before = before.reshape(-1, before.shape[-1]).T
    kernel_grads = product(before, b.reshape(-1, b.shape[-1]), cell.compute_dtype)
    a = cell.projected_grads(b, kept)
    lost = jax.tree.map(lambda leaf: leaf.sum(axis=0), lost)
    return a, a.sum(axis=(0, 1)), kernel_grads, carry, lost, None


run_sequence = jax.custom_vjp(_sequence, nondiff_argnums=(0,))
run_sequence.defvjp(_forward, _backward)


def is_elementwise(function: Callable[..., Any]) -> bool:
    """Whether ``function`` is known to act on each element alone, as :func:`with_slope` needs."""
    return any(function is known for known in _ELEMENTWISE)


def with_slope(function: Callable[[Array], Array], x: Array) -> tuple[Array, Array]:
    """Returns the values and the derivatives of an elementwise function at ``x``."""
    return jax.jvp(function, (x,), (jnp.ones_like(x),))


def _reset(carry: Rows, fresh: FreshRow, ended: Array | None) -> Rows:
    return carry if ended is None else select_rows(ended, fresh, carry)


def _row(buffer: Array, t: Array) -> Array:
    return jax.lax.dynamic_index_in_dim(buffer, t, keepdims=False, allow_negative_indices=False)


def _with_row(buffer: Array, t: Array, row: Array) -> Array:
    return jax.lax.dynamic_update_index_in_dim(buffer, row, t, 0, allow_negative_indices=False)
