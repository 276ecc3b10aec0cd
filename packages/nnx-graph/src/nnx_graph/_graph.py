"""PopulationGraph: named populations and delayed connections as one stateful module."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, Self

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import ArrayLike, DTypeLike
from nnx_stateful import (
    ACTIVATION_KEY,
    PyTree,
    StatefulModule,
    StatefulModuleOutput,
    as_compute_dtype,
    has_rng_streams,
    scan_unroll,
    sequence_length,
)

from ._data._data import spec_from_dict, spec_from_json, spec_to_dict, spec_to_json
from ._data._edges import spec_from_edges
from ._data._networkx import spec_from_networkx, spec_to_networkx
from ._declaration._connectivity import Connectivity
from ._declaration._delay import Delay, plain_delay
from ._declaration._hints import shown
from ._declaration._limits import Limits, checked_limits
from ._declaration._numbers import whole_number
from ._declaration._registry import aggregation_called
from ._declaration._spec import Activation, Connection, GraphSpec, Named, Population, Sign
from ._declaration._validation import check_observation, checked_activation
from ._declaration._weight_checks import connectivity_called
from ._draft import Draft, ModuleLike
from ._engine._circuit import Circuit
from ._engine._effects import Effects
from ._engine._interventions import Intervention, Kind
from ._engine._make_intervention import Steps, Target, checked_populations, make_intervention
from ._engine._sequence import run_sequence
from ._looking._dot import to_dot
from ._looking._drawing import draw_graph
from ._looking._mermaid import to_mermaid
from ._looking._summary import GraphSummary, summarize
from ._view import ConnectionView, find_connection

_MOST_ROWS = (1 << 31) - 1


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
    use ``nnx_stateful.scan_unroll(graph, ...)``. A graph with lesions, clamps or currents steps.

    Declare first, then :meth:`finalize`, then use it as any other module.

    Args:
      rngs: source of the initial weights; one key for all default connections.
      compute_dtype: type that the operands of default connections are rounded to, for example
        ``"bfloat16"``; what they add up to, weights, outputs and carry keep theirs. None for their
        own.
      limits: largest sizes, delays, numbers of parameters, ... that may be declared, see
        :class:`Limits`; None for the default ones.

    Raises:
      TypeError: if ``rngs`` is not an ``nnx.Rngs``, or ``compute_dtype`` names no type.
      ValueError: if ``compute_dtype`` is a type that will not do.

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
    interventions: Sequence[Intervention] = ()  # in the order in which they were made
    recorded: tuple[str, ...] = ()  # populations whose outputs are metrics

    def __init__(
        self,
        rngs: nnx.Rngs,
        compute_dtype: DTypeLike | None = None,
        *,
        limits: Limits | None = None,
    ):
        if not isinstance(rngs, nnx.Rngs):
            raise TypeError(
                f"PopulationGraph: expected rngs of type nnx.Rngs, got {type(rngs).__name__}; "
                "pass nnx.Rngs(0)"
            )
        if not (compute_dtype is None or isinstance(compute_dtype, str | type | np.dtype)):
            raise TypeError(
                "PopulationGraph: compute_dtype: expected a type, or None, got "
                f"{shown(compute_dtype)}; write compute_dtype='bfloat16'"
            )
        dtype = as_compute_dtype("PopulationGraph", compute_dtype)
        self._draft: Draft | None = Draft(rngs, dtype, checked_limits("PopulationGraph", limits))

    def add_input(
        self,
        name: str,
        size: int,
        *,
        input_from: str,
        activation: Activation | str | None = None,
        compute: ModuleLike | None = None,
        sign: Sign | None = None,
        aggregate: Named | str | None = None,
    ) -> None:
        """Adds a population whose sum includes an entry of the observation.

        Args:
          name: unique in the graph.
          size: number of units, and width of the entry.
          input_from: the entry of the observation.
          activation: see :meth:`add_population`.
          compute: see :meth:`add_population`; from the sum with the entry in it.
          sign: see :meth:`add_population`.
          aggregate: see :meth:`add_population`.

        Raises:
          ValueError, TypeError: see :meth:`add_population`.
          RuntimeError: if the graph is finalized.
        """
        if input_from is None:
            raise TypeError(
                f"PopulationGraph.add_input({shown(name)}): expected input_from to name an entry "
                "of the observation, got None; use add_population for a population without one"
            )
        self._declare("add_input").add_population(
            Population(
                name=name,
                size=size,
                activation=checked_activation(name, activation),
                input_from=input_from,
                sign=sign,
                aggregate=_aggregation(name, aggregate),
            ),
            compute,
        )

    def add_population(
        self,
        name: str,
        size: int,
        *,
        activation: Activation | str | None = None,
        compute: ModuleLike | None = None,
        sign: Sign | None = None,
        aggregate: Named | str | None = None,
    ) -> None:
        """Adds an internal population.

        Args:
          name: unique in the graph; free of "->" and "#".
          size: number of units.
          activation: a pure function applied to the sum (B, size), or to the output of
            ``compute``, that keeps its shape; or its name, see ``register_activation``; None for
            the identity.
          compute: a module from the sum (B, size) to the output (B, size), with carry, extras,
            metrics and statistics as any other; or the name under which ``register_module`` knows
            it, or a :class:`Named` record of name and options.
          sign: ``"excitatory"`` or ``"inhibitory"``: no weight of the linear maps that leave the
            population is ever of the other sign (Dale's principle); None for either.
          aggregate: how what arrives over the connections is joined, before the entry of the
            observation or a current is added: ``"sum"``, ``"mean"``, ``"max"``, ``"gated"`` (see
            :class:`GatedSum`), ``"attention"`` (see :class:`AttentionPooling`), another name that
            :func:`register_aggregation` knows, or a :class:`Named` record of name and options.
            None for the sum.

        Raises:
          ValueError: if the name exists or is empty, the size is below 1 or beyond a limit, or
            nothing is registered under the name of the activation or module.
          TypeError: if the name is no str, the size no int, the activation no function, or
            ``compute`` no StatefulModule.
          RuntimeError: if the graph is finalized.
        """
        self._declare("add_population").add_population(
            Population(
                name=name,
                size=size,
                activation=checked_activation(name, activation),
                sign=sign,
                aggregate=_aggregation(name, aggregate),
            ),
            compute,
        )

    def add_output(
        self,
        name: str,
        size: int,
        *,
        output_to: str | None = None,
        activation: Activation | str | None = None,
        compute: ModuleLike | None = None,
        sign: Sign | None = None,
        aggregate: Named | str | None = None,
    ) -> None:
        """Adds a population whose output is an entry of the graph's output.

        Args:
          name: unique in the graph.
          size: number of units.
          output_to: the entry; by default the name.
          activation: see :meth:`add_population`.
          compute: see :meth:`add_population`.
          sign: see :meth:`add_population`.
          aggregate: see :meth:`add_population`.

        Raises:
          ValueError: if another population has the same ``output_to``; see also
            :meth:`add_population`.
          TypeError: see :meth:`add_population`.
          RuntimeError: if the graph is finalized.
        """
        entry = name if output_to is None else output_to
        self._declare("add_output").add_population(
            Population(
                name=name,
                size=size,
                activation=checked_activation(name, activation),
                output_to=entry,
                sign=sign,
                aggregate=_aggregation(name, aggregate),
            ),
            compute,
        )

    def connect(
        self,
        src: str,
        dst: str,
        *,
        transform: ModuleLike | None = None,
        delay: Delay | Sequence[float] = 0,
        reciprocal: bool = False,
        connectivity: Connectivity | str | None = None,
        frozen: bool = False,
        share: str | None = None,
    ) -> None:
        """Adds a connection; further ones between the same populations run in parallel.

        Args:
          src: name of the source population.
          dst: name of the destination population.
          transform: a module from (B, size of src) to (B, size of dst); by default a linear map
            with a bias. It acts on the delayed output, its carry is reset with the row. A name or
            a :class:`Named` record stands for a registered module, as in :meth:`add_population`.
          delay: steps, at least 0. A fraction interpolates between the steps before and after it; a
            list has a delay for each unit of the source; a :class:`LearnableDelay` trains. With a
            delay below 1, even of one unit, the destination waits for the source within a step.
          reciprocal: also connect ``dst`` to ``src``, with the same delay and options, and
            own weights unless they are shared.
          connectivity: which units of the linear map are connected, for example ``OneToOne()``,
            ``FixedProbability(0.1)`` or ``LowRank(4)``, or ``"one-to-one"``, the name of one that
            needs no numbers; None for all. What is not connected stays so whatever the optimiser
            does.
          frozen: whether the linear map keeps its initial weights: they are no ``nnx.Param``.
          share: connections of equal sizes with the same name here share the weights of their
            linear map, or the module that ``transform`` names. Connections with one instance as
            transform share it too. A module that is shared is called once for all connections that
            arrive in the same level from within its cycle, and once for those from without, side
            by side; each has a carry of its own.

        Raises:
          ValueError: if the connectivity does not fit the sizes, weights are shared between other
            sizes or frozen as well, one of the three is used with a transform that it does not go
            with, or the source has a sign and a transform or low rank; if a population or the name
            of the transform is unknown, a delay is negative or there are others than one for each
            unit, or ``reciprocal`` is used with an instance as transform, with a delay below 1, or
            from a population to itself; or a limit is exceeded.
          TypeError: if a name is no str, the delay none, or ``transform`` no StatefulModule.
          RuntimeError: if the graph is finalized.
        """
        self._declare("connect").add_connection(
            Connection(
                src=src,
                dst=dst,
                delay=plain_delay(delay),
                connectivity=connectivity_called(
                    f"PopulationGraph.connect({shown(src)}, {shown(dst)})", connectivity
                ),
                frozen=frozen,
                share=share,
            ),
            transform,
            reciprocal,
        )

    def finalize(self) -> None:
        """Checks the declaration, draws the weights, and makes the graph usable.

        Raises:
          ValueError: if connections of delay 0 form a cycle, a custom module returns another
            size than its population's, there is no output, or nothing that drives the graph; or
            weights or ring buffers are beyond a limit, see :class:`Limits`.
          RuntimeError: if the graph is finalized already.
        """
        self.circuit = self._declare("finalize").build()
        self._draft = None

    @classmethod
    def from_spec(
        cls,
        spec: GraphSpec,
        rngs: nnx.Rngs,
        modules: Mapping[str, StatefulModule] | None = None,
        *,
        compute_dtype: DTypeLike | None = None,
        limits: Limits | None = None,
    ) -> Self:
        """Builds and finalizes the graph of a declaration.

        From rngs of the same seed it has the weights of the graph that was declared by calls,
        unless those rngs served for anything else in between.

        Args:
          spec: for example another graph's :attr:`spec`.
          rngs: source of the initial weights.
          compute_dtype: see :class:`PopulationGraph`.
          modules: those that the declaration holds as :class:`Unnamed`, by the name of the
            population or connection: ``{"a": compute, "a->b": transform}``.
          limits: see :class:`PopulationGraph`.

        Raises:
          ValueError: if the declaration is none that calls could have made, a module is missing,
            or one is given for another place; see also :meth:`finalize`.
          TypeError: if a field of the declaration or a module is of another type.

        Example:
          >>> from flax import nnx
          >>> graph = PopulationGraph(nnx.Rngs(0))
          >>> graph.add_input("a", 1, input_from="x")
          >>> graph.add_output("b", 2, activation="tanh")
          >>> graph.connect("a", "b", transform="gru")
          >>> graph.finalize()
          >>> PopulationGraph.from_spec(graph.spec, nnx.Rngs(0)).spec == graph.spec
          True
        """
        graph = cls(rngs, compute_dtype, limits=limits)
        graph._declare("from_spec").add_spec(spec, {} if modules is None else modules)
        graph.finalize()
        return graph

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        rngs: nnx.Rngs,
        *,
        compute_dtype: DTypeLike | None = None,
        limits: Limits | None = None,
    ) -> Self:
        """Builds the graph that :meth:`to_dict` describes; see :func:`spec_from_dict`."""
        spec = spec_from_dict(data, limits=limits)
        return cls.from_spec(spec, rngs, compute_dtype=compute_dtype, limits=limits)

    @classmethod
    def from_json(
        cls,
        text: str,
        rngs: nnx.Rngs,
        *,
        compute_dtype: DTypeLike | None = None,
        limits: Limits | None = None,
    ) -> Self:
        """Builds the graph that a JSON text describes; see :func:`spec_from_json`."""
        spec = spec_from_json(text, limits=limits)
        return cls.from_spec(spec, rngs, compute_dtype=compute_dtype, limits=limits)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        rngs: nnx.Rngs,
        *,
        compute_dtype: DTypeLike | None = None,
        limits: Limits | None = None,
        **options: Any,
    ) -> Self:
        """Builds the graph that a networkx graph describes.

        Args:
          graph: directed or not, with parallel edges or without.
          rngs: source of the initial weights.
          compute_dtype: see :class:`PopulationGraph`.
          limits: see :class:`PopulationGraph`.
          **options: those of :func:`spec_from_networkx`: size, delay, activation, inputs, outputs.
        """
        spec = spec_from_networkx(graph, limits=limits, **options)
        return cls.from_spec(spec, rngs, compute_dtype=compute_dtype, limits=limits)

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        sizes: Any,
        rngs: nnx.Rngs,
        *,
        compute_dtype: DTypeLike | None = None,
        limits: Limits | None = None,
        **options: Any,
    ) -> Self:
        """Builds a graph from an adjacency matrix or a list of edges.

        Args:
          edges: (N, N), source by destination; or pairs, see :func:`spec_from_edges`.
          sizes: of the populations: one for all, one for each, or by name.
          rngs: source of the initial weights.
          compute_dtype: see :class:`PopulationGraph`.
          limits: see :class:`PopulationGraph`.
          **options: those of :func:`spec_from_edges`: names, delay, activation, sign,
            connectivity, frozen, share, inputs, outputs.
        """
        spec = spec_from_edges(edges, sizes, limits=limits, **options)
        return cls.from_spec(spec, rngs, compute_dtype=compute_dtype, limits=limits)

    def to_dict(self) -> dict[str, Any]:
        """Returns the declaration as plain data; see :func:`spec_to_dict`."""
        return spec_to_dict(self.spec)

    def to_json(self, indent: int | None = 2) -> str:
        """Returns the declaration as JSON; see :func:`spec_to_json`."""
        return spec_to_json(self.spec, indent)

    def to_networkx(self) -> Any:
        """Returns the declaration as a networkx.MultiDiGraph; see :func:`spec_to_networkx`."""
        return spec_to_networkx(self.spec)

    def summary(self) -> GraphSummary:
        """Returns what there is to know about populations and connections, in tables.

        Before :meth:`finalize` it has what is known from the declaration alone: no levels, buffers
        and parameters of custom modules.

        Returns:
          Records of populations, connections and totals; ``print`` shows them as text, and rich's
          ``print`` as tables.

        Example:
          >>> graph = PopulationGraph(nnx.Rngs(0))
          >>> graph.add_input("ear", 3, input_from="sound")
          >>> graph.add_output("mouth", 2, activation=jnp.tanh)
          >>> graph.connect("ear", "mouth", delay=4)
          >>> graph.finalize()
          >>> print(graph.summary())
          PopulationGraph: 2 populations (1 input, 1 output), 1 connection
          <BLANKLINE>
          population  size  role    activation  level  bytes per row
          ear            3  input                   0             48
          mouth          2  output  tanh            1
          <BLANKLINE>
          connection  delay  transform  shape   parameters
          ear->mouth      4  linear     3 to 2           8
          <BLANKLINE>
          8 parameters; 48 bytes of buffers per batch row
        """
        return summarize(self.spec, None if self._draft is not None else self._engine())

    def draw(self, ax: Any = None) -> Any:
        """Draws the graph on matplotlib axes and returns them; see :func:`draw_graph`."""
        return draw_graph(self, ax)

    def to_mermaid(self) -> str:
        """Returns a Mermaid flowchart, which GitHub and many editors show as a picture.

        Inputs are rounded, outputs hexagons, arrows that lead back dotted, and those from
        inhibitory populations end in a circle. Labels of arrows have the delay, the connectivity,
        "frozen", and "=" with the name under which weights are shared. Names may contain anything:
        nodes are ``p0``, ``p1``, ... in the order of declaration. Mermaid itself draws up to 500
        arrows unless it is told otherwise.
        """
        return to_mermaid(self.spec)

    def to_dot(self) -> str:
        """Returns a Graphviz digraph, for the command ``dot`` and what else reads its language.

        Nodes have the names of the populations. Inputs are ellipses, outputs hexagons, edges that
        lead back dashed, and those from inhibitory populations end in a bar. Labels of edges are as
        in :meth:`to_mermaid`.
        """
        return to_dot(self.spec)

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
          TypeError: if a name is no str, or the index no int.
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

    def lesion(
        self,
        target: Target,
        strength: ArrayLike = 1.0,
        *,
        rows: ArrayLike | None = None,
        steps: Steps = None,
    ) -> Self:
        """Returns a graph in which a population puts out nothing, or a connection carries nothing.

        It shares all variables with this graph, which stays as it is; so do the graphs that
        :meth:`clamp`, :meth:`stimulate` and :meth:`record` return. Calls can be chained: what is
        lesioned or clamped several times undergoes each in the order of the calls, after whatever
        stimulates it.

        A lesioned population has the output 0, whatever its bias or activation; what had left it
        before still arrives over connections with a delay. Over a lesioned connection 0 arrives
        instead of what its transform returns, the bias included. Custom modules run on.

        A graph with lesions, clamps or currents steps through :meth:`unroll`.

        Args:
          target: name of a population, or of a connection, ``"a->b"`` or ``"a->b#1"``; or
            ``("a", "b")`` or ``("a", "b", 1)`` for the same connections.
          strength: share that is lost, from 0 to 1; of shape (), (size,) with one for each unit of
            the population or destination, (B, 1) or (B, size).
          rows: (B,) bool, the rows of the batch that are lesioned; None for all of them.
          steps: when it acts, in steps since the row's last reset: a range or slice, as in
            ``range(100, 150)``, or bool of shape (N,) or (B, N), false from step N on; None for
            always. A schedule adds an entry ``"step"``, (B,), to the carry state.

        Raises:
          ValueError: if there is no such target, a strength is not from 0 to 1, or a shape or
            range of steps fits nothing; when the graph runs, if the batch has other than B rows.
          TypeError: if the target is no name, or an array is of another type.
          RuntimeError: before :meth:`finalize`.

        Example:
          >>> import jax.numpy as jnp
          >>> from flax import nnx
          >>> graph = PopulationGraph(nnx.Rngs(0))
          >>> graph.add_input("a", 1, input_from="x")
          >>> graph.add_output("b", 1)
          >>> graph.connect("a", "b")
          >>> graph.finalize()
          >>> graph.connection("a", "b").kernel[...] = 8.0
          >>> cut = graph.lesion("a->b", jnp.array([[0.0], [0.25], [1.0]]))
          >>> cut(cut.initialize_state(3), {"x": jnp.ones((3, 1))}).output["b"].ravel().tolist()
          [8.0, 6.0, 0.0]
        """
        return self._with("lesion", target, strength, rows, steps)

    def clamp(
        self,
        population: str,
        value: ArrayLike,
        *,
        rows: ArrayLike | None = None,
        steps: Steps = None,
    ) -> Self:
        """Returns a graph in which a population puts out a given value.

        It shares all variables with this graph, see :meth:`lesion`.

        Args:
          population: its name.
          value: what it puts out, after the activation; (), (size,), (B, 1) or (B, size).
          rows: see :meth:`lesion`.
          steps: see :meth:`lesion`.

        Raises:
          ValueError, TypeError, RuntimeError: see :meth:`lesion`.
        """
        return self._with("clamp", population, value, rows, steps)

    def stimulate(
        self,
        population: str,
        current: ArrayLike,
        *,
        rows: ArrayLike | None = None,
        steps: Steps = None,
    ) -> Self:
        """Returns a graph in which a current is added to the sum of a population.

        It shares all variables with this graph, see :meth:`lesion`. Several currents add up.

        Args:
          population: its name.
          current: added before ``compute`` and activation; (), (size,), (B, 1) or (B, size).
          rows: see :meth:`lesion`.
          steps: see :meth:`lesion`.

        Raises:
          ValueError, TypeError, RuntimeError: see :meth:`lesion`.
        """
        return self._with("stimulate", population, current, rows, steps)

    def record(self, populations: str | Iterable[str]) -> Self:
        """Returns a graph that puts outputs of populations into its metrics.

        They are found where a recording copy of :func:`nnx_stateful.with_recording` has those of
        all: ``extract_activations(out.metrics)["populations/a"]``. The graph shares all variables
        with this one. Further calls record further populations.

        Args:
          populations: their names.

        Raises:
          ValueError: if there is no such population.
          TypeError: if a name is no str.
          RuntimeError: before :meth:`finalize`.

        Example:
          >>> import jax.numpy as jnp
          >>> from flax import nnx
          >>> from nnx_stateful import extract_activations
          >>> graph = PopulationGraph(nnx.Rngs(0))
          >>> graph.add_input("a", 1, input_from="x")
          >>> graph.add_output("b", 1)
          >>> graph.finalize()
          >>> watched = graph.record("a")
          >>> out = watched(watched.initialize_state(1), {"x": jnp.ones((1, 1))})
          >>> extract_activations(out.metrics)
          {'populations/a': Array([[1.]], dtype=float32)}
        """
        self._engine()
        found = checked_populations(self.spec, populations)
        copy = nnx.view(self)
        copy.recorded = tuple(n for n in self.spec.names if n in self.recorded or n in found)
        return copy

    def initialize_state(self, batch_size: int) -> dict[str, PyTree]:
        where = "PopulationGraph.initialize_state: batch_size"
        rows = whole_number(where, batch_size, 0, "it is the number of rows of the batch")
        if rows > _MOST_ROWS:
            raise ValueError(
                f"{where}: expected at most {_MOST_ROWS} rows, got {shown(rows)}; use fewer"
            )
        state = self._engine().initialize_state(rows)
        if self._is_scheduled:
            state["step"] = jnp.zeros(batch_size, jnp.int32)
        return state

    def reset_state(self, prev_state: dict[str, PyTree]) -> dict[str, PyTree]:
        state = self._engine().reset_state(prev_state)
        if self._is_scheduled:
            state["step"] = jnp.zeros_like(prev_state["step"])
        return state

    def carry_written(self, next_state: dict[str, PyTree]) -> dict[str, PyTree]:
        return self._engine().carry_written(next_state)

    def update_statistics(self, rollout_extras: dict[str, PyTree]) -> None:
        self._engine().update_statistics(rollout_extras)

    def __call__(
        self, state: dict[str, PyTree], x: PyTree, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        circuit, step = self._engine(), self._step(state)
        out = circuit.step(
            state,
            self._drive(state, x, 0),
            rollout_extras,
            self._shown(),
            Effects(circuit.packing, self.interventions, step),
        )
        if step is not None:
            out = out.replace(next_state={**out.next_state, "step": step + 1})
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
        streams = has_rng_streams(circuit)  # only stepping keeps the order of draws
        if wider or streams or self.interventions:
            return scan_unroll(self, state, xs, done, rollout_extras)
        steps = sequence_length(self, xs, done, rollout_extras)
        rows = next((leaf.shape[1] for leaf in drive.values()), None) or _rows(state)
        assert rows is not None  # a graph without inputs has buffers
        out = run_sequence(
            circuit, state, drive, done, rollout_extras, (steps, rows), self._shown()
        )
        return self._publish(out)

    def _with(self, kind: Kind, target: Any, value: Any, rows: Any, steps: Any) -> Self:
        """A graph with one more intervention, which shares all variables with this one."""
        self._engine()
        intervention = make_intervention(self.spec, kind, target, value, rows, steps)
        copy = nnx.view(self)
        copy.interventions = nnx.List([*copy.interventions, intervention])
        return copy

    @property
    def _is_scheduled(self) -> bool:
        return any(intervention.steps is not None for intervention in self.interventions)

    def _step(self, state: PyTree) -> jax.Array | None:
        """(B,), steps since the last reset; None where no intervention is scheduled."""
        if not self._is_scheduled:
            return None
        if "step" not in state:
            raise ValueError(
                "PopulationGraph: expected a carry state with an entry 'step', by which "
                f"interventions are scheduled, got entries {sorted(state)}; start from "
                "initialize_state, or add jnp.zeros(B, jnp.int32)"
            )
        return state["step"]

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
        """The populations whose outputs are wanted: put out or recorded, or all of them."""
        spec = self.spec
        if self.recording:
            return spec.names
        return tuple(dict.fromkeys([*(p.name for p in spec.outputs), *self.recorded]))

    def _publish(self, out: StatefulModuleOutput) -> StatefulModuleOutput:
        """Picks the outputs, and puts those of recorded populations into the metrics."""
        populations, metrics = out.output, out.metrics
        recorded = populations if self.recording else self.recorded
        if recorded:
            metrics = {k: v for k, v in metrics.items() if k != ACTIVATION_KEY}
            metrics["populations"] = {n: {ACTIVATION_KEY: populations[n]} for n in recorded}
        outputs = {
            p.output_to: populations[p.name] for p in self._engine().packing.plan.spec.outputs
        }
        return out.replace(output=outputs, metrics=metrics)


def _aggregation(name: str, aggregate: Any) -> Named | None:
    return aggregation_called(aggregate, f"PopulationGraph: aggregate of {shown(name)}")


def _rows(state: PyTree) -> int | None:
    leaves = jax.tree.leaves(state)
    return leaves[0].shape[0] if leaves else None


def _raise_finalized(method: str) -> NoReturn:
    raise RuntimeError(
        f"PopulationGraph.{method}: expected a graph that is still being declared, got a finalized "
        "one; declare everything before finalize(), which is called once"
    )
