"""Compiled programs that are kept: calling a function again must not compile again."""

import collections
from collections.abc import Callable, Hashable
from typing import Any

import jax

_KEPT: collections.OrderedDict[Hashable, tuple[Any, Callable[..., Any]]] = collections.OrderedDict()
_AT_MOST = 16


def compiled_for(env: Any, build: Callable[..., Any], *options: Hashable) -> Callable[..., Any]:
    """Returns ``jax.jit(build(env, *options))``, the same one for the same environment and options.

    An environment whose plain attributes have changed counts as another one. The least recently
    used programs are dropped.

    Args:
      env: the environment.
      build: makes the function to compile; its first argument is static.
      options: further arguments of ``build``.
    """
    key = (id(env), _fingerprint(env), build, options)
    if key not in _KEPT:
        _KEPT[key] = (env, jax.jit(build(env, *options), static_argnums=0))  # env: keeps its id
        while len(_KEPT) > _AT_MOST:
            _KEPT.popitem(last=False)
    _KEPT.move_to_end(key)
    return _KEPT[key][1]


def run_kept(
    env: Any, build: Callable[..., Any], options: tuple[Hashable, ...], graphdef: Any, *rest: Any
) -> Any:
    """Runs ``build(env, *options)(graphdef, *rest)`` by a kept program.

    A graph definition that cannot be hashed, as one with a plain dict in it, compiles each time.
    """
    try:
        hash(graphdef)
    except TypeError:
        function = build(env, *options)
        return jax.jit(lambda *rest: function(graphdef, *rest))(*rest)
    return compiled_for(env, build, *options)(graphdef, *rest)


def _fingerprint(env: Any, depth: int = 8) -> tuple[Any, ...]:
    """Plain attributes of an environment and those inside it; of others their identity."""
    found: list[Any] = []
    for name, value in getattr(env, "__dict__", {}).items():
        if value is None or isinstance(value, bool | int | float | str):
            found.append((name, value))
        elif depth and name in ("env", "_env"):
            found.append((name, _fingerprint(value, depth - 1)))
        else:
            found.append((name, id(value)))
    return tuple(found)
