"""A diagonal recurrence over a whole sequence, real or complex, with a derivative of its own."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Parts = tuple[Array, ...]
"""One real array, or real and imaginary part: XLA computes faster with these two than with a
complex one."""


def joined_steps(done: Bool[Array, "T B"] | None) -> Bool[Array, "T B"] | None:
    """Returns where a step goes on from the one before it, the first one from the state.

    Example:
      >>> joined_steps(jnp.array([[0], [1], [0]], bool))[:, 0].tolist()
      [True, True, False]
    """
    if done is None:
        return None
    ended = done.astype(bool)
    return ~jnp.concatenate([jnp.zeros_like(ended[:1]), ended[:-1]])


def _recurrence(
    eigenvalues: Parts, drive: Parts, state: Parts, joined: Bool[Array, "T B"] | None
) -> tuple[Float[Array, "T B N"], ...]:
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
      eigenvalues: lambda, each part (N,): all arguments have one part or all have two.
      drive: each part (T, B, N).
      state: h before the first step, each part (B, N).
      joined: k, true at the first step; None means that all steps are joined.

    Returns:
      h, each part (T, B, N).
    """
    return _solve(eigenvalues, drive, state, joined)


def _forward(
    eigenvalues: Parts, drive: Parts, state: Parts, joined: Array | None
) -> tuple[Parts, tuple[Any, ...]]:
    hidden = _solve(eigenvalues, drive, state, joined)
    return hidden, (eigenvalues, hidden, state, joined)


def _backward(residuals: tuple[Any, ...], grads: Parts) -> tuple[Parts, Parts, Parts, None]:
    eigenvalues, hidden, state, joined = residuals
    conjugates = _conjugate(eigenvalues)
    following = None if joined is None else jnp.roll(joined, -1, axis=0)
    nothing = jax.tree.map(jnp.zeros_like, state)
    drive = _solve(conjugates, grads, nothing, following, reverse=True)
    before = jax.tree.map(lambda h, s: jnp.concatenate([s[None], h])[:-1], hidden, state)
    products = _product(_conjugate(_masked(before, joined)), drive)
    eigenvalues = tuple(jnp.sum(part, axis=(0, 1)) for part in products)
    state = _product(conjugates, tuple(part[0] for part in drive))
    return eigenvalues, drive, state, None


recurrence = jax.custom_vjp(_recurrence)
recurrence.defvjp(_forward, _backward)


def _solve(
    eigenvalues: Parts, drive: Parts, state: Parts, joined: Array | None, *, reverse: bool = False
) -> Parts:
    return jax.lax.platform_dependent(
        eigenvalues,
        drive,
        state,
        joined,
        cpu=functools.partial(solve_in_sequence, reverse=reverse),
        default=functools.partial(solve_in_parallel, reverse=reverse),
    )


def solve_in_sequence(
    eigenvalues: Parts, drive: Parts, state: Parts, joined: Array | None, *, reverse: bool = False
) -> Parts:
    """Solves it with a scan of T steps; from the last step to the first if ``reverse``."""

    def step(hidden: Parts, inputs: tuple[Parts, Array | None]) -> tuple[Parts, Parts]:
        drive, joined = inputs
        moved = _product(eigenvalues, _masked(hidden, joined))
        hidden = tuple(a + b for a, b in zip(drive, moved, strict=True))
        return hidden, hidden

    return jax.lax.scan(step, state, (drive, joined), reverse=reverse)[1]


def solve_in_parallel(
    eigenvalues: Parts, drive: Parts, state: Parts, joined: Array | None, *, reverse: bool = False
) -> Parts:
    """Solves it in O(log T) operations; from the last step to the first if ``reverse``."""
    values = _number(drive)
    factors = jnp.broadcast_to(_number(eigenvalues), values.shape)
    first = -1 if reverse else 0
    if joined is None:
        values = values.at[first].add(factors[first] * _number(state))
        maps = (factors, values)
    else:
        links = joined[..., None]
        begun = jnp.where(links[first], factors[first] * _number(state), 0)
        maps = (factors, values.at[first].add(begun), links)
    hidden = jax.lax.associative_scan(_compose, maps, reverse=reverse)[1]
    return (jnp.real(hidden), jnp.imag(hidden)) if len(drive) == 2 else (hidden,)


def _compose(first: tuple[Array, ...], second: tuple[Array, ...]) -> tuple[Array, ...]:
    """Composes two affine maps h -> factor * h + value, the first one acting first.

    A third entry, where there is one, says whether the map looks at h at all. A factor of zero
    would say so too, but 0 * NaN is NaN: an episode would inherit it from the one before.
    """
    factor, moved = second[0] * first[0], second[0] * first[1]
    if len(second) == 2:
        return factor, moved + second[1]
    return factor, jnp.where(second[2], moved, 0) + second[1], first[2] & second[2]


def _number(parts: Parts) -> Array:
    return jax.lax.complex(*parts) if len(parts) == 2 else parts[0]


def _product(a: Parts, b: Parts) -> Parts:
    if len(a) == 1:
        return (a[0] * b[0],)
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _conjugate(parts: Parts) -> Parts:
    return (parts[0], *(-part for part in parts[1:]))


def _masked(parts: Parts, mask: Array | None) -> Parts:
    if mask is None:
        return parts
    return tuple(jnp.where(mask[..., None], part, 0) for part in parts)
