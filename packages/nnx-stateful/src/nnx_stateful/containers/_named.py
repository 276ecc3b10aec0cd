"""The two ways of naming children: ``X({"a": m})`` and ``X(a=m)``."""

from collections.abc import Mapping
from typing import Any

from .._output import PyTree
from .._protocol import StatefulModule
from .._routing import Container


class NamedContainer(Container):
    """A container whose children are given as one dict or as keyword arguments.

    Args:
      modules: children by name.
      **named: the same, as keywords; use one form or the other.

    Raises:
      TypeError: if both forms are used, or ``modules`` is not a dict.
      ValueError: if there are no children.
    """

    def __init__(
        self, modules: Mapping[str, StatefulModule] | None = None, /, **named: StatefulModule
    ):
        kind = type(self).__name__
        if modules is not None and named:
            raise TypeError(
                f"{kind}: expected a dict of modules or keyword arguments, got both; "
                f"move {sorted(named)} into the dict"
            )
        if modules is not None and not isinstance(modules, Mapping):
            raise TypeError(
                f"{kind}: expected a dict of modules by name, got {type(modules).__name__}; "
                f"write {kind}({{'name': module}}) or {kind}(name=module)"
            )
        super().__init__(named if modules is None else modules)


def entry(container: Container, x: PyTree, name: str) -> Any:
    """Returns ``x[name]``; the error lists what there is instead.

    Raises:
      TypeError: if ``x`` is not a dict.
      KeyError: if it lacks the entry.
    """
    kind = type(container).__name__
    if not isinstance(x, Mapping):
        raise TypeError(
            f"{kind}: expected a dict input with entries {list(container.child_names)}, "
            f"got {type(x).__name__}; put a Filter or Splitter before it"
        )
    if name not in x:
        raise KeyError(
            f"{kind}: input has no entry {name!r}; it has {sorted(map(str, x))}. Rename the child "
            "or put a Filter before it"
        )
    return x[name]
