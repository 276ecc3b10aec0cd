"""An interpreter of declared graphs in plain Python and NumPy, to compare engines with."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from .._graph import PopulationGraph
from .._spec import Connection, Population


def _swish(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


NUMPY_ACTIVATIONS: dict[Any, Callable[[np.ndarray], np.ndarray]] = {
    None: lambda x: x,
    jnp.tanh: np.tanh,
    nnx.relu: lambda x: np.maximum(x, 0),
    nnx.swish: _swish,
    nnx.tanh: np.tanh,
}
"""The activations that the interpreter knows, with their NumPy twins."""


def interpret(
    graph: PopulationGraph,
    xs: Mapping[str, Any],
    done: Any,
    custom: Mapping[str, Any] | None = None,
) -> list[list[dict[str, np.ndarray]]]:
    """Runs a graph from fresh rows by its definition: row by row, on plain lists.

    It knows nothing of buffers, orders or batches: the output of a population at a step is asked
    for, and asks for what it needs; a delayed connection looks up the list of past outputs.

    Args:
      graph: a finalized graph; its declaration and its connections' weights are read.
      xs: observation entries (T, B, size).
      done: (T, B), true where the episode of the row ends with the step.
      custom: for each custom transform, by connection name, and each compute, by population
        name, an object with ``step_row(held, x) -> (held, output)`` in NumPy, where ``held`` is
        None at the start of an episode, for example a :class:`LeakyProbe`.

    Returns:
      ``result[t][row]``, the output of every population by name.

    Raises:
      KeyError: if an activation has no twin in NUMPY_ACTIVATIONS, or a custom module is missing.

    Example:
      >>> graph = PopulationGraph(nnx.Rngs(0))
      >>> graph.add_input("a", 1, input_from="x")
      >>> graph.add_output("b", 1)
      >>> graph.connect("a", "b", delay=1)
      >>> graph.finalize()
      >>> result = interpret(graph, {"x": np.ones((3, 1, 1))}, np.zeros((3, 1), bool))
      >>> [float(result[t][0]["b"][0]) != 0 for t in range(3)]
      [False, True, True]
    """
    steps, rows = np.shape(done)
    weights = {
        c.name: (np.asarray(view.kernel, float), np.asarray(view.bias, float))
        for c in graph.spec.connections
        if not c.has_transform
        for view in [graph.connection(c.src, c.dst, c.index)]
    }
    by_row = [
        _Row(graph, weights, custom or {}).run(
            [{key: np.asarray(x[t][row], float) for key, x in xs.items()} for t in range(steps)],
            [bool(done[t][row]) for t in range(steps)],
        )
        for row in range(rows)
    ]
    return [[by_row[row][t] for row in range(rows)] for t in range(steps)]


class _Row:
    """One row of the batch through time."""

    def __init__(
        self, graph: PopulationGraph, weights: Mapping[str, Any], custom: Mapping[str, Any]
    ):
        self._spec = graph.spec
        self._weights = weights
        self._custom = custom
        self._past: list[dict[str, np.ndarray]] = []
        self._born = 0  # first step of the running episode
        self._held: dict[str, Any] = {}

    def run(
        self, observations: list[dict[str, np.ndarray]], done: list[bool]
    ) -> list[dict[str, np.ndarray]]:
        for observation, ended in zip(observations, done, strict=True):
            now: dict[str, np.ndarray] = {}
            for population in self._spec.populations:
                self._output(population, observation, now)
            self._past.append(now)
            if ended:
                self._born, self._held = len(self._past), {}
        return self._past

    def _output(
        self, population: Population, observation: dict[str, np.ndarray], now: dict[str, np.ndarray]
    ) -> np.ndarray:
        if population.name in now:
            return now[population.name]
        total = np.zeros(population.size)
        if population.input_from is not None:
            total = total + observation[population.input_from]
        for connection in self._spec.connections:
            if connection.dst == population.name:
                total = total + self._arrival(connection, observation, now)
        if population.has_compute:
            total = self._step(population.name, total)
        now[population.name] = NUMPY_ACTIVATIONS[population.activation](total)
        return now[population.name]

    def _arrival(
        self, connection: Connection, observation: dict[str, np.ndarray], now: dict[str, np.ndarray]
    ) -> np.ndarray:
        src = self._spec.population(connection.src)
        sent = len(self._past) - connection.delay
        if connection.delay == 0:
            carried = self._output(src, observation, now)
        elif sent >= self._born:
            carried = self._past[sent][src.name]
        else:
            carried = np.zeros(src.size)
        if connection.has_transform:
            return self._step(connection.name, carried)
        kernel, bias = self._weights[connection.name]
        return carried @ kernel + bias

    def _step(self, name: str, x: np.ndarray) -> np.ndarray:
        self._held[name], output = self._custom[name].step_row(self._held.get(name), x)
        return output
