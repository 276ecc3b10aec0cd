"""Filter: pick, rename and compute entries."""

from collections.abc import Callable, Mapping
from typing import Any

from .._output import PyTree
from ._stateless import Stateless

Pick = str | tuple[str | int, ...] | Callable[[PyTree], PyTree]
"""A key, a path of keys and indices, or a function of the whole input."""


class Filter(Stateless):
    """Builds a dict from parts of the input; what is not named is dropped.

    Args:
      spec: for each output key the part to put there: a key, a path (tuple of keys and
        indices), or a row-wise function of the whole input.

    Raises:
      TypeError: if ``spec`` is not a dict or an entry is of another kind.
      ValueError: if ``spec`` is empty.
      KeyError: on call, if the input lacks a part; the message lists what there is.

    Example:
      >>> import jax.numpy as jnp
      >>> pick = Filter({"pose": ("body", "pose"), "speed": lambda x: x["body"]["pose"] * 2})
      >>> out = pick((), {"body": {"pose": jnp.ones((2, 3))}}).output
      >>> sorted(out)
      ['pose', 'speed']
    """

    def __init__(self, spec: Mapping[str, Pick]):
        if not isinstance(spec, Mapping):
            raise TypeError(
                f"Filter: expected a dict of output key to part, got {type(spec).__name__}; "
                "write Filter({'key': 'key'})"
            )
        if not spec:
            raise ValueError("Filter: expected at least one entry, got an empty dict")
        for key, part in spec.items():
            if not isinstance(part, str | tuple) and not callable(part):
                raise TypeError(
                    f"Filter: entry {key!r}: expected a key, a tuple of keys or a function, "
                    f"got {part!r}"
                )
        self.spec = tuple(spec.items())

    def transform(self, x: PyTree) -> PyTree:
        return {key: _pick(key, part, x) for key, part in self.spec}


def _pick(key: str, part: Pick, x: PyTree) -> Any:
    if callable(part):
        return part(x)
    path = part if isinstance(part, tuple) else (part,)
    value = x
    for depth, step in enumerate(path):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError) as error:
            there = sorted(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
            raise KeyError(
                f"Filter: entry {key!r}: input has no part {path[: depth + 1]}; "
                f"found {there} at {path[:depth] or 'the top'}"
            ) from error
    return value
