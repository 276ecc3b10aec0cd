"""Calls of ``reset`` inside of ``step``, noted on copies: the user's objects stay as they are."""

import types
from collections.abc import Callable, Iterator
from typing import Any

import jax

MOST_LEVELS = 32
"""Environments that are looked at, at most, from the outermost wrapper inwards."""


def levels(env: Any) -> list[Any]:
    """The environment and those that it holds, from the outermost wrapper inwards."""
    found, seen = [env], {id(env)}
    for level in found:  # grows while it is walked
        for _, value in _attributes(level):
            if _is_environment(value) and id(value) not in seen and len(found) < MOST_LEVELS:
                seen.add(id(value))
                found.append(value)
    return found


def step_shapes(step_of: Callable[[Any], Callable[..., Any]], env: Any, *args: Any) -> Any:
    """Evaluates the shapes of a step, and notes whose ``reset`` it calls.

    The step runs on a shallow copy of every level of wrappers, whose ``reset`` takes notes. An
    environment that cannot be copied like that is stepped itself, without notes.

    Args:
      step_of: from an environment to the function to evaluate, such as its vectorized step.
      env: the environment.
      *args: shapes of the function's arguments.

    Returns:
      The shapes of the result (None if the step failed after a call of ``reset``), and the names
      of the classes whose ``reset`` was called.
    """
    called: list[str] = []
    try:
        return jax.eval_shape(step_of(_watched_copy(env, called.append)), *args), called
    except Exception:
        if called:
            return None, called
        # The copy's fault or the environment's: without a copy it shows which.
        return jax.eval_shape(step_of(env), *args), []


def _watched_copy(env: Any, note: Callable[[str], None]) -> Any:
    """A shallow copy of every level that calls ``note`` with the class whose reset is called."""
    originals = levels(env)
    copies = {id(level): _empty_copy(level, note) for level in originals}
    for level in originals:
        copy = copies[id(level)]
        for name, value in _attributes(level):
            value = _moved(value, copies)
            if name == "reset":
                value = _noting(value, type(level).__name__, note)
            _put(copy, name, value)
        if isinstance(getattr(copy, "__dict__", None), dict) and type(copy) is type(level):
            copy.__dict__["reset"] = _noting(copy.reset, type(level).__name__, note)
    return copies[id(env)]


def _empty_copy(level: Any, note: Callable[[str], None]) -> Any:
    """An instance without attributes: of the same class, or of a subclass whose reset takes notes.

    A subclass where instances have no ``__dict__``, or compare by value: compiled functions of
    which the environment is a static argument would else find the trace of the original. No
    subclass where defining one would call code of the user's.
    """
    cls: Any = type(level)
    native: Any = next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)
    by_value = cls.__eq__ is not native.__eq__
    runs_code = type(cls) is not type or "__init_subclass__" in {
        name for base in cls.__mro__[:-1] for name in vars(base)
    }
    if runs_code or (hasattr(level, "__dict__") and not by_value):
        return native.__new__(cls)

    def reset(self: Any, *args: Any, **kwargs: Any) -> Any:
        note(cls.__name__)
        return cls.reset.__get__(self, cls)(*args, **kwargs)

    watched = type(cls.__name__, (cls,), {"__slots__": (), "reset": reset})
    return native.__new__(watched)


_HEAP_TYPE = 1 << 9
"""Flag of classes that are written in Python."""


def _noting(reset: Callable[..., Any], name: str, note: Callable[[str], None]) -> Any:
    def noted(*args: Any, **kwargs: Any) -> Any:
        note(name)
        return reset(*args, **kwargs)

    return noted


def _moved(value: Any, copies: dict[int, Any]) -> Any:
    """The copy of an environment; a method of one, compiled or not, bound to the copy."""
    method = getattr(value, "__wrapped__", value)
    if isinstance(method, types.MethodType) and id(method.__self__) in copies:
        return types.MethodType(method.__func__, copies[id(method.__self__)])
    return copies.get(id(value), value)


def _attributes(level: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, in its ``__dict__`` and in slots, past properties."""
    if isinstance(held := getattr(level, "__dict__", None), dict):
        yield from list(held.items())
    for name, slot in _slots(type(level)).items():
        try:
            yield name, slot.__get__(level, type(level))
        except AttributeError:  # not filled
            continue


def _put(level: Any, name: str, value: Any) -> None:
    slot = _slots(type(level)).get(name)
    if slot is None:
        level.__dict__[name] = value  # past a frozen dataclass's __setattr__
    else:
        slot.__set__(level, value)


def _slots(cls: type) -> dict[str, Any]:
    return {
        name: member
        for base in reversed(cls.__mro__)
        for name, member in vars(base).items()
        if isinstance(member, types.MemberDescriptorType) and name != "__dict__"
    }


def _is_environment(value: Any) -> bool:
    return not isinstance(value, type) and all(
        callable(getattr(value, method, None)) for method in ("reset", "step")
    )
