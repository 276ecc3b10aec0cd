"""Graphs of neural populations with delayed connections, as stateful modules for Flax NNX."""

from ._data._data import spec_from_dict, spec_from_json, spec_to_dict, spec_to_json
from ._data._edges import spec_from_edges
from ._data._graphml import read_graphml, write_graphml
from ._data._networkx import spec_from_networkx, spec_to_networkx
from ._declaration._aggregation import AttentionPooling, GatedSum
from ._declaration._connectivity import (
    BlockSparse,
    Connectivity,
    DistanceDependent,
    FixedProbability,
    LowRank,
    Mask,
    OneToOne,
)
from ._declaration._delay import Delay, LearnableDelay
from ._declaration._limits import Limits
from ._declaration._registry import register_activation, register_aggregation, register_module
from ._declaration._spec import Activation, Connection, GraphSpec, Named, Population, Unnamed
from ._engine._common import FrozenWeight
from ._engine._delays import DelaySpread
from ._engine._interventions import Intervention, InterventionValue
from ._graph import PopulationGraph
from ._looking._activity import draw_activity
from ._looking._drawing import draw_graph
from ._looking._summary import ConnectionSummary, GraphSummary, PopulationSummary
from ._view import ConnectionView, ParameterView
from ._with_graph import with_graph

__all__ = [
    "Activation",
    "AttentionPooling",
    "BlockSparse",
    "Connection",
    "ConnectionSummary",
    "ConnectionView",
    "Connectivity",
    "Delay",
    "DelaySpread",
    "DistanceDependent",
    "FixedProbability",
    "FrozenWeight",
    "GatedSum",
    "GraphSpec",
    "GraphSummary",
    "Intervention",
    "InterventionValue",
    "LearnableDelay",
    "Limits",
    "LowRank",
    "Mask",
    "Named",
    "OneToOne",
    "ParameterView",
    "Population",
    "PopulationGraph",
    "PopulationSummary",
    "Unnamed",
    "draw_activity",
    "draw_graph",
    "read_graphml",
    "register_activation",
    "register_aggregation",
    "register_module",
    "spec_from_dict",
    "spec_from_edges",
    "spec_from_json",
    "spec_from_networkx",
    "spec_to_dict",
    "spec_to_json",
    "spec_to_networkx",
    "with_graph",
    "write_graphml",
]
