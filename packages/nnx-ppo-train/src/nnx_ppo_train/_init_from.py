"""Networks that begin with another run's parameters, and parameters that are not trained."""

import fnmatch
import logging
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from nnx_stateful import FixedParameter, StatefulModule

from ._adapter import ValueUnits, set_value_units
from ._arguments import as_path, check_network
from ._background import wait_for_saves
from ._checkpoint_files import read_arrays, read_record
from ._checkpoint_leaves import is_key, named_leaves, of_network, restored
from ._checkpoint_matching import match_leaves, told
from ._validate import check_bool, shown

_LOG = logging.getLogger("nnx_ppo_train")
Patterns = str | Sequence[str]


def init_from(
    path: str | os.PathLike[str],
    networks: StatefulModule,
    *,
    take: Patterns = "*",
    allow_partial: bool = False,
) -> StatefulModule:
    """Returns a network that begins with the parameters and statistics of another run.

    Arrays are taken where their path in the network (:func:`parameter_paths`) matches a pattern;
    ``*`` stands for any text, slashes too, and a pattern that names a module means all inside.
    Those that are not taken are logged. Random keys stay as they are. The unit of values is not
    taken, since the new run finds its own: until then values are normalized ones.

    Args:
      path: a checkpoint of the other run.
      networks: the network to begin with; it stays as it is.
      take: a pattern, or several.
      allow_partial: take what fits, and log a warning with what does not: where a path matches and
        the other run has no such array, or one of another shape.

    Raises:
      FileNotFoundError: if there is nothing at the path.
      ValueError: if it is no checkpoint, or a damaged one; if a pattern matches no path; if arrays
        that match do not fit (the message names all of them).
    """
    path = as_path(path, "init_from")
    check_network(networks, "init_from")
    check_bool(allow_partial, "init_from: allow_partial")
    wait_for_saves(path)
    record = read_record(path)
    networks = nnx.clone(networks)
    set_value_units(networks, {})  # the new run finds its own
    saved = {_in_network(name): name for name in record["leaves"] if of_network(name)}
    graphdef, state = nnx.split(networks)
    own = named_leaves(state, like=record["leaves"])
    paths = {name: path for name, path in _paths(own, networks).items() if not is_key(own[name])}
    chosen = _matching(paths.values(), take, "init_from: take")
    wanted = {name: own[name] for name, plain in paths.items() if plain in chosen}
    served = {name: record["leaves"][source] for name, source in saved.items() if name in own}
    match = match_leaves(served, wanted, record["written_as"])
    problems = [problem for problem in match.problems if problem.name in wanted]
    if problems and not allow_partial:
        raise ValueError(
            f"{path}: expected the arrays that {take!r} asks for, got others: {told(problems)}; "
            "narrow `take`, or take what fits with allow_partial=True"
        )
    if problems:
        _LOG.warning("init_from %s: not taken, for it does not fit: %s", path, told(problems))
    left = [plain for plain in paths.values() if plain not in chosen]
    if left:
        _LOG.info("init_from %s: left as they were, for no pattern matches: %s", path, left)
    arrays = read_arrays(path, record)

    def leaf(name: str, own_leaf: Any) -> Any:
        if name not in match.sources:
            return own_leaf
        source = match.sources[name]
        if source is None:
            return jnp.zeros_like(own_leaf)
        return restored(arrays[saved[source]], record["leaves"][saved[source]])

    leaves = [leaf(name, own_leaf) for name, own_leaf in own.items()]
    return nnx.merge(graphdef, jax.tree.unflatten(jax.tree.structure(state), leaves))


