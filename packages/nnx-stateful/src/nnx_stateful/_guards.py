"""What the protocol refuses, and how it says so."""

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

import jax
import numpy as np
from flax import nnx

_active = threading.local()


def check_signature(cls: type, call: Callable[..., Any]) -> None:
    """Raises TypeError unless ``call`` takes (self, state, x, rollout_extras=None)."""
    try:
        signature = inspect.signature(call)
        signature.bind(None, (), None)
        signature.bind(None, (), None, None)
    except TypeError as error:
        raise TypeError(
            f"{cls.__qualname__}.__call__ must accept (self, state, x, rollout_extras=None), "
            f"got {signature}; give it these three arguments, the last one optional"
        ) from error


@contextlib.contextmanager
def forbid_writes(module: nnx.Module) -> Iterator[None]:
    """Raises RuntimeError if a variable or array of ``module`` changes inside; RNG streams may.

    Only the outermost call looks, so the cost does not grow with the depth of the network. The
    old values are put back before this error, or any other from inside, is raised.
    """
    if getattr(_active, "watching", False):
        yield
        return
    nodes = list(nnx.iter_graph(module))
    before = dict(_values(nodes))
    attributes = [(node, dict(vars(node))) for _, node in nodes if isinstance(node, nnx.Pytree)]
    _active.watching = True
    try:
        yield
    except BaseException:
        _put_back(before, attributes)
        raise
    finally:
        _active.watching = False
    for path, (node, value) in _values(nnx.iter_graph(module)):
        if path not in before or value is not before[path][1]:
            _put_back(before, attributes)
            verb = "wrote" if path in before else "created"
            kind = "variable" if isinstance(node, nnx.Variable) else "array attribute"
            _raise_write(module, path, f"{verb} its {kind}")


@contextlib.contextmanager
def watch_copies() -> Iterator[None]:
    """Makes calls inside be watched again, also where an outer call is being watched.

    Needed where a call runs copies of its modules, made by splitting and merging them: the outer
    call would not see what they write.
    """
    watching = getattr(_active, "watching", False)
    _active.watching = False
    try:
        yield
    finally:
        _active.watching = watching


_Path = tuple[Any, ...]


def _values(nodes: Iterable[tuple[_Path, Any]]) -> Iterator[tuple[_Path, tuple[Any, Any]]]:
    """Yields what a call must leave alone: (path, (variable, its value)) or (path, (array, it))."""
    for path, node in nodes:
        if isinstance(node, nnx.Variable):
            if not isinstance(node, nnx.RngState):
                yield path, (node, node.get_raw_value())
        elif isinstance(node, jax.Array | np.ndarray):
            yield path, (node, node)


def _put_back(
    before: dict[_Path, tuple[Any, Any]], attributes: list[tuple[Any, dict[str, Any]]]
) -> None:
    for node, old in attributes:
        vars(node).clear()
        vars(node).update(old)
    for node, value in before.values():
        if isinstance(node, nnx.Variable) and node.get_raw_value() is not value:
            node.set_raw_value(value)


def _raise_write(module: nnx.Module, path: _Path, action: str) -> NoReturn:
    owner, *_ = [
        (parent, node)
        for parent, node in sorted(
            (
                (place, node)
                for place, node in nnx.iter_graph(module)
                if isinstance(node, nnx.Module) and not isinstance(node, nnx.List | nnx.Dict)
            ),
            key=lambda entry: -len(entry[0]),
        )
        if path[: len(parent)] == parent
    ]
    where = "/".join(map(str, owner[0])) or "the network itself"
    name = "/".join(map(str, path[len(owner[0]) :]))
    raise RuntimeError(
        f"{type(owner[1]).__name__} (at {where}) {action} {name!r} in __call__; "
        "expected a forward pass that writes nothing (RNG streams excepted), so that the loss "
        "can replay the rollout. Emit the value as rollout_extras and write a variable in "
        "update_statistics, or keep it in the carry state"
    )


def refuse_plain_collection(module: Any, name: str, value: Any, cause: Exception) -> None:
    """Raises TypeError if ``value`` is a plain list, tuple or dict that holds modules."""
    if isinstance(value, nnx.Module) or not _holds_module(value):
        return
    kind = type(value).__name__
    wrapper = "nnx.Dict" if isinstance(value, Mapping) else "nnx.List"
    raise TypeError(
        f"{type(module).__name__}.{name} is a plain {kind} of modules; expected {wrapper}, since "
        f"NNX does not look inside a plain {kind} and its parameters would not train. "
        f"Write self.{name} = {wrapper}(...)"
    ) from cause


def _holds_module(value: Any) -> bool:
    if isinstance(value, nnx.Module):
        return True
    if isinstance(value, Mapping):
        return any(_holds_module(entry) for entry in value.values())
    return isinstance(value, list | tuple) and any(_holds_module(entry) for entry in value)
