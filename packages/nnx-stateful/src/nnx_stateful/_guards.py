"""What the protocol refuses, and how it says so."""

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

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
    """Raises RuntimeError if a variable of ``module`` other than an RNG stream changes inside.

    Only the outermost call looks, so the cost does not grow with the depth of the network. The
    old values are put back before the error is raised.
    """
    if getattr(_active, "watching", False):
        yield
        return
    before = dict(_variables(module))
    _active.watching = True
    try:
        yield
    finally:
        _active.watching = False
    for path, (variable, value) in _variables(module):
        if path not in before:
            _raise_write(module, path, "created")
        old = before[path][1]
        if value is not old:
            variable.set_raw_value(old)
            _raise_write(module, path, "wrote")


def _variables(module: nnx.Module) -> Iterator[tuple[tuple[Any, ...], tuple[nnx.Variable, Any]]]:
    for path, node in nnx.iter_graph(module):
        if isinstance(node, nnx.Variable) and not isinstance(node, nnx.RngState):
            yield path, (node, node.get_raw_value())


def _raise_write(module: nnx.Module, path: tuple[Any, ...], verb: str) -> NoReturn:
    owner, *_ = [
        (parent, node)
        for parent, node in sorted(
            (p for p in nnx.iter_graph(module) if isinstance(p[1], nnx.Module)),
            key=lambda entry: -len(entry[0]),
        )
        if path[: len(parent)] == parent
    ]
    where = "/".join(map(str, owner[0])) or "the network itself"
    name = "/".join(map(str, path[len(owner[0]) :]))
    raise RuntimeError(
        f"{type(owner[1]).__name__} (at {where}) {verb} its variable {name!r} in __call__; "
        "expected a forward pass that writes nothing (RNG streams excepted), so that the loss "
        "can replay the rollout. Emit the value as rollout_extras and write the variable in "
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
