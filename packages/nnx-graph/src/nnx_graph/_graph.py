"""PopulationGraph: named populations and delayed connections as one stateful module."""

from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from flax import nnx
from nnx_stateful import (
    ACTIVATION_KEY,
    PyTree,
    StatefulModule,
    StatefulModuleOutput,
    has_rng_streams,
    scan_unroll,
    sequence_length,
)

from ._circuit import Circuit
from ._draft import Draft
from ._sequence import run_sequence
from ._spec import Activation, GraphSpec, Population
from ._validation import check_module, check_observation, check_reciprocal, whole_number
from ._view import ConnectionView, find_connection


class PopulationGraph(StatefulModule):
    """A network declared as populations and the delayed connections between them.

    At each step, in the order that the connections without delay impose, every population sums
    what arrives over its connections and, for an input population, its entry of the observation.
    Its ``compute`` module, if any, and then its activation, once, turn the sum into its output.
    A connection of delay k carries the output of k steps ago, and zeros where the episode is
    younger than that; its transform acts on what it carries.

    The input is a dict of arrays (B, size), of which the graph reads the entries that its input
    populations name; a graph without inputs takes anything, for example None. The output is a
    dict with an entry (B, size) for each output population. The carry state holds the outputs that
    are still to be read, in ring buffers ``level<i>_length<L>``, (B, L, columns): one for all
    populations of a level, side by side, whose longest outgoing delay is L. Within a step a level
    waits for the levels before it alone.

    :meth:`unroll` scans cycles with a derivative of their own, for reverse mode. For forward mode
    use ``nnx_stateful.scan_unroll(graph, ...)``.

    Declare first, then :meth:`finalize`, then use it as any other module.

    Args:
      rngs: source of the initial weights; one key for each default connection.

    Raises:
      TypeError: if ``rngs`` is not an ``nnx.Rngs``.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> graph = PopulationGraph(nnx.Rngs(0))
      >>> graph.add_input("eye", 6, input_from="vision")
      >>> graph.add_population("brain", 8, activation=jnp.tanh)
      >>> graph.add_output("arm", 2)
      >>> graph.connect("eye", "brain", delay=2)
      >>> graph.connect("brain", "brain", delay=1)
      >>> graph.connect("brain", "arm")
      >>> graph.finalize()
      >>> out = graph(graph.initialize_state(4), {"vision": jnp.ones((4, 6))})
      >>> out.output["arm"].shape
      (4, 2)
      >>> {name: buffer.shape for name, buffer in out.next_state["buffers"].items()}
      {'level0_length2': (4, 2, 6), 'level1_length1': (4, 1, 8)}
    """

    circuit: Circuit  # the engine, set by finalize

    def __init__(self, rngs: nnx.Rngs):
        if not isinstance(rngs, nnx.Rngs):
            raise TypeError(
                f"PopulationGraph: expected rngs of type nnx.Rngs, got {type(rngs).__name__}; "
                "pass nnx.Rngs(0)"
            )
        self._draft: Draft | None = Draft(rngs)

    def add_input(
        self, name: str, size: int, *, input_from: str, activation: Activation | None = None
    ) -> None:
        """Adds a population whose sum includes an entry of the observation.

        Args:
          name: unique in the graph.
          size: number of units, and width of the entry.
          input_from: the entry of the observation.
          activation: see :meth:`add_population`.

        Raises:
          ValueError, TypeError: see :meth:`add_population`.
          RuntimeError: if the graph is finalized.
        """
        if input_from is None:
            raise TypeError(
                f"PopulationGraph.add_input({name!r}): expected input_from to name an entry of the "
                "observation, got None; use add_population for a population without one"
            )
        self._declare("add_input").add_population(
            Population(name=name, size=size, activation=activation, input_from=input_from), None
        )

    def add_population(
        self,
        name: str,
        size: int,
        *,
        activation: Activation | None = None,
        compute: StatefulModule | None = None,
    ) -> None:
        """Adds an internal population.

        Args:
          name: unique in the graph; free of "->" and "#".
          size: number of units.
          activation: a pure function applied to the sum (B, size), or to the output of
            ``compute``, that keeps its shape; None for the identity.
          compute: a module from the sum (B, size) to the output (B, size), with carry, extras,
            metrics and statistics as any other.

        Raises:
          ValueError: if the name exists or is empty, or the size is below 1.
          TypeError: if the name is no str, the size no int, the activation no function, or
            ``compute`` no StatefulModule.
          RuntimeError: if the graph is finalized.
        """
        self._declare("add_population").add_population(
            Population(name=name, size=size, activation=activation), compute
        )

    def add_output(
        self,
        name: str,
        size: int,
        *,
        output_to: str | None = None,
        activation: Activation | None = None,
    ) -> None:
        """Adds a population whose output is an entry of the graph's output.

        Args:
          name: unique in the graph.
          size: number of units.
          output_to: the entry; by default the name.
          activation: see :meth:`add_population`.

        Raises:
          ValueError: if another population has the same ``output_to``; see also
            :meth:`add_population`.
          TypeError: see :meth:`add_population`.
          RuntimeError: if the graph is finalized.
        """
        entry = name if output_to is None else output_to
        self._declare("add_output").add_population(
            Population(name=name, size=size, activation=activation, output_to=entry), None
        )

    def connect(
        self,
        src: str,
        dst: str,
        *,
        transform: StatefulModule | None = None,
        delay: int = 0,
        reciprocal: bool = False,
    ) -> None:
        """Adds a connection; further ones between the same populations run in parallel.

        Args:
          src: name of the source population.
          dst: name of the destination population.
          transform: a module from (B, size of src) to (B, size of dst); by default a linear map
            with a bias. It acts on the delayed output, its carry is reset with the row.
          delay: steps, at least 0.
          reciprocal: also connect ``dst`` to ``src``, with the same delay and own weights.

        Raises:
          ValueError: if a population is unknown, the delay negative, or ``reciprocal`` is used
            with a transform, with delay 0, or from a population to itself.
          TypeError: if a name is no str, the delay no int, or ``transform`` no StatefulModule.
          RuntimeError: if the graph is finalized.
        """
        draft = self._declare("connect")
        draft.check_ends(src, dst)
        hint = "a delay counts steps; 0 reads the output of the same step"
        delay = whole_number(f"delay of {src!r} to {dst!r}", delay, 0, hint)
        if transform is not None:
            check_module(f"transform of {src!r} to {dst!r}", transform)
        if reciprocal:
            check_reciprocal(src, dst, delay, transform)
        draft.add_connection(src, dst, delay, transform)
        if reciprocal:
            draft.add_connection(dst, src, delay, None)

    def finalize(self) -> None:
        """Checks the declaration, draws the weights, and makes the graph usable.

        Raises:
          ValueError: if connections of delay 0 form a cycle, a custom module returns another
            size than its population's, there is no output, or nothing that drives the graph.
          RuntimeError: if the graph is finalized already.
        """
        self.circuit = self._declare("finalize").build()
        self._draft = None

    @property
    def spec(self) -> GraphSpec:
        """The frozen declaration; before :meth:`finalize` what has been declared so far."""
        return self._draft.spec if self._draft is not None else self._engine().packing.plan.spec

    def connection(self, src: str, dst: str, index: int = 0) -> ConnectionView:
        """Returns a view that reads and writes the weights of one connection.

        Args:
          src: name of the source population.
          dst: name of the destination population.
          index: which of several parallel connections, in the order of declaration.

        Raises:
          ValueError: if there is no such connection.
          RuntimeError: before :meth:`finalize`.

        Example:
          >>> import jax.numpy as jnp
          >>> from flax import nnx
          >>> graph = PopulationGraph(nnx.Rngs(0))
          >>> graph.add_input("a", 1, input_from="x")
          >>> graph.add_output("b", 2)
          >>> graph.connect("a", "b")
          >>> graph.finalize()
          >>> graph.connection("a", "b").kernel[...] = jnp.array([[3.0, 4.0]])
          >>> graph(graph.initialize_state(1), {"x": jnp.ones((1, 1))}).output["b"]
          Array([[3., 4.]], dtype=float32)
        """
        return find_connection(self._engine(), src, dst, index)

    def initialize_state(self, batch_size: int) -> dict[str, PyTree]:
        return self._engine().initialize_state(batch_size)

    def reset_state(self, prev_state: dict[str, PyTree]) -> dict[str, PyTree]:
        return self._engine().reset_state(prev_state)

    def update_statistics(self, rollout_extras: dict[str, PyTree]) -> None:
        self._engine().update_statistics(rollout_extras)

    def __call__(
        self, state: dict[str, PyTree], x: PyTree, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        out = self._engine().step(state, self._drive(state, x, 0), rollout_extras, self._shown())
        return self._publish(out)

    def unroll(
        self,
        state: dict[str, PyTree],
        xs: PyTree,
        done: Any = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        circuit = self._engine()
        drive = self._drive(state, xs, 1)
        wider = any(leaf.dtype != circuit.float_type for leaf in drive.values())
        if wider or has_rng_streams(circuit):  # streams: only stepping keeps the order of draws
            return scan_unroll(self, state, xs, done, rollout_extras)
        steps = sequence_length(self, xs, done, rollout_extras)
        rows = next((leaf.shape[1] for leaf in drive.values()), None) or _rows(state)
        assert rows is not None  # a graph without inputs has buffers
        out = run_sequence(
            circuit, state, drive, done, rollout_extras, (steps, rows), self._shown()
        )
        return self._publish(out)

    def _engine(self) -> Circuit:
        if self._draft is not None:
            raise RuntimeError(
                "PopulationGraph: expected a finalized graph, got one that is still being "
                "declared; call finalize() before using it"
            )
        return self.circuit

    def _declare(self, method: str) -> Draft:
        if self._draft is None:
            _raise_finalized(method)
        return self._draft

    def _drive(self, state: PyTree, x: PyTree, time_axes: int) -> dict[str, jax.Array]:
        """The observation by input population, in the floating type of the parameters."""
        circuit = self._engine()
        dtype = circuit.float_type
        entries = check_observation(circuit.packing.plan.spec, x, time_axes, _rows(state))
        return {
            name: entry.astype(jnp.promote_types(entry.dtype, dtype))
            for name, entry in entries.items()
        }

    def _shown(self) -> tuple[str, ...]:
        """The populations whose outputs are wanted: those that are put out, or all of them."""
        spec = self.spec
        return spec.names if self.recording else tuple(p.name for p in spec.outputs)

    def _publish(self, out: StatefulModuleOutput) -> StatefulModuleOutput:
        """Picks the outputs, and puts every population's in the metrics while recording."""
        populations, metrics = out.output, out.metrics
        if self.recording:
            recorded = {name: {ACTIVATION_KEY: value} for name, value in populations.items()}
            metrics = {k: v for k, v in metrics.items() if k != ACTIVATION_KEY}
            metrics["populations"] = recorded
        outputs = {
            p.output_to: populations[p.name] for p in self._engine().packing.plan.spec.outputs
        }
        return out.replace(output=outputs, metrics=metrics)


def _rows(state: PyTree) -> int | None:
    leaves = jax.tree.leaves(state)
    return leaves[0].shape[0] if leaves else None


def _raise_finalized(method: str) -> NoReturn:
    raise RuntimeError(
        f"PopulationGraph.{method}: expected a graph that is still being declared, got a finalized "
        "one; declare everything before finalize(), which is called once"
    )
