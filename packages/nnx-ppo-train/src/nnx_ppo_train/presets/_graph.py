"""The delayed graph: one population per observation entry, a recurrent one, and read-outs."""

import operator
from collections.abc import Mapping
from typing import Any

from flax import nnx
from nnx_graph import PopulationGraph
from nnx_stateful import Apply, Filter, Flattener, Map, Parallel, Sequential, StatefulModule

from .._action_kinds import ActionSpec
from .._adapter import PPOAdapter
from .._arguments import check_network
from ._heads import normalizer
from ._interface import Interface
from ._mask import beside_mask, on_features, sampling_head, take_mask_apart
from ._options import NetworkOptions


def graph_network(env: Any, rngs: nnx.Rngs, options: NetworkOptions) -> StatefulModule:
    """The preset ``graph``: a population graph whose recurrence is a delayed connection.

    Every entry of the observation is read by an input population that feeds ``hidden``; this has
    a connection to itself with ``options.delay`` and feeds the read-outs. A critic that
    does not share it has such a population of its own, ``critic``.

    Args:
      env: the environment; its observation is an array or a flat dict of arrays.
      rngs: source of initial parameters.
      options: sizes and so on.
    """
    interface = Interface.of(env)
    actor_key, critic_key = interface.parts(options)
    sources = {"hidden": _entries(interface, actor_key)}
    if not interface.shares(options, usual=True):
        sources["critic"] = _entries(interface, critic_key)
    entries = {name: key for part in sources.values() for name, key in part.items()}
    graph = PopulationGraph(rngs, options.compute_dtype)
    for name, key in entries.items():
        graph.add_input(f"in_{name}", interface.width(key), input_from=name)
    for population, part in sources.items():
        graph.add_population(population, options.hidden_size, activation=nnx.swish)
        for name in part:
            graph.connect(f"in_{name}", population)
        graph.connect(population, population, delay=options.delay)
    action = _action_port(graph, interface, rngs, options)
    value = _value_port(graph, interface, source=list(sources)[-1])
    graph.finalize()
    body = [*normalizer(interface, options), _as_entries(entries), graph]
    return Sequential(
        [
            *take_mask_apart(interface),
            *beside_mask(interface, body),
            PPOAdapter(action=action, value=on_features(interface, value)),
        ]
    )


def _entries(interface: Interface, key: str | None) -> dict[str, str | None]:
    """Names of the input populations of a part, and the observation key that each reads."""
    if key is not None:
        return {key: key}
    if isinstance(interface.obs, Mapping):
        return {name: name for name in interface.obs}
    return {"obs": None}


def _as_entries(entries: Mapping[str, str | None]) -> StatefulModule:
    """Turns the observation into the flat dict that the graph reads."""

    def entry(key: str | None) -> Any:
        return (lambda x: x) if key is None else key

    return Sequential(
        [Filter({name: entry(key) for name, key in entries.items()}), Flattener(preserve_levels=1)]
    )


def _action_port(
    graph: PopulationGraph, interface: Interface, rngs: nnx.Rngs, options: NetworkOptions
) -> StatefulModule:
    actions = interface.actions
    bare = isinstance(actions, ActionSpec)
    named = {"action_params": actions} if bare else actions
    for name, spec in named.items():
        population = name if bare else f"action_{name}"
        graph.add_output(population, spec.parameters, output_to=name)
        graph.connect("hidden", population)
    samplers = {
        name: spec.make_sampler(rngs, options.entropy_weight) for name, spec in named.items()
    }
    if interface.masked is None:
        return Map(samplers)

    def head(name: str) -> StatefulModule:
        params = Apply(operator.itemgetter(name))
        return sampling_head(interface, "" if bare else name, params, samplers[name])

    return Parallel({name: head(name) for name in named})


def _value_port(graph: PopulationGraph, interface: Interface, source: str) -> StatefulModule:
    if isinstance(interface.reward, Mapping):
        populations = {name: f"value_{name}" for name in interface.reward}
    else:
        populations = {"value": "value"}
    for population in populations.values():
        graph.add_output(population, 1)
        graph.connect(source, population)
    spec: dict[str, Any] = dict(populations)
    return Filter(spec)


def find_graph(network: StatefulModule) -> PopulationGraph | None:
    """Returns the first population graph inside a network, or None."""
    check_network(network, "find_graph")
    for _, module in nnx.iter_modules(network):
        if isinstance(module, PopulationGraph):
            return module
    return None
