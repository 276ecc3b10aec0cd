"""Orders on graphs against brute force."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from nnx_graph._declaration._order import shortest_cycle, strong_components, topological_order

NAMES = "abcde"
edge_lists = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=10)
node_lists = st.permutations(NAMES)


def reachable(edges):
    """Pairs (a, b) with a path of at least one edge, by plain closure."""
    reach = set(edges)
    while True:
        longer = {(a, d) for (a, b), (c, d) in itertools.product(reach, reach) if b == c}
        if longer <= reach:
            return reach
        reach |= longer


def test_topological_order_breaks_ties_by_insertion():
    edges = [("d", "a"), ("b", "a")]
    assert topological_order(["a", "b", "c", "d"], edges) == ["b", "c", "d", "a"]


@given(node_lists, edge_lists)
def test_topological_order_is_the_greedy_one_and_leaves_out_cycles(nodes, edges):
    order = topological_order(nodes, edges)
    reach = reachable(edges)
    behind_cycle = {b for a, b in reach if (a, a) in reach} | {a for a, b in reach if a == b}
    assert set(order) == set(nodes) - behind_cycle
    for position, node in enumerate(order):
        done = set(order[:position])
        ready = [n for n in nodes if n not in done and all(a in done for a, b in edges if b == n)]
        assert node == ready[0]


@given(node_lists, edge_lists)
def test_shortest_cycle_is_a_cycle_of_least_length(nodes, edges):
    cycle = shortest_cycle(nodes, edges)
    lengths = [
        size
        for size in range(1, len(nodes) + 1)
        for path in itertools.permutations(nodes, size)
        if all(step in edges for step in zip(path, (*path[1:], path[0]), strict=True))
    ]
    assert len(cycle) == min(lengths, default=0)
    assert all(step in edges for step in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True))


@given(node_lists, edge_lists)
def test_strong_components_group_what_reaches_each_other_in_order(nodes, edges):
    groups = strong_components(nodes, edges)
    reach = reachable(edges)
    assert sorted(itertools.chain(*groups)) == sorted(nodes)
    home = {node: number for number, group in enumerate(groups) for node in group}
    for a, b in itertools.permutations(nodes, 2):
        assert (home[a] == home[b]) == ((a, b) in reach and (b, a) in reach)
    assert all(home[a] <= home[b] for a, b in edges)
    assert all(group == sorted(group, key=nodes.index) for group in groups)


def test_strong_components_of_a_long_chain_need_no_recursion():
    names = [str(number) for number in range(3000)]
    ring = [*itertools.pairwise(names), (names[-1], names[0])]
    assert strong_components(names, ring) == [names]
