"""Ready-made networks; the one part besides the command line that knows population graphs."""

from ._graph import find_graph
from ._mlp import make_mlp_actor_critic
from ._options import NetworkOptions
from ._registry import list_networks, make_network

__all__ = [
    "NetworkOptions",
    "find_graph",
    "list_networks",
    "make_mlp_actor_critic",
    "make_network",
]
