"""What the lowering of a declaration says."""

from nnx_graph import Connection, GraphSpec, Population
from nnx_graph._engine._plan import Component, lower


def spec_of(names, *connections):
    return GraphSpec(
        tuple(Population(name=name, size=1) for name in names),
        tuple(Connection(src=a, dst=b, delay=delay) for a, b, delay in connections),
    )


def test_lower_orders_within_a_step_by_delay_zero_connections_only():
    plan = lower(spec_of("abc", ("c", "a", 0), ("a", "c", 1), ("a", "b", 0)))
    assert plan.order == ("c", "a", "b")


def test_lower_finds_the_longest_outgoing_delay_of_each_source():
    plan = lower(spec_of("abc", ("a", "b", 2), ("a", "c", 5), ("b", "c", 0)))
    assert plan.ring_lengths == {"a": 5}


def test_lower_finds_components_over_all_connections():
    plan = lower(
        spec_of("abcd", ("a", "b", 0), ("b", "c", 3), ("c", "b", 0), ("d", "d", 1), ("c", "d", 0))
    )
    assert plan.components == (
        Component(("a",), cyclic=False),
        Component(("c", "b"), cyclic=True),  # c before b within a step
        Component(("d",), cyclic=True),
    )


def test_plans_are_equal_and_hashable_where_declarations_are():
    one, other = (lower(spec_of("ab", ("a", "b", delay))) for delay in (1, 1))
    assert one == other
    assert hash(one) == hash(other)
    assert one != lower(spec_of("ab", ("a", "b", 2)))
