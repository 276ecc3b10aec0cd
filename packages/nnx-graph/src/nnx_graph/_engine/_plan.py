"""Lowering: what an engine needs to know about a declared graph, worked out once."""

import dataclasses
from collections.abc import Mapping

from .._declaration._delay import longest
from .._declaration._order import strong_components, topological_order
from .._declaration._spec import Connection, GraphSpec, Population


@dataclasses.dataclass(frozen=True)
class Component:
    """Populations that reach each other over connections of any delay.

    Attributes:
      members: their names, in the order of evaluation within one step.
      cyclic: whether any output of theirs comes back; otherwise there is one member without a
        connection to itself, and a whole sequence can be computed at once.
    """

    members: tuple[str, ...]
    cyclic: bool


@dataclasses.dataclass(frozen=True)
class Plan:
    """The order of evaluation and the memory of a graph; equal where the declarations are.

    Attributes:
      spec: the declaration that was lowered; the other fields follow from it.
      order: names of all populations such that each delay-0 connection points forward.
      populations: by name.
      connections: by name.
      incoming: the connections into each population, in the order of declaration.
      ring_lengths: the longest outgoing delay, in steps, of each population that has one.
      components: the strongly connected components over all connections, each before those that
        it feeds.
    """

    spec: GraphSpec
    order: tuple[str, ...] = dataclasses.field(compare=False, repr=False)
    populations: Mapping[str, Population] = dataclasses.field(compare=False, repr=False)
    connections: Mapping[str, Connection] = dataclasses.field(compare=False, repr=False)
    incoming: Mapping[str, tuple[Connection, ...]] = dataclasses.field(compare=False, repr=False)
    ring_lengths: Mapping[str, int] = dataclasses.field(compare=False, repr=False)
    components: tuple[Component, ...] = dataclasses.field(compare=False, repr=False)


def lower(spec: GraphSpec) -> Plan:
    """Works out the plan of a declared graph without a cycle of delay 0.

    Args:
      spec: the declaration.

    Returns:
      The plan.

    Example:
      >>> a, b = Population(name="a", size=1), Population(name="b", size=1)
      >>> back = Connection(src="b", dst="a", delay=2)
      >>> lower(GraphSpec((a, b), (Connection(src="a", dst="b"), back))).components
      (Component(members=('a', 'b'), cyclic=True),)
    """
    immediate = [(c.src, c.dst) for c in spec.connections if not c.shortest_delay]
    every = [(c.src, c.dst) for c in spec.connections]
    order = topological_order(spec.names, immediate)
    looped = {c.src for c in spec.connections if c.src == c.dst}
    incoming: dict[str, list[Connection]] = {name: [] for name in spec.names}
    lengths: dict[str, int] = {}
    for connection in spec.connections:
        incoming[connection.dst].append(connection)
        if steps := longest(connection.delay):
            lengths[connection.src] = max(lengths.get(connection.src, 0), steps)
    return Plan(
        spec=spec,
        order=tuple(order),
        populations={population.name: population for population in spec.populations},
        connections={connection.name: connection for connection in spec.connections},
        incoming={name: tuple(connections) for name, connections in incoming.items()},
        ring_lengths={name: lengths[name] for name in spec.names if name in lengths},
        components=tuple(
            Component(tuple(group), cyclic=len(group) > 1 or group[0] in looped)
            for group in strong_components(order, every)
        ),
    )
