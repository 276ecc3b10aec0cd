"""An interpreter of declared graphs in plain Python and NumPy, to compare engines with."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from .._declaration._delay import LearnableDelay
from .._declaration._spec import Connection, Population
from .._engine._interventions import Intervention
from .._graph import PopulationGraph


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


def _gated(module: Any, messages: np.ndarray) -> np.ndarray:
    kernel, bias = np.asarray(module.kernel[...], float), np.asarray(module.bias[...], float)
    return np.sum(messages / (1 + np.exp(-(messages @ kernel + bias))), axis=0)


def _attention(module: Any, messages: np.ndarray) -> np.ndarray:
    parts = (module.query, module.key, module.value)
    query, key, value = (np.asarray(part[...], float) for part in parts)
    heads = []
    for head, asked in enumerate(query):
        scores = np.array([m @ key[:, head] @ asked for m in messages]) / np.sqrt(len(asked))
        weights = np.exp(scores) / np.exp(scores).sum()
        heads.append(sum(w * (m @ value[:, head]) for w, m in zip(weights, messages, strict=True)))
    return np.concatenate(heads)


NUMPY_AGGREGATIONS: dict[str, Callable[[Any, np.ndarray], np.ndarray]] = {
    "attention": _attention,
    "gated": _gated,
    "max": lambda _, messages: messages.max(axis=0),
    "mean": lambda _, messages: messages.mean(axis=0),
}
"""The aggregations that the interpreter knows, as functions of their module and the messages."""


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
      graph: a finalized graph; its declaration, its connections' weights and its interventions
        are read.
      xs: observation entries (T, B, size).
      done: (T, B), true where the episode of the row ends with the step.
      custom: for each custom transform, by connection name, and each compute, by population
        name, an object with ``step_row(held, x) -> (held, output)`` in NumPy, where ``held`` is
        None at the start of an episode, for example a :class:`LeakyProbe`.

    Returns:
      ``result[t][row]``, the output of every population by name.

    Raises:
      KeyError: if an activation has no twin in NUMPY_ACTIVATIONS, an aggregation none in
        NUMPY_AGGREGATIONS, or a custom module is missing.

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
        _Row(graph, weights, custom or {}, row).run(
            [{key: np.asarray(x[t][row], float) for key, x in xs.items()} for t in range(steps)],
            [bool(done[t][row]) for t in range(steps)],
        )
        for row in range(rows)
    ]
    return [[by_row[row][t] for row in range(rows)] for t in range(steps)]


class _Row:
    """One row of the batch through time."""

    def __init__(
        self,
        graph: PopulationGraph,
        weights: Mapping[str, Any],
        custom: Mapping[str, Any],
        row: int,
    ):
        self._spec = graph.spec
        self._interventions = [_RowIntervention(found, row) for found in graph.interventions]
        self._weights = weights
        self._delays = {c.name: _tap_weights(graph, c) for c in graph.spec.connections}
        self._aggregates = graph.circuit.aggregates
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
        messages = [
            self._arrival(connection, observation, now)
            for connection in self._spec.connections
            if connection.dst == population.name
        ]
        total = self._joined(population, messages)
        if population.input_from is not None:
            total = total + observation[population.input_from]
        total = self._intervened(population.name, total, ("stimulate",))
        if population.has_compute:
            total = self._step(population.name, total)
        output = NUMPY_ACTIVATIONS[population.activation](total)
        now[population.name] = self._intervened(population.name, output, ("lesion", "clamp"))
        return now[population.name]

    def _arrival(
        self, connection: Connection, observation: dict[str, np.ndarray], now: dict[str, np.ndarray]
    ) -> np.ndarray:
        src = self._spec.population(connection.src)
        carried = np.zeros(src.size)
        for steps, weights in self._delays[connection.name].items():
            sent = len(self._past) - steps
            if steps == 0:
                carried = carried + weights * self._output(src, observation, now)
            elif sent >= self._born:
                carried = carried + weights * self._past[sent][src.name]
        if connection.has_transform:
            arriving = self._step(connection.name, carried)
        else:
            kernel, bias = self._weights[connection.name]
            arriving = carried @ kernel + bias
        return self._intervened(connection.name, arriving, ("lesion",))

    def _joined(self, population: Population, messages: list[np.ndarray]) -> np.ndarray:
        if population.aggregate is None:
            return sum(messages, np.zeros(population.size))
        modules = {} if self._aggregates is None else self._aggregates.children
        join = NUMPY_AGGREGATIONS[population.aggregate.name]
        return join(modules.get(population.name), np.stack(messages))

    def _intervened(self, target: str, x: np.ndarray, kinds: tuple[str, ...]) -> np.ndarray:
        age = len(self._past) - self._born
        for intervention in self._interventions:
            if (
                intervention.target == target
                and intervention.kind in kinds
                and intervention.acts_at(age)
            ):
                x = intervention.applied(x)
        return x

    def _step(self, name: str, x: np.ndarray) -> np.ndarray:
        self._held[name], output = self._custom[name].step_row(self._held.get(name), x)
        return output


def _tap_weights(graph: PopulationGraph, connection: Connection) -> dict[int, np.ndarray]:
    """For each number of steps that a connection goes back, how much of each unit it reads."""
    size, delay = graph.spec.population(connection.src).size, connection.delay
    if isinstance(delay, LearnableDelay):
        view = graph.connection(connection.src, connection.dst, connection.index)
        each = np.broadcast_to(np.asarray(view.delay[...], float), (size,))
        spread, reach = float(view.delay_spread[...]), range(delay.minimum, delay.maximum + 1)
    else:
        each, spread = np.broadcast_to(np.asarray(delay, float), (size,)), 1.0
        reach = range(int(each.min()), int(np.ceil(each.max())) + 1)
    near = {steps: np.maximum(0.0, 1 - np.abs(each - steps) / spread) for steps in reach}
    whole = sum(near.values())
    return {steps: weights / whole for steps, weights in near.items() if weights.any()}


class _RowIntervention:
    """An intervention as one row of the batch undergoes it."""

    def __init__(self, intervention: Intervention, row: int):
        self.kind, self.target = intervention.kind, intervention.target
        self._value = self._own(1.0 if intervention.value is None else intervention.value, row)
        self._chosen = intervention.rows is None or bool(np.asarray(intervention.rows[...])[row])
        steps = intervention.steps
        self._steps = steps if steps is None or isinstance(steps, tuple) else self._own(steps, row)

    @staticmethod
    def _own(given: Any, row: int) -> np.ndarray:
        array = np.asarray(given)
        return array[row] if array.ndim == 2 else array

    def acts_at(self, age: int) -> bool:
        if isinstance(self._steps, tuple):
            start, stop, every = self._steps
            steps = range(start, age + 1 if stop is None else stop, every)
            return self._chosen and age in steps
        if self._steps is None:
            return self._chosen
        return self._chosen and age < len(self._steps) and bool(self._steps[age])

    def applied(self, x: np.ndarray) -> np.ndarray:
        if self.kind == "stimulate":
            return x + self._value
        kept, value = (0.0, self._value) if self.kind == "clamp" else (1 - self._value, 0.0)
        return kept * np.where(kept == 0, 0.0, x) + value  # nothing is left of what is not finite
