"""A trained network with another version of the graph in it."""

from collections.abc import Callable
from typing import TypeVar

from flax import nnx
from nnx_stateful import StatefulModule

from ._declaration._hints import shown, which_name
from ._graph import PopulationGraph

M = TypeVar("M", bound=StatefulModule)


def with_graph(
    network: M, change: Callable[[PopulationGraph], PopulationGraph], path: str | None = None
) -> M:
    """Returns a copy of a network in which its graph is changed; all variables are shared.

    Training the one trains the other, and the arrays exist once; ``network`` stays as it is.

    Args:
      network: any module with a graph in it, or a graph.
      change: takes the graph and returns another version of it.
      path: of the graph, needed where there are several: attributes joined by "/", as in
        ``"child_modules/1"``.

    Raises:
      ValueError: if there is no such graph, or several and no path.
      TypeError: if ``change`` returns something else than a graph of the same class.

    Example:
      >>> import jax.numpy as jnp
      >>> from nnx_stateful import Scale, Sequential
      >>> graph = PopulationGraph(nnx.Rngs(0))
      >>> graph.add_input("a", 1, input_from="x")
      >>> graph.add_output("b", 1)
      >>> graph.connect("a", "b")
      >>> graph.finalize()
      >>> network = Sequential([Scale(2.0), graph])
      >>> probed = with_graph(network, lambda graph: graph.clamp("b", 7.0))
      >>> out = probed(probed.initialize_state(1), {"x": jnp.ones((1, 1))})
      >>> out.output["b"].tolist()
      [[7.0]]
    """
    if not isinstance(network, nnx.Module):
        raise TypeError(
            f"with_graph: expected a network with a PopulationGraph in it, got {shown(network)} of "
            f"type {type(network).__name__}; pass a module"
        )
    if not callable(change):
        raise TypeError(
            f"with_graph: expected change to be a function of a graph, got {shown(change)} of type "
            f"{type(change).__name__}; pass for example lambda graph: graph.lesion('a')"
        )
    copy = nnx.view(network)
    graphs = {
        "/".join(map(str, steps)): module
        for steps, module in nnx.iter_modules(copy)
        if isinstance(module, PopulationGraph)
    }
    graph = _chosen(graphs, path)
    changed = change(graph)
    if type(changed) is not type(graph):
        raise TypeError(
            f"with_graph: expected change to return a {type(graph).__name__}, got "
            f"{type(changed).__name__}; return what lesion, clamp, stimulate or record return"
        )
    for name, value in vars(changed).items():
        if not name.startswith("_pytree__"):  # what NNX keeps for itself
            setattr(graph, name, value)
    return copy


def _chosen(graphs: dict[str, PopulationGraph], path: str | None) -> PopulationGraph:
    if path is None:
        if len(graphs) != 1:
            found = f"those at {', '.join(map(repr, graphs))}" if graphs else "none"
            hint = "pass path=" if graphs else "pass a network with a PopulationGraph in it"
            raise ValueError(f"with_graph: expected a network with one graph, got {found}; {hint}")
        return next(iter(graphs.values()))
    if not isinstance(path, str):
        raise TypeError(
            f"with_graph: expected the path of a graph, got {shown(path)} of type "
            f"{type(path).__name__}; pass a str"
        )
    if path not in graphs:
        raise ValueError(
            f"with_graph: expected the path of a graph, got {shown(path)}; "
            f"{which_name(path, graphs)}"
        )
    return graphs[path]
