"""What a declaration must be like, and what to do where it is not."""

from collections.abc import Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from nnx_stateful import StatefulModule

from ._arrays import as_jax_array
from ._delay import longest
from ._hints import near_names, shown, shown_as_str
from ._numbers import whole_number
from ._order import shortest_cycle
from ._registry import activation_called, check_hashable, check_module_name, name_of_activation
from ._spec import Connection, GraphSpec, Named, Population

_RESERVED = ("->", "#")


def check_name(where: str, kind: str, name: Any) -> None:
    """Raises unless ``name`` can name a population, an input entry or an output entry."""
    if not isinstance(name, str):
        raise TypeError(
            f"{where}: expected {kind} of type str, got {shown(name)} of type "
            f"{type(name).__name__}; use {shown_as_str(name)}"
        )
    if not name:
        raise ValueError(f"{where}: expected {kind} of at least one character, got ''; name it")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{where}: expected {kind} of characters that UTF-8 has, got {shown(name)}; rename it"
        ) from None


def check_population_name(where: str, name: Any, known: Collection[str]) -> None:
    """Raises unless ``name`` is new and leaves connection names unambiguous."""
    check_name(where, "a population name", name)
    found = next((mark for mark in _RESERVED if mark in name), None)
    if found:
        raise ValueError(
            f"{where}: expected a population name without {shown(found)}, which names connections "
            f"('a->b', 'a->b#1'), got {shown(name)}; use another character"
        )
    if name in known:
        raise ValueError(
            f"{where}: expected a new population name, got {shown(name)}, which exists; choose "
            "another, or connect to the existing population"
        )


def check_known(where: str, role: str, name: Any, known: Collection[str]) -> None:
    """Raises unless a population of that name has been declared; suggests the nearest ones."""
    check_name(where, f"the {role} of a connection", name)
    if name in known:
        return
    there = f"there are {', '.join(map(repr, known))}" if known else "there are no populations yet"
    hint = near_names(name, known) or f"{there}; add the population before connecting it"
    raise ValueError(
        f"{where}: expected the name of a population as {role}, got {shown(name)}; {hint}"
    )


def check_entry(where: str, what: str, entry: Any, taken: Mapping[str, str]) -> None:
    """Raises unless ``entry`` can name an entry of the output that no population has taken."""
    check_name(where, what, entry)
    if entry in taken:
        raise ValueError(
            f"{where}: {what}: expected an entry of its own, got {shown(entry)}, which holds the "
            f"output of {shown(taken[entry])}; choose another output_to"
        )


def checked_size(where: str, size: Any) -> int:
    """Returns a number of units as an int; raises unless there is at least one."""
    return whole_number(where, size, 1, "give its number of units")


def checked_activation(name: str, activation: Any) -> Any:
    """Returns an activation, looked up if it is a name; raises unless it is a plain function."""
    where = f"PopulationGraph: activation of {shown(name)}"
    if isinstance(activation, nnx.Module):
        raise TypeError(
            f"{where}: expected a pure function, got the module {type(activation).__name__}, whose "
            "parameters would not train; pass it as compute="
        )
    if not (activation is None or isinstance(activation, str) or callable(activation)):
        raise TypeError(
            f"{where}: expected a function, its name, or None, got {shown(activation)} of type "
            f"{type(activation).__name__}; pass for example jnp.tanh"
        )
    if isinstance(activation, str):
        return activation_called(activation, where)
    check_hashable(where, activation)
    known = name_of_activation(activation)
    return activation_called(known, where) if known else activation


def check_module(what: str, module: Any) -> None:
    """Raises unless ``module`` is a StatefulModule, or says by name how to make one."""
    where = f"PopulationGraph: {what}"
    if isinstance(module, StatefulModule):
        return
    if isinstance(module, str | Named):
        check_module_name(module if isinstance(module, str) else module.name, where)
        return
    got = f"the class {module.__name__}" if isinstance(module, type) else type(module).__name__
    raise TypeError(
        f"{where}: expected a StatefulModule, got {got}; pass an instance, name a registered "
        "module, wrap a pure function in Apply(fn), or write a subclass around an nnx layer"
    )


def check_reciprocal(connection: Connection, transform: Any) -> None:
    """Raises unless a connection can be doubled by its reverse."""
    src, dst, delay = connection.src, connection.dst, connection.delay
    where = f"PopulationGraph.connect({shown(src)}, {shown(dst)}, reciprocal=True)"
    if isinstance(transform, StatefulModule):
        raise ValueError(
            f"{where}: expected the default transform, got {type(transform).__name__}, which fits "
            "one direction; call connect once for each direction"
        )
    if src == dst:
        raise ValueError(
            f"{where}: expected two populations, got one; leave reciprocal out, which adds one "
            "connection from the population to itself"
        )
    if connection.shortest_delay == 0:
        raise ValueError(
            f"{where}: expected a delay of at least 1, got {delay}, which makes the cycle "
            f"{src} -> {dst} -> {src} within one step; pass delay=1, or two calls to connect"
        )


def check_graph(spec: GraphSpec) -> None:
    """Raises unless the declared graph has outputs, something to run on, and an order."""
    if not spec.outputs:
        raise ValueError(
            "PopulationGraph.finalize: expected at least one output population, got none; "
            "declare what the graph returns with add_output"
        )
    immediate = [c for c in spec.connections if not c.shortest_delay]
    cycle = shortest_cycle(spec.names, [(c.src, c.dst) for c in immediate])
    if cycle:
        steps = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        closing = [c for c in immediate if (c.src, c.dst) in steps][-1]
        raise ValueError(
            "PopulationGraph.finalize: expected an order of evaluation, got the delay-0 cycle "
            f"{' -> '.join([*cycle, cycle[0]])}, in which each population waits for the next; "
            f"delay one connection, for example connect({shown(closing.src)}, "
            f"{shown(closing.dst)}, delay=1)"
        )
    if not spec.inputs and not any(longest(c.delay) for c in spec.connections):
        raise ValueError(
            "PopulationGraph.finalize: expected an input population or a connection with a delay, "
            "got neither, so nothing could drive the graph; use add_input, or connect(delay=1)"
        )


