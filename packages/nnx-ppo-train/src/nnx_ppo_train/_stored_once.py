"""Arrays that appear in two trees are stored once: what a module remembers is often what it saw."""

import dataclasses
from typing import Any

import jax
from jaxtyping import Array
from nnx_stateful import PyTree


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StoredOnce:
    """A tree without those of its leaves that are the very arrays of another one, its source.

    A scan that returns an array twice stores it twice, and so does a compiled function.

    Attributes:
      kept: the other leaves.
      places: for each leaf its place among the leaves of the source, or None.
      treedef: the structure of the whole tree.

    Example:
      >>> import jax.numpy as jnp
      >>> seen, drawn = jnp.ones(3), jnp.zeros(2)
      >>> stored = StoredOnce.of({"saw": seen, "drew": drawn}, source=(seen,))
      >>> len(stored.kept), stored.joined(source=(seen,))["saw"] is seen
      (1, True)
    """

    kept: list[Array]
    places: tuple[int | None, ...] = dataclasses.field(metadata={"static": True})
    treedef: Any = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, tree: PyTree, source: PyTree) -> "StoredOnce":
        """Takes the leaves of ``source`` out of ``tree``."""
        known = {id(leaf): place for place, leaf in enumerate(jax.tree.leaves(source))}
        leaves, treedef = jax.tree.flatten(tree)
        places = tuple(known.get(id(leaf)) for leaf in leaves)
        kept = [leaf for leaf, place in zip(leaves, places, strict=True) if place is None]
        return cls(kept, places, treedef)

    def joined(self, source: PyTree) -> PyTree:
        """Puts them back, also where both have been stacked or gathered in the meantime."""
        sources, kept = jax.tree.leaves(source), iter(self.kept)
        leaves = [next(kept) if place is None else sources[place] for place in self.places]
        return self.treedef.unflatten(leaves)
