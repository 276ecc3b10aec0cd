"""The declaration of a graph: frozen records of names, sizes and delays, without any weights."""

import dataclasses
from collections.abc import Callable
from typing import Literal

from jax.typing import ArrayLike
from jaxtyping import Array

from ._connectivity import Connectivity
from ._delay import Delay, plain_delay, shortest
from ._hints import shown
from ._plain import Items, Plain, plain_items

Sign = Literal["excitatory", "inhibitory"]
"""Of all weights that leave a population (Dale's principle): none negative, or none positive."""

Activation = Callable[[Array], ArrayLike]
"""A pure function of a population's summed input (B, size), of the same shape.

What it returns is cast to the type of the sum.
"""


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Named:
    """A registered module, by name, with options for making it.

    Args:
      name: under which ``register_module`` knows it.
      **options: plain data that is passed on by name; lists count as tuples.

    Attributes:
      name: as given.
      options: names and values, ordered by name.

    Raises:
      TypeError: if the name is no str, or an option no plain data.
      ValueError: if an option is not finite.

    Example:
      >>> Named("lru", r_max=0.9, r_min=0.5)
      Named('lru', r_max=0.9, r_min=0.5)
    """

    name: str
    options: Items

    def __init__(self, name: str, /, **options: Plain):
        if not isinstance(name, str):
            raise TypeError(
                f"Named: expected a name of type str, got {shown(name)} of type "
                f"{type(name).__name__}; pass the name of a registered module, for example 'gru'"
            )
        object.__setattr__(self, "name", name)
        items = plain_items(options, f"Named({shown(name)}): options")
        object.__setattr__(self, "options", tuple(sorted(items)))

    def __repr__(self) -> str:
        options = [f"{name}={value!r}" for name, value in self.options]
        return f"Named({', '.join([repr(self.name), *options])})"


@dataclasses.dataclass(frozen=True)
class Unnamed:
    """A module that was given as an instance, which the declaration cannot hold.

    Attributes:
      class_name: of the instance.
      instance: the same number for all connections with the same instance; None for one that
        stands once, and for those of populations.
    """

    class_name: str
    instance: int | None = None


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
      compute: the module that turns the sum into the output; None for none.
      sign: of all weights that leave it by default connections; None for either.
      aggregate: how what arrives over the connections is joined, before the entry of the
        observation is added; None for the sum.
      attributes: whatever else is known about it, by name; nothing here reads them.

    Example:
      >>> Population(name="hand", size=4, input_from="touch").input_from
      'touch'
    """

    name: str
    size: int
    activation: Activation | None = None
    input_from: str | None = None
    output_to: str | None = None
    compute: Named | Unnamed | None = None
    sign: Sign | None = None
    aggregate: Named | None = None
    attributes: Items = ()

    def __post_init__(self):
        if isinstance(self.aggregate, str):
            object.__setattr__(self, "aggregate", Named(self.aggregate))
        if isinstance(self.aggregate, Named) and self.aggregate == Named("sum"):
            object.__setattr__(self, "aggregate", None)
        _make_plain(self, f"Population {shown(self.name)}")

    @property
    def has_compute(self) -> bool:
        """Whether a module of its own turns the sum into the output."""
        return self.compute is not None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
    """A directed connection: what leaves ``src`` arrives, transformed, in the sum of ``dst``.

    Attributes:
      src: name of the source population.
      dst: name of the destination population.
      delay: steps between leaving and arriving, at least 0. With 0 the destination sees the
        source's output of the same step. Between whole steps it is interpolated; a tuple has the
        delay of each unit of the source.
      index: 0 for the first connection from ``src`` to ``dst``, 1 for the next parallel one, ...
      transform: the module that maps (B, size of src) to (B, size of dst); None for a linear map
        with a bias.
      connectivity: which units of the linear map are connected; None for all.
      frozen: whether the linear map keeps its initial weights.
      share: name under which connections of equal sizes share the weights of the linear map, or
        the named module; None for own ones.
      attributes: whatever else is known about it, by name; nothing here reads them.

    Example:
      >>> Connection(src="hand", dst="arm", delay=1).name
      'hand->arm'
    """

    src: str
    dst: str
    delay: Delay = 0
    index: int = 0
    transform: Named | Unnamed | None = None
    connectivity: Connectivity | None = None
    frozen: bool = False
    share: str | None = None
    attributes: Items = ()

    def __post_init__(self):
        object.__setattr__(self, "delay", plain_delay(self.delay))
        _make_plain(self, f"Connection {shown(self.src)} to {shown(self.dst)}")

    @property
    def shortest_delay(self) -> int:
        """The least number of steps after which anything arrives; 0 if it may be within a step."""
        return shortest(self.delay)

    @property
    def has_transform(self) -> bool:
        """Whether a module of its own takes the place of the linear map."""
        return self.transform is not None

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
      attributes: whatever else is known about the graph, by name; nothing here reads them.

    Example:
      >>> spec = GraphSpec((Population(name="a", size=2), Population(name="b", size=3)), ())
      >>> spec.population("b").size
      3
    """

    populations: tuple[Population, ...]
    connections: tuple[Connection, ...]
    attributes: Items = ()

    def __post_init__(self):
        _make_plain(self, "GraphSpec")

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


def _make_plain(record: Population | Connection | GraphSpec, where: str) -> None:
    """Gives the attributes of a new record their hashable form."""
    object.__setattr__(record, "attributes", plain_items(record.attributes, f"{where}: attributes"))
