"""Containers: networks made of networks, all on the routing base."""

from ._apply import Apply
from ._concat import Concat
from ._filter import Filter
from ._flattener import Flattener
from ._map import Map
from ._merge import Merge
from ._parallel import Parallel
from ._repeat import Repeat
from ._scale import Scale
from ._sequential import Sequential
from ._splitter import Splitter
from ._tied import Tied

__all__ = [
    "Apply",
    "Concat",
    "Filter",
    "Flattener",
    "Map",
    "Merge",
    "Parallel",
    "Repeat",
    "Scale",
    "Sequential",
    "Splitter",
    "Tied",
]
