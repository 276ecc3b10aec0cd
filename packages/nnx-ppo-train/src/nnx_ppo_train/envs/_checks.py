"""Checks of constructor arguments and actions, shared by environments and wrappers."""

import math
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._validate import shown


def positive_int(value: Any, where: str, *, least: int = 1) -> int:
    """Return `value` as an int of at least `least`.

    Args:
        value: A Python or NumPy integer.
        where: Owner and argument, for the message: `"CartPole: episode_length"`.
        least: The smallest legal value.

    Raises:
        TypeError: If `value` is no integer (a bool is none).
        ValueError: If it is below `least`.

    Example:
        >>> positive_int(3, "CartPole: episode_length")
        3
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{where}: expected an integer, got {shown(value)}")
    if number < least:
        raise ValueError(f"{where}: expected at least {least}, got {shown(number)}")
    return number


def finite_float(value: Any, where: str, *, least: float = -math.inf) -> float:
    """Return `value` as a finite float of at least `least`.

    Raises:
        TypeError: If `value` is no real number (a bool is none).
        ValueError: If it is NaN, infinite or below `least`.

    Example:
        >>> finite_float(2, "CartPole: gust", least=0.0)
        2.0
    """
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        number = None
    if number is None or isinstance(value, (bool, np.bool_, str, bytes)):
        raise TypeError(f"{where}: expected a number, got {shown(value)}")
    if not math.isfinite(number) or number < least:
        rule = "that is finite" + ("" if least == -math.inf else f" and at least {least:g}")
        raise ValueError(f"{where}: expected a number {rule}, got {shown(value)}")
    return number


def continuous_action(
    action: Any, size: int, where: str
) -> tuple[Float[Array, " size"], Bool[Array, ""]]:
    """Return a continuous action clipped to [-1, 1], and whether it is finite.

    Entries that are not finite become 0, so that they do not spread; environments end the episode.

    Args:
        action: Array of shape (size,).
        size: Number of entries.
        where: Name of the environment, for the message.

    Raises:
        TypeError: If the action is a dict or another container.
        ValueError: If its shape is not (size,).

    Example:
        >>> action, finite = continuous_action(jnp.array([2.0, jnp.nan]), 2, "PointMass")
        >>> action.tolist(), bool(finite)
        ([1.0, 0.0], False)
    """
    if isinstance(action, (dict, list, tuple)):
        raise TypeError(
            f"{where}: expected an action array of shape ({size},), "
            f"got a {type(action).__name__}; pass the array itself"
        )
    if jnp.shape(action) != (size,):
        raise ValueError(
            f"{where}: expected an action of shape ({size},), got {jnp.shape(action)}; "
            "environments are unbatched, use jax.vmap(env.step) for a batch"
        )
    action = jnp.asarray(action, jnp.result_type(float))
    finite = jnp.isfinite(action)
    return jnp.clip(jnp.where(finite, action, 0.0), -1.0, 1.0), jnp.all(finite)


def integer_action(
    action: Any, sizes: int | tuple[int, ...], where: str
) -> tuple[Int[Array, "*shape"], Bool[Array, ""]]:
    """Return an action made of integers, and whether all are in range.

    Args:
        action: A scalar, or an array (K,).
        sizes: Number of alternatives: one number for a scalar, K of them for an array.
        where: Name of the environment, for the message.

    Raises:
        TypeError: If the action is a container, or not made of integers.
        ValueError: If it has another shape.

    Example:
        >>> action, legal = integer_action(jnp.array([0, 2]), (3, 2), "MultiChoice")
        >>> action.tolist(), bool(legal)
        ([0, 2], False)
    """
    shape = () if isinstance(sizes, int) else (len(sizes),)
    if isinstance(action, (dict, list, tuple)) or not jnp.issubdtype(
        jnp.result_type(action), jnp.integer
    ):
        got = getattr(action, "dtype", type(action).__name__)
        raise TypeError(f"{where}: expected an integer action of shape {shape}; got {got}")
    if jnp.shape(action) != shape:
        raise ValueError(
            f"{where}: expected an action of shape {shape}, got {jnp.shape(action)}; "
            "environments are unbatched, use jax.vmap(env.step) for a batch"
        )
    return jnp.asarray(action), in_range(action, sizes)


def all_finite(tree: PyTree) -> Bool[Array, ""]:
    """Return whether every float of a tree is finite.

    Example:
        >>> bool(all_finite({"position": jnp.array([1.0, jnp.inf]), "steps": jnp.int32(3)}))
        False
    """
    floats = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in floats], bool).all()


def in_range(action: Any, sizes: int | tuple[int, ...]) -> Bool[Array, ""]:
    """Return whether integers are at least 0 and below the number of alternatives."""
    action = jnp.asarray(action)
    return jnp.all((action >= 0) & (action < jnp.asarray(sizes, jnp.int32)))


def check_choice(action: Any, size: int, where: str) -> Bool[Array, ""]:
    """Check that an action is one choice, an integer scalar, and return whether it is in range.

    Args:
        action: The action.
        size: Number of alternatives.
        where: Name of the environment, for the message.

    Raises:
        TypeError: If the action is a container, or no integer.
        ValueError: If it is no scalar.
    """
    if isinstance(action, (dict, list, tuple)) or not jnp.issubdtype(
        jnp.result_type(action), jnp.integer
    ):
        got = getattr(action, "dtype", type(action).__name__)
        raise TypeError(f"{where}: expected an integer action, a scalar; got {got}")
    if jnp.shape(action) != ():
        raise ValueError(
            f"{where}: expected a scalar action, got shape {jnp.shape(action)}; "
            "environments are unbatched, use jax.vmap(env.step) for a batch"
        )
    return in_range(action, size)
