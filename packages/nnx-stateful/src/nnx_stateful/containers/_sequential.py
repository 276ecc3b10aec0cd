"""Sequential: one child after the other."""

from collections.abc import Iterable, Iterator, Mapping

from .._output import PyTree
from .._protocol import StatefulModule
from .._routing import Call, Container


class Sequential(Container):
    """Feeds each child with the output of the one before; children are named "0", "1", ...

    Args:
      layers: the children in order, at least one.
      *more: refused: the children come as one list.

    Raises:
      TypeError: if ``layers`` is not a sequence of stateful modules.
      ValueError: if it is empty.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> from nnx_stateful import GRU, Dense
      >>> rngs = nnx.Rngs(0)
      >>> net = Sequential([GRU(3, 8, rngs), Dense(8, 2, rngs)])
      >>> net(net.initialize_state(4), jnp.ones((4, 3))).output.shape
      (4, 2)
    """

    def __init__(self, layers: Iterable[StatefulModule], *more: StatefulModule):
        if more:
            raise TypeError(
                f"Sequential: expected one list of modules, got {1 + len(more)} arguments; "
                "write Sequential([first, second, ...])"
            )
        if isinstance(layers, StatefulModule):
            raise TypeError(
                f"Sequential: expected a list of modules, got one {type(layers).__name__}; "
                "write Sequential([module])"
            )
        if isinstance(layers, Mapping) or not isinstance(layers, Iterable):
            raise TypeError(
                f"Sequential: expected a list of modules, got {type(layers).__name__}; "
                "write Sequential([first, second, ...])"
            )
        super().__init__({str(index): layer for index, layer in enumerate(layers)})

    def route(self, call: Call, x: PyTree) -> PyTree:
        for name in self.child_names:
            x = call(name, x)
        return x

    @property
    def layers(self) -> tuple[StatefulModule, ...]:
        """The children in order."""
        return tuple(self.child_modules)

    def __getitem__(self, index: int) -> StatefulModule:
        return self.child_modules[index]

    def __len__(self) -> int:
        return len(self.child_names)

    def __iter__(self) -> Iterator[StatefulModule]:
        return iter(self.layers)
