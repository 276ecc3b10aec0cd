"""Making the modules that a declaration has by name, within the limits of the graph."""

import math
from collections.abc import Callable

import jax
from flax import nnx
from nnx_stateful import StatefulModule

from ._hints import shown
from ._limits import Limits
from ._registry import Place, make_aggregation, make_module
from ._spec import Named

SMALL = 1 << 16
"""Parameters of a matrix up to which a module is made without evaluating its shapes before."""


class ModuleMaker:
    """Makes modules by name and counts their parameters, before any of the large ones is made.

    Args:
      rngs: source of the initial weights.
      limits: those of the graph.
      parameters: number of parameters that the graph has without modules.
    """

    def __init__(self, rngs: nnx.Rngs, limits: Limits, parameters: int):
        self._rngs = rngs
        self._limits = limits
        self._parameters = parameters

    def module(
        self, what: str, named: Named, place: Place, sizes: tuple[int, int]
    ) -> StatefulModule:
        """Makes a transform or compute.

        Args:
          what: what it is, for errors.
          named: name and options.
          place: what it is for.
          sizes: widths of its input and output.
        """

        def make(rngs: nnx.Rngs) -> StatefulModule:
            return make_module(named, place, *sizes, rngs)

        described = f"{what}, {shown(named)}, made for {sizes[0]} and {sizes[1]} features"
        module = self._make(what, described, make, sizes)
        if not isinstance(module, StatefulModule):
            raise TypeError(
                f"PopulationGraph.finalize: {what}: expected {shown(named)} to make a "
                f"StatefulModule, got {type(module).__name__}; register a function that returns one"
            )
        return module

    def aggregation(self, what: str, named: Named, count: int, size: int) -> StatefulModule:
        """Makes the module that joins so many messages of a size."""

        def make(rngs: nnx.Rngs) -> StatefulModule:
            return make_aggregation(named, count, size, rngs)

        return self._make(what, f"{what}, {shown(named)}", make, (size, max(count, size)))

    def _make(
        self,
        what: str,
        described: str,
        make: Callable[[nnx.Rngs], StatefulModule],
        sizes: tuple[int, int],
    ) -> StatefulModule:
        where = f"PopulationGraph.finalize: {what}"
        note = ", those of the graph before it included"
        try:
            if math.prod(sizes) > SMALL:
                shapes = nnx.eval_shape(lambda: make(nnx.Rngs(0)))
                count = self._parameters + _count(shapes)
                self._limits.check(where, "max_parameters", count, note)
            module = make(self._rngs)
        except Exception as error:
            error.add_note(f"PopulationGraph.finalize: in the {described}")
            raise
        self._parameters += _count(module)
        self._limits.check(where, "max_parameters", self._parameters, note)
        return module


def _count(module: nnx.Module) -> int:
    """The number of numbers in a module's variables."""
    leaves = jax.tree.leaves(nnx.state(module)) if isinstance(module, nnx.Module) else []
    return sum(math.prod(getattr(leaf, "shape", ())) for leaf in leaves)
