"""The declaration of a graph: frozen records of names, sizes and delays, without any weights."""

import dataclasses
from collections.abc import Callable

from jax.typing import ArrayLike
from jaxtyping import Array

Activation = Callable[[Array], ArrayLike]
"""A pure function of a population's summed input (B, size), of the same shape.

What it returns is cast to the type of the sum.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Population:
    """A named group of units with one activity vector per batch row and step.

    Attributes:
      name: unique within the graph; free of "->" and "#", which name connections.
      size: number of units; the output of the population has shape (B, size).
      activation: applied once per step to the sum of everything that arrives, after ``compute``
        where there is one; None for the identity.
      input_from: the entry of the observation, (B, size), that is added to the sum; None if the
        population reads no observation.
      output_to: the entry of the graph's output that holds this population's output; None if it
        is internal.
      has_compute: whether a module of its own turns the sum into the output.

    Example:
      >>> Population(name="hand", size=4, input_from="touch").input_from
      'touch'
    """

    name: str
    size: int
    activation: Activation | None = None
    input_from: str | None = None
    output_to: str | None = None
    has_compute: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
    """A directed connection: what leaves ``src`` arrives, transformed, in the sum of ``dst``.

    Attributes:
      src: name of the source population.
      dst: name of the destination population.
      delay: steps between leaving and arriving, at least 0. With 0 the destination sees the
        source's output of the same step.
      index: 0 for the first connection from ``src`` to ``dst``, 1 for the next parallel one, ...
      has_transform: whether a module of its own maps (B, size of src) to (B, size of dst);
        otherwise a linear map with a bias does.

    Example:
      >>> Connection(src="hand", dst="arm", delay=1).name
      'hand->arm'
    """

    src: str
    dst: str
    delay: int = 0
    index: int = 0
    has_transform: bool = False

    @property
    def name(self) -> str:
        """``src->dst``, and ``src->dst#index`` for further parallel ones; unique in the graph."""
        suffix = f"#{self.index}" if self.index else ""
        return f"{self.src}->{self.dst}{suffix}"


@dataclasses.dataclass(frozen=True)
class GraphSpec:
    """Everything that is known about a graph before its weights; hashable.

    Attributes:
      populations: in the order of declaration, which breaks ties in the order of evaluation.
      connections: in the order of declaration.

    Example:
      >>> spec = GraphSpec((Population(name="a", size=2), Population(name="b", size=3)), ())
      >>> spec.population("b").size
      3
    """

    populations: tuple[Population, ...]
    connections: tuple[Connection, ...]

    def population(self, name: str) -> Population:
        """Returns the population of that name.

        Raises:
          KeyError: if there is none.
        """
        for population in self.populations:
            if population.name == name:
                return population
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the populations in the order of declaration."""
        return tuple(population.name for population in self.populations)

    @property
    def inputs(self) -> tuple[Population, ...]:
        """The populations that read an observation."""
        return tuple(p for p in self.populations if p.input_from is not None)

    @property
    def outputs(self) -> tuple[Population, ...]:
        """The populations whose output is an entry of the graph's output."""
        return tuple(p for p in self.populations if p.output_to is not None)