def freeze(networks: StatefulModule, patterns: Patterns) -> StatefulModule:
    """Returns a network whose parameters that match are not trained.

    They become :class:`nnx_stateful.FixedParameter`, which gradients, weight decay and the
    optimizer do not see. Connections of a PopulationGraph are packed into few arrays: freeze these
    one by one where the graph is declared (``connect(..., frozen=True)``).

    Args:
      networks: the network; it stays as it is.
      patterns: a pattern of paths (:func:`parameter_paths`), or several, as :func:`init_from` takes
        them.

    Raises:
      ValueError: if a pattern matches no parameter, or no parameter would be left to train.

    Example:
      >>> from flax import nnx
      >>> from nnx_ppo_train.presets import make_mlp_actor_critic
      >>> net = make_mlp_actor_critic(4, 1, nnx.Rngs(0))
      >>> net = freeze(net, "child_modules/1/child_modules/0/child_modules/0")  # the first layer
      >>> len(nnx.to_flat_state(nnx.state(net, FixedParameter)))
      2
    """
    check_network(networks, "freeze")
    networks = nnx.clone(networks)
    params = {
        "/".join(map(str, path)): variable
        for path, variable in _variables(networks)
        if isinstance(variable, nnx.Param)
    }
    chosen = _matching(params, patterns, "freeze: patterns")
    if len(chosen) == len(params):
        raise ValueError(
            f"freeze: patterns: expected to leave a parameter to train, got {patterns!r}, which "
            "matches all; name fewer"
        )
    fixed = {
        id(params[path]): FixedParameter(params[path].get_value(), **_metadata(params[path]))
        for path in chosen
    }
    modules = [node for _, node in nnx.iter_graph(networks) if isinstance(node, nnx.Module)]
    for module in modules:
        for name, value in list(vars(module).items()):
            if id(value) in fixed:  # a shared one in several places
                setattr(module, name, fixed[id(value)])
    left = {
        "/".join(map(str, path)) for path, _ in nnx.to_flat_state(nnx.state(networks, nnx.Param))
    }
    if chosen & left:
        raise ValueError(
            "freeze: expected variables that are attributes of modules, got "
            f"{sorted(chosen & left)} inside other containers; keep them in an nnx.List or nnx.Dict"
        )
    return networks


def parameter_paths(networks: StatefulModule) -> list[str]:
    """Paths of a network's parameters and other variables, as patterns are matched with them.

    Example:
      >>> from flax import nnx
      >>> from nnx_stateful import Dense
      >>> parameter_paths(Dense(2, 3, nnx.Rngs(0)))
      ['linear/bias', 'linear/kernel']
    """
    check_network(networks, "parameter_paths")
    return ["/".join(map(str, path)) for path, _ in _variables(networks)]


def _variables(networks: StatefulModule) -> list[tuple[Any, nnx.Variable]]:
    found = [(p, v) for p, v in nnx.iter_graph(networks) if isinstance(v, nnx.Variable)]
    found = [(p, v) for p, v in found if not isinstance(v, ValueUnits)]  # of a run, not of weights
    return sorted(found, key=lambda entry: tuple(map(str, entry[0])))


def _metadata(variable: nnx.Variable) -> dict[str, Any]:
    return dict(variable.get_metadata())


def _in_network(name: str) -> str:
    """The name of a leaf in its network, from that in a checkpoint: without the group."""
    return re.sub(r"^\.?(params|variables)/?", "", name)


def _paths(leaves: Iterable[str], networks: StatefulModule) -> dict[str, str]:
    """By the name of a leaf the path of its variable, which may hold several."""
    known = set(parameter_paths(networks))
    found = {}
    for name in leaves:
        plain = re.sub(r"\W+", "/", name).strip("/") if name[0] in ".[" else name
        parts = plain.split("/")
        prefixes = ["/".join(parts[:end]) for end in range(len(parts), -1, -1)]
        found[name] = next((prefix for prefix in prefixes if prefix in known), name)
    return found


def _matching(paths: Iterable[str], patterns: Patterns, where: str) -> set[str]:
    """The paths that match one of the patterns.

    Raises:
      TypeError: if the patterns are no strings.
      ValueError: if one matches nothing.
    """
    paths = list(paths)
    patterns = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(patterns, list | tuple | set | frozenset):
        raise TypeError(
            f"{where}: expected patterns such as 'child_modules/2', got {shown(patterns)}"
        )
    chosen: set[str] = set()
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(
                f"{where}: expected patterns such as 'child_modules/2', got {shown(pattern)}"
            )
        found = [
            path
            for path in paths
            if fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, f"{pattern}/*")
        ]
        if not found:
            raise ValueError(
                f"{where}: expected a pattern that matches a path of the network, got "
                f"{shown(pattern)}; the paths are {', '.join(paths)}"
            )
        chosen.update(found)
    return chosen