def check_transform(connection: Connection, module: StatefulModule, spec: GraphSpec) -> None:
    """Raises unless a custom transform maps the source's size to the destination's."""
    src, dst = spec.population(connection.src), spec.population(connection.dst)
    what = f"transform of {shown(connection.name)}"
    _check_output(what, module, (src.size,), dst.size, f"the size of {shown(dst.name)}")


def check_compute(population: Population, module: StatefulModule) -> None:
    """Raises unless a compute module keeps the population's size."""
    size, what = population.size, f"compute of {shown(population.name)}"
    _check_output(what, module, (size,), size, "the size of the population")


def check_messages(population: Population, count: int) -> None:
    """Raises unless a population with an aggregation has anything to join."""
    if not count:
        raise ValueError(
            f"PopulationGraph.finalize: aggregate of {shown(population.name)}: expected a "
            "connection "
            f"into the population, got none to join by {population.aggregate}; connect one, or "
            "leave the aggregation out"
        )


def check_aggregation(population: Population, module: Any, count: int) -> None:
    """Raises unless a module maps so many messages to the population's size."""
    what = f"aggregate of {shown(population.name)}"
    if not isinstance(module, StatefulModule):
        raise TypeError(
            f"PopulationGraph.finalize: {what}: expected {shown(population.aggregate)} to make a "
            f"StatefulModule, got {type(module).__name__}; register a function that returns one"
        )
    size = population.size
    _check_output(what, module, (count, size), size, "the size of the population")


def check_activation_shape(population: Population) -> None:
    """Raises unless the activation keeps the shape of its input."""
    if population.activation is not None:
        shape = (_probe_rows(population.size), population.size)
        what = f"activation of {shown(population.name)}"
        try:
            got = jax.eval_shape(population.activation, jax.ShapeDtypeStruct(shape, jnp.float32))
        except Exception as error:
            error.add_note(f"PopulationGraph.finalize: in the {what}, called on shape {shape}")
            raise
        _check_shape(what, got, shape, "the shape of its input; apply it along the last axis")


def check_observation(
    spec: GraphSpec, x: Any, time_axes: int, rows: int | None
) -> dict[str, jax.Array]:
    """Returns the observation entries by input population.

    Args:
      spec: the declaration.
      x: the observation: a dict with entries (B, size), or (T, B, size).
      time_axes: 0 for a step, 1 for a sequence.
      rows: B according to the carry state; None if it does not say.
    """
    if not spec.inputs:
        return {}
    wanted = ", ".join(repr(p.input_from) for p in spec.inputs)
    if not isinstance(x, Mapping):
        raise TypeError(
            f"PopulationGraph: expected an observation dict with entries {wanted}, got "
            f"{type(x).__name__}; put a Filter or Splitter before the graph"
        )
    lead = ("T", "B")[1 - time_axes :]
    entries, first = {}, None
    for population in spec.inputs:
        key = population.input_from
        if key not in x:
            there = ", ".join(sorted(map(shown, x)))
            raise ValueError(
                f"PopulationGraph: observation has no entry {shown(key)}, which the input "
                f"population {shown(population.name)} reads; it has [{there}]. Add the entry, or "
                "set input_from"
            )
        entry = as_jax_array(
            f"PopulationGraph: observation entry {shown(key)}", "an array of numbers", x[key]
        )
        shape = entry.shape
        if len(shape) != len(lead) + 1 or shape[-1] != population.size:
            raise ValueError(
                f"PopulationGraph: observation entry {shown(key)}: expected shape "
                f"({', '.join(lead)}, {population.size}) for the input population "
                f"{shown(population.name)}, got {shape}; change its size, or flatten the entry"
            )
        first = first or (shape[:-1] if rows is None else (*shape[:-2], rows))
        if shape[:-1] != first:
            raise ValueError(
                f"PopulationGraph: observation entry {shown(key)}: expected leading axes {first} "
                "as in "
                f"the carry state and the other entries, got {shape[:-1]}; pass equal batches"
            )
        entries[population.name] = entry
    return entries


def _probe_rows(*sizes: int) -> int:
    """A batch size unlike the sizes, so that a mixed-up axis shows."""
    return next(rows for rows in (2, 3, 4, 5) if rows not in sizes)


def _check_output(
    what: str, module: StatefulModule, shape: tuple[int, ...], wanted: int, whose: str
) -> None:
    rows = _probe_rows(*shape, wanted)
    graphdef, variables = nnx.split(module)

    def probe(variables: Any, x: jax.Array) -> Any:
        local = nnx.merge(graphdef, variables)
        return local(local.initialize_state(rows), x).output

    try:
        got = jax.eval_shape(probe, variables, jax.ShapeDtypeStruct((rows, *shape), jnp.float32))
    except Exception as error:
        error.add_note(f"PopulationGraph.finalize: in the {what}, called on shape {(rows, *shape)}")
        raise
    _check_shape(what, got, (rows, wanted), f"the batch and {whose}")


def _check_shape(what: str, got: Any, wanted: tuple[int, ...], hint: str) -> None:
    shape = getattr(got, "shape", None)
    if shape != wanted:
        described = f"shape {shape}" if shape is not None else f"a {type(got).__name__}"
        raise ValueError(
            f"PopulationGraph.finalize: {what}: expected output of shape {wanted}, {hint}, "
            f"got {described}; change the module or the declared size"
        )
