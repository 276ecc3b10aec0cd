"""A diagonal complex recurrence over a whole sequence, with a derivative of its own."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Pair = tuple[Array, Array]
"""Real and imaginary part: XLA computes faster with two real arrays than with a complex one."""


def _recurrence(
    eigenvalues: Pair, drive: Pair, state: Pair, joined: Bool[Array, "T B"] | None
) -> tuple[Float[Array, "T B N"], Float[Array, "T B N"]]:
    """Solves a recurrence for all steps.

    With lambda the eigenvalues, k[t] one where a step is joined to the one before and zero where
    not, and g the gradients::

        h[t] = drive[t] + k[t] * lambda * h[t-1]                       h[-1] = state
        g[t] = dh[t] + k[t+1] * conj(lambda) * g[t+1]                  g[T] = 0

        ddrive = g
        dlambda = sum over t and rows of k[t] * conj(h[t-1]) * g[t]
        dstate = conj(lambda) * g[0]

    Both directions are one recurrence: solved step by step on a CPU, where passes over memory
    count, and by an associative scan elsewhere, where operations in sequence count.

    ``jax.grad``, ``jax.vjp`` and their own derivatives (``jax.hessian``) work; forward mode alone
    (``jax.jvp``, ``jax.jacfwd``, ``jax.linearize``) is a TypeError, as for any ``jax.custom_vjp``.

    Args:
      eigenvalues: lambda, each part (N,).
      drive: each part (T, B, N).
      state: h before the first step, each part (B, N).
      joined: k, true at the first step; None means that all steps are joined.

    Returns:
      h, each part (T, B, N).
    """
    return _solve(eigenvalues, drive, state, joined)


def _forward(
    eigenvalues: Pair, drive: Pair, state: Pair, joined: Array | None
) -> tuple[Pair, tuple[Any, ...]]:
    hidden = _solve(eigenvalues, drive, state, joined)
    return hidden, (eigenvalues, hidden, state, joined)


def _backward(residuals: tuple[Any, ...], grads: Pair) -> tuple[Pair, Pair, Pair, None]:
    (real, imag), hidden, state, joined = residuals
    following = None if joined is None else jnp.roll(joined, -1, axis=0)
    nothing = jax.tree.map(jnp.zeros_like, state)
    drive = _solve((real, -imag), grads, nothing, following, reverse=True)
    before = jax.tree.map(lambda h, s: jnp.concatenate([s[None], h])[:-1], hidden, state)
    (u, v), (p, q) = drive, _masked(before, joined)
    eigenvalues = jnp.sum(u * p + v * q, axis=(0, 1)), jnp.sum(v * p - u * q, axis=(0, 1))
    state = real * u[0] + imag * v[0], real * v[0] - imag * u[0]
    return eigenvalues, drive, state, None


recurrence = jax.custom_vjp(_recurrence)
recurrence.defvjp(_forward, _backward)


def _solve(
    eigenvalues: Pair, drive: Pair, state: Pair, joined: Array | None, *, reverse: bool = False
) -> Pair:
    return jax.lax.platform_dependent(
        eigenvalues,
        drive,
        state,
        joined,
        cpu=functools.partial(solve_in_sequence, reverse=reverse),
        default=functools.partial(solve_in_parallel, reverse=reverse),
    )


def solve_in_sequence(
    eigenvalues: Pair, drive: Pair, state: Pair, joined: Array | None, *, reverse: bool = False
) -> Pair:
    """Solves it with a scan of T steps; from the last step to the first if ``reverse``."""
    real, imag = eigenvalues

    def step(hidden: Pair, inputs: tuple[Pair, Array | None]) -> tuple[Pair, Pair]:
        (u, v), joined = inputs
        p, q = _masked(hidden, joined)
        hidden = u + real * p - imag * q, v + real * q + imag * p
        return hidden, hidden

    return jax.lax.scan(step, state, (drive, joined), reverse=reverse)[1]


def solve_in_parallel(
    eigenvalues: Pair, drive: Pair, state: Pair, joined: Array | None, *, reverse: bool = False
) -> Pair:
    """Solves it in O(log T) operations; from the last step to the first if ``reverse``."""
    values = jax.lax.complex(*drive)
    factors = jnp.broadcast_to(jax.lax.complex(*eigenvalues), values.shape)
    if joined is not None:
        factors = jnp.where(joined[..., None], factors, 0)
    first = -1 if reverse else 0
    values = values.at[first].add(factors[first] * jax.lax.complex(*state))
    _, hidden = jax.lax.associative_scan(_compose, (factors, values), reverse=reverse)
    return jnp.real(hidden), jnp.imag(hidden)


def _compose(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """Composes two affine maps h -> factor * h + value, the first one acting first."""
    return second[0] * first[0], second[0] * first[1] + second[1]


def _masked(pair: Pair, mask: Array | None) -> Pair:
    if mask is None:
        return pair
    return jax.tree.map(lambda leaf: jnp.where(mask[..., None], leaf, 0), pair)
