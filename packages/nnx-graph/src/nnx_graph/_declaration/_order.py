"""Orders on directed graphs, as pure functions of names and edges."""

import heapq
from collections import deque
from collections.abc import Iterable, Sequence

Edge = tuple[str, str]
"""(source, destination)."""


def topological_order(nodes: Sequence[str], edges: Iterable[Edge]) -> list[str]:
    """Orders nodes such that every edge points forward; the order of ``nodes`` breaks ties.

    Args:
      nodes: distinct names.
      edges: pairs of names; repeated edges count once.

    Returns:
      The nodes in order. Nodes on a cycle, and those behind one, are missing.

    Example:
      >>> topological_order(["c", "b", "a"], [("a", "b")])
      ['c', 'a', 'b']
    """
    rank = {node: position for position, node in enumerate(nodes)}
    after = _successors(nodes, edges)
    waiting = dict.fromkeys(nodes, 0)
    for targets in after.values():
        for target in targets:
            waiting[target] += 1
    ready = [rank[node] for node in nodes if not waiting[node]]
    order = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for target in after[node]:
            waiting[target] -= 1
            if not waiting[target]:
                heapq.heappush(ready, rank[target])
    return order


def shortest_cycle(nodes: Sequence[str], edges: Iterable[Edge]) -> list[str]:
    """Returns the nodes of a shortest cycle in order, the first one not repeated; [] if none.

    Example:
      >>> shortest_cycle(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "b")])
      ['b', 'c']
    """
    after = _successors(nodes, edges)
    best: list[str] = []
    for start in nodes:
        cycle = _cycle_through(start, after)
        if cycle and (not best or len(cycle) < len(best)):
            best = cycle
    return best


def strong_components(nodes: Sequence[str], edges: Iterable[Edge]) -> list[list[str]]:
    """Groups nodes that reach each other, each group before those that it feeds.

    Args:
      nodes: distinct names.
      edges: pairs of names.

    Returns:
      The strongly connected components in topological order; the order of ``nodes`` breaks ties
      between components (by their first member) and holds inside each.

    Example:
      >>> strong_components(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "b")])
      [['a'], ['b', 'c']]
    """
    edges = list(edges)
    rank = {node: position for position, node in enumerate(nodes)}
    groups = [sorted(group, key=rank.__getitem__) for group in _tarjan(nodes, edges)]
    home = {node: group[0] for group in groups for node in group}
    between = [(home[a], home[b]) for a, b in edges if home[a] != home[b]]
    first = [node for node in nodes if home[node] == node]
    by_first = {group[0]: group for group in groups}
    return [by_first[node] for node in topological_order(first, between)]


def _successors(nodes: Iterable[str], edges: Iterable[Edge]) -> dict[str, list[str]]:
    after: dict[str, dict[str, None]] = {node: {} for node in nodes}
    for source, target in edges:
        after[source][target] = None
    return {node: list(targets) for node, targets in after.items()}


def _cycle_through(start: str, after: dict[str, list[str]]) -> list[str]:
    """Breadth-first search from ``start`` back to itself."""
    came_from: dict[str, str] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for target in after[node]:
            if target == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if target not in came_from:
                came_from[target] = node
                queue.append(target)
    return []


def _tarjan(nodes: Sequence[str], edges: Iterable[Edge]) -> list[list[str]]:
    """Tarjan's algorithm (SIAM J. Comput. 1972) without recursion, for graphs of any depth."""
    after = _successors(nodes, edges)
    found: dict[str, int] = {}  # order of discovery
    low: dict[str, int] = {}  # earliest node on the stack that is reachable
    stack: list[str] = []
    on_stack: set[str] = set()
    groups = []
    for root in nodes:
        trail = [] if root in found else [(root, iter(after[root]))]
        while trail:
            node, targets = trail[-1]
            if node not in found:
                found[node] = low[node] = len(found)
                stack.append(node)
                on_stack.add(node)
            for target in targets:
                if target not in found:
                    trail.append((target, iter(after[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], found[target])
            else:
                trail.pop()
                if trail:
                    low[trail[-1][0]] = min(low[trail[-1][0]], low[node])
                if low[node] == found[node]:
                    group = stack[stack.index(node) :]
                    del stack[-len(group) :]
                    on_stack.difference_update(group)
                    groups.append(group)
    return groups
