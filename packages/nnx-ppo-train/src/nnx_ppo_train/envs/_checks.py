"""Checks of constructor arguments and actions, shared by environments and wrappers."""

import math
import operator
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


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
        raise TypeError(f"{where} must be an integer, got {value!r}")
    if number < least:
        raise ValueError(f"{where} must be at least {least}, got {number}")
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
    except (TypeError, ValueError):
        number = None
    if number is None or isinstance(value, (bool, str)):
        raise TypeError(f"{where} must be a number, got {value!r}")
    if not math.isfinite(number) or number < least:
        rule = "finite" if least == -math.inf else f"finite and at least {least:g}"
        raise ValueError(f"{where} must be {rule}, got {number}")
    return number


def continuous_action(action: Any, size: int, where: str) -> Float[Array, " size"]:
    """Return a continuous action clipped to [-1, 1].

    Args:
        action: Array of shape (size,).
        size: Number of entries.
        where: Name of the environment, for the message.

    Raises:
        TypeError: If the action is a dict or another container.
        ValueError: If its shape is not (size,).

    Example:
        >>> continuous_action(jnp.array([2.0]), 1, "CartPole").tolist()
        [1.0]
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
    return jnp.clip(jnp.asarray(action, jnp.result_type(float)), -1.0, 1.0)


def integer_action(action: Any, shape: tuple[int, ...], where: str) -> Int[Array, "*shape"]:
    """Return an action made of integers.

    Args:
        action: Array of that shape.
        shape: () for one choice, (K,) for K of them.
        where: Name of the environment, for the message.

    Raises:
        TypeError: If the action is a container, or not made of integers.
        ValueError: If it has another shape.

    Example:
        >>> integer_action(jnp.array([0, 2]), (2,), "MultiChoice").tolist()
        [0, 2]
    """
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
    return jnp.asarray(action)


def check_choice(action: Any, where: str) -> None:
    """Check that an action is one choice, an integer scalar.

    Args:
        action: The action.
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
