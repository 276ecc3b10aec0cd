"""Hypothesis strategies: random networks, inputs and episode ends. Needs hypothesis."""

import dataclasses
from collections.abc import Callable

import hypothesis.extra.numpy as arrays
import jax.numpy as jnp
import numpy as np
from flax import nnx
from hypothesis import strategies as st

from .._protocol import StatefulModule
from .._routing import Call, Container
from ..containers import (
    Apply,
    Concat,
    Filter,
    Flattener,
    Map,
    Merge,
    Parallel,
    Repeat,
    Scale,
    Sequential,
    Tied,
)
from ..layers import (
    GRU,
    LRU,
    LSTM,
    AR1VariationalBottleneck,
    Delay,
    Dense,
    Normalizer,
    VariationalBottleneck,
)
from ._probes import (
    CounterProbe,
    EmittingProbe,
    KeepingProbe,
    MetricsProbe,
    RowLossProbe,
    ScalarLossProbe,
    StatisticsProbe,
)
from ._table import FEATURES


class _Residual(Container):
    def __init__(self, inner: StatefulModule):
        super().__init__({"inner": inner})

    def route(self, call: Call, x):
        return x + call("inner", x)


@dataclasses.dataclass(frozen=True)
class ModuleDescription:
    """A network to be built in a test; drawn instead of the network so that it prints and shrinks.

    The network maps (B, FEATURES) arrays to (B, FEATURES) arrays, so that any two compose.

    Attributes:
      kind: a leaf or a way to combine children.
      children: the children's descriptions by name, empty for a leaf.
    """

    kind: str
    children: tuple[tuple[str, "ModuleDescription"], ...] = ()

    def build(self, rngs: nnx.Rngs) -> StatefulModule:
        """Builds the network."""
        if not self.children:
            return LEAVES[self.kind](rngs)
        children = {name: child.build(rngs) for name, child in self.children}
        return NODES[self.kind](children, rngs)


def _behind_dense(layer: Callable[[nnx.Rngs], StatefulModule]):
    def build(rngs: nnx.Rngs) -> StatefulModule:
        return Sequential([Dense(FEATURES, 2 * FEATURES, rngs), layer(rngs)])

    return build


LEAVES: dict[str, Callable[[nnx.Rngs], StatefulModule]] = {
    "dense": lambda rngs: Dense(FEATURES, FEATURES, rngs, activation=nnx.tanh),
    "scale": lambda rngs: Scale(0.5),
    "apply": lambda rngs: Apply(jnp.tanh),
    "normalizer": lambda rngs: Normalizer(FEATURES),
    "delay": lambda rngs: Delay(jnp.zeros(FEATURES), k_steps=2),
    "lstm": lambda rngs: LSTM(FEATURES, FEATURES, rngs),
    "gru": lambda rngs: GRU(FEATURES, FEATURES, rngs),
    "lru": lambda rngs: LRU(FEATURES, FEATURES, rngs),
    "variational": _behind_dense(lambda rngs: VariationalBottleneck(FEATURES, rngs)),
    "ar1": _behind_dense(lambda rngs: AR1VariationalBottleneck(FEATURES, rngs)),
    "counter": lambda rngs: CounterProbe(),
    "keeping": lambda rngs: KeepingProbe(),
    "emitting": lambda rngs: EmittingProbe(),
    "metrics": lambda rngs: MetricsProbe(),
    "row loss": lambda rngs: RowLossProbe(),
    "scalar loss": lambda rngs: ScalarLossProbe(),
    "statistics": lambda rngs: StatisticsProbe(),
}
"""The leaves that descriptions are made of."""


def _joined(children: dict[str, StatefulModule], head: StatefulModule, rngs: nnx.Rngs):
    """Feeds a head that outputs one entry per child, and maps what it gives back to FEATURES."""
    copies = Filter(dict.fromkeys(children, _identity))
    join = Dense(FEATURES * len(children), FEATURES, rngs)
    before = [copies] if isinstance(head, Map | Concat) else []
    after = [] if isinstance(head, Concat) else [Flattener()]
    return Sequential([*before, head, *after, join])


def _identity(x):
    return x


def _merged(children: dict[str, StatefulModule], rngs: nnx.Rngs) -> StatefulModule:
    named = {
        name: Sequential([child, Filter({f"{name} out": _identity})])
        for name, child in children.items()
    }
    return _joined(children, Merge(named), rngs)


def _tied(child: StatefulModule) -> StatefulModule:
    """Runs two copies of a child on inputs that differ, and joins them."""
    spread = Apply(lambda x: jnp.stack([x, -x], axis=1))
    return Sequential([spread, Tied(child, copies=2), Apply(lambda x: x[:, 0] - 0.5 * x[:, 1])])


NODES: dict[str, Callable[[dict[str, StatefulModule], nnx.Rngs], StatefulModule]] = {
    "sequential": lambda children, rngs: Sequential(list(children.values())),
    "parallel": lambda children, rngs: _joined(children, Parallel(children), rngs),
    "map": lambda children, rngs: _joined(children, Map(children), rngs),
    "concat": lambda children, rngs: _joined(children, Concat(children), rngs),
    "merge": _merged,
    "repeat": lambda children, rngs: Sequential([Repeat(c, 2) for c in children.values()]),
    "tied": lambda children, rngs: Sequential([_tied(c) for c in children.values()]),
    "residual": lambda children, rngs: Sequential([_Residual(c) for c in children.values()]),
}
"""The ways in which descriptions combine children."""


def module_descriptions(max_leaves: int = 4) -> st.SearchStrategy[ModuleDescription]:
    """Draws descriptions of nested networks; names of children come in any order.

    Args:
      max_leaves: about how many layers a network has at most.
    """
    leaves = st.sampled_from(sorted(LEAVES)).map(ModuleDescription)

    def combine(inner: st.SearchStrategy) -> st.SearchStrategy[ModuleDescription]:
        names = st.permutations(["c", "a", "b"])
        children = st.tuples(names, st.lists(inner, min_size=1, max_size=3)).map(
            lambda drawn: tuple(zip(drawn[0], drawn[1], strict=False))
        )
        return st.builds(ModuleDescription, st.sampled_from(sorted(NODES)), children)

    return st.recursive(leaves, combine, max_leaves=max_leaves)


def done_masks(steps: int, rows: int) -> st.SearchStrategy[np.ndarray]:
    """Draws where episodes end, (T, B) bool."""
    return arrays.arrays(bool, (steps, rows))


def input_arrays(*shape: int) -> st.SearchStrategy[np.ndarray]:
    """Draws float32 inputs of moderate size."""
    return arrays.arrays(np.float32, shape, elements=st.floats(-2, 2, width=32))
