"""Checkpoints: a training state on disk, and back. Arrays by Orbax, the rest as JSON."""

import dataclasses
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from nnx_stateful import StatefulModule

from ._adapter import set_value_units
from ._arguments import as_path, check_network
from ._background import wait_for_saves
from ._checkpoint_files import checkpoints_in, read_arrays, read_record, step_of
from ._checkpoint_leaves import named_leaves, of_episodes, of_network, restored
from ._checkpoint_matching import Match, causes, match_leaves, told
from ._checkpoint_retention import EVALUATION_RETURN, best_of
from ._checkpoint_saver import make_checkpoint_fn as make_checkpoint_fn
from ._checkpoint_saver import score_of
from ._checkpoint_writing import Snapshot, from_json, write_checkpoint
from ._config import TrainConfig
from ._config_json import config_from_json
from ._env_check import check_reset
from ._loop_state import LoopState, StateFactory, as_training_state
from ._optimizer import Optimizer
from ._types import TrainingState
from ._validate import check_bool, check_instance

_LOG = logging.getLogger("nnx_ppo_train")


def save_checkpoint(
    path: str | os.PathLike[str],
    state: TrainingState,
    config: TrainConfig | None = None,
    *,
    include_env_state: bool = True,
) -> None:
    """Saves a training state as one checkpoint.

    The checkpoint is written beside its place, synced to the disk, and moved there when it is
    complete.

    Args:
      path: a folder that does not exist yet; those above it are made.
      state: what to save.
      config: noted down beside the arrays; loading needs it, unless it is passed again.
      include_env_state: whether to save environment states, carry state and episodes under way;
        without them a run that goes on begins new episodes.

    Raises:
      ValueError: if the path exists.
      TypeError: if the state of a callback is nothing that JSON can hold.
      OSError: if it cannot be written, as on a full disk.
    """
    path = as_path(path, "save_checkpoint")
    check_instance(state, "save_checkpoint: state", TrainingState, "result.training_state")
    check_instance(config, "save_checkpoint: config", TrainConfig, "TrainConfig()", optional=True)
    check_bool(include_env_state, "save_checkpoint: include_env_state")
    if path.exists():
        raise ValueError(f"{path}: expected a path that does not exist yet, there is a file there")
    write_checkpoint(path, Snapshot.of(state, config, include_env_state))


def load_checkpoint(
    path: str | os.PathLike[str],
    networks: StatefulModule,
    env: Any,
    config: TrainConfig | None = None,
    optimizer: optax.GradientTransformation | None = None,
    *,
    allow_partial: bool = False,
) -> TrainingState:
    """Loads a checkpoint, to go on with ``train_ppo(..., initial_state=state)``.

    Training that goes on gives bit for bit what it would have given without the break. Where the
    number of environments is another one, or the checkpoint was saved without them, parameters,
    optimizer, statistics and step count go on and the episodes begin anew.

    Args:
      path: one checkpoint, for instance from :func:`latest_checkpoint`.
      networks: a network built as the saved one was; only its structure is used, and it stays as
        it is.
      env: the environment that the saved run was trained in.
      config: the config to go on with; None for the one that is saved in the checkpoint.
      optimizer: the saved run's own optimizer, where it had one.
      allow_partial: load what fits, and log a warning with the names of what does not: that keeps
        the values of ``networks`` or begins anew. Without it whatever differs is an error.

    Returns:
      The training state with a network of its own.

    Raises:
      FileNotFoundError: if there is nothing at the path.
      ValueError: if it is no checkpoint, or a damaged one; if no config is given and none saved, or
        one with functions in it; if its arrays are not those that network, environment and config
        ask for (the message names every one that differs).
    """
    path = as_path(path, "load_checkpoint")
    check_network(networks, "load_checkpoint")
    check_bool(allow_partial, "load_checkpoint: allow_partial")
    wait_for_saves(path)
    record = read_record(path)
    config = _config_of(path, record) if config is None else config
    check_instance(config, "load_checkpoint: config", TrainConfig, "TrainConfig()")
    check_reset(env)
    graphdef, _ = nnx.split(networks)
    states = StateFactory(env, graphdef, Optimizer(config.ppo, optimizer), config)
    shapes = states.shapes(networks)
    wanted = named_leaves(shapes, like=record["leaves"])
    match = match_leaves(record["leaves"], wanted, record["written_as"])
    match = _usable(path, match, allow_partial, "network, environment and config")
    saved = _loaded(read_arrays(path, record), record, match, wanted)
    if match.new_episodes:
        _LOG.info("%s: the episodes under way are left out; new ones begin", path)
        wanted = {name: leaf for name, leaf in wanted.items() if not of_episodes(name)}
        shapes = _without_episodes(shapes)
    if wanted.keys() - saved.keys():
        fresh = named_leaves(states.fresh(networks, config.seed), like=record["leaves"])
        saved = {name: saved.get(name, fresh[name]) for name in wanted}
    tree = jax.tree.unflatten(jax.tree.structure(shapes), [saved[name] for name in wanted])
    rewards = nnx.split(states.normalizer)[0]
    return dataclasses.replace(
        as_training_state(tree, graphdef, rewards, record["steps_taken"]),
        callbacks=tuple(from_json(record["callbacks"])),
        metrics=from_json(record["metrics"]),
    )


def load_network(
    path: str | os.PathLike[str], networks: StatefulModule, *, allow_partial: bool = False
) -> StatefulModule:
    """Loads the network of a checkpoint alone: no environment and no config are needed.

    Args:
      path: one checkpoint.
      networks: a network built as the saved one was; it stays as it is.
      allow_partial: load what fits, and log a warning with the names of what does not.

    Returns:
      A network with the saved parameters and statistics.

    Raises:
      FileNotFoundError: if there is nothing at the path.
      ValueError: if it is no checkpoint, or a damaged one, or of another network; the message names
        every array that differs.
    """
    path = as_path(path, "load_network")
    check_network(networks, "load_network")
    check_bool(allow_partial, "load_network: allow_partial")
    wait_for_saves(path)
    record = read_record(path)
    networks = nnx.clone(networks)
    set_value_units(networks, {})  # those of the checkpoint follow
    graphdef, params, variables = nnx.split(networks, nnx.Param, ...)
    parts = cast(Any, LoopState)(
        params, variables, *[None] * (len(dataclasses.fields(LoopState)) - 2)
    )
    wanted = named_leaves(parts, like=record["leaves"])
    leaves = {name: leaf for name, leaf in record["leaves"].items() if of_network(name)}
    match = match_leaves(leaves, wanted, record["written_as"])
    match = _usable(path, match, allow_partial, "network")
    arrays = read_arrays(path, record)
    saved = _loaded(arrays, record, match, wanted)
    whole = [saved.get(name, leaf) for name, leaf in wanted.items()]
    parts = jax.tree.unflatten(jax.tree.structure(parts), whole)
    network = nnx.merge(graphdef, parts.params, parts.variables)
    units = {part: _of_values(part, arrays) for part in ("mean", "std")}
    if all(array is not None for array in units.values()):
        set_value_units(network, jax.tree.map(jnp.asarray, units))
    return network


def _of_values(part: str, arrays: Mapping[str, Any]) -> Any:
    """A part of the statistics of values in a checkpoint, in either notation of names, or None."""
    return arrays.get(f"values/{part}", arrays.get(f".values.{part}"))


def load_config(path: str | os.PathLike[str]) -> TrainConfig:
    """Loads the config that was saved in a checkpoint.

    Args:
      path: one checkpoint.

    Raises:
      FileNotFoundError: if there is nothing at the path.
      ValueError: if it is no checkpoint, or a damaged one; if it holds no config, or one with a
        function in it, such as a schedule: of those only names are saved.
    """
    path = as_path(path, "load_config")
    wait_for_saves(path)
    return _config_of(path, read_record(path))


def latest_checkpoint(directory: str | os.PathLike[str]) -> Path:
    """Returns the newest checkpoint that :func:`make_checkpoint_fn` left in a directory.

    Raises:
      FileNotFoundError: if there is none.
    """
    return _checkpoints(directory)[-1]


def best_checkpoint(directory: str | os.PathLike[str], metric: str = EVALUATION_RETURN) -> Path:
    """Returns the checkpoint in a directory whose metric is highest; the first of equal ones.

    Args:
      directory: where :func:`make_checkpoint_fn` saved, with ``keep_best`` if some were deleted.
      metric: name of the metric.

    Raises:
      FileNotFoundError: if there is no checkpoint.
      ValueError: if none has a finite value of the metric.
    """
    check_instance(metric, "best_checkpoint: metric", str, repr(EVALUATION_RETURN))
    paths = {step_of(path): path for path in _checkpoints(directory)}
    best = best_of({step: score_of(path, metric) for step, path in paths.items()})
    if best is None:
        there = {name for path in paths.values() for name in _metrics_of(path)}
        raise ValueError(
            f"{directory}: expected a checkpoint with a finite {metric!r}, got "
            f"{', '.join(sorted(there)) or 'no metrics at all'}; name another metric, or take "
            "latest_checkpoint"
        )
    return paths[best]


def _checkpoints(directory: str | os.PathLike[str]) -> list[Path]:
    """The checkpoints in a directory, at least one."""
    directory = as_path(directory, "directory")
    wait_for_saves(directory)
    found = checkpoints_in(directory)
    if not found:
        problem = "no checkpoint in it" if directory.is_dir() else "no such directory"
        raise FileNotFoundError(f"{directory}: expected a directory of checkpoints; {problem}")
    return found


def _metrics_of(path: Path) -> Mapping[str, Any]:
    try:
        return read_record(path)["metrics"]
    except (OSError, ValueError):
        return {}


def _config_of(path: Path, record: Mapping[str, Any]) -> TrainConfig:
    """The saved config."""
    if record["config"] is None:
        raise ValueError(
            f"{path}: expected a config, got none: it was saved without one; pass the run's config"
        )
    try:
        return config_from_json(TrainConfig, record["config"], "config")
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: expected the config of a run, got another: {error}") from error


def _usable(path: Path, match: Match, allow_partial: bool, what: str) -> Match:
    """The match if it has no problems, or what remains of it where that is allowed.

    Raises:
      ValueError: if it has problems, and must not.
    """
    if not match.problems:
        return match
    if not allow_partial:
        why = causes(match.problems)
        raise ValueError(
            f"{path}: the checkpoint does not fit the {what}: {told(match.problems)}. "
            + (f"It seems that {why}. " if why else "")
            + "Build them as they were when it was saved, or load what fits with "
            "allow_partial=True"
        )
    usable = match.without_misfits()
    left = sorted({problem.group for problem in match.problems})
    _LOG.warning(
        "%s: loaded in part, %d arrays; not what differs in %s: %s",
        path,
        len(usable.sources),
        ", ".join(left),
        told(match.problems),
    )
    return usable


def _loaded(
    arrays: Mapping[str, Any], record: Mapping[str, Any], match: Match, wanted: Mapping[str, Any]
) -> dict[str, jax.Array]:
    """The leaves that the checkpoint serves, by the names under which they are wanted."""
    leaves = record["leaves"]

    def leaf(name: str, source: str | None) -> jax.Array:
        if source is None:
            return jnp.zeros(wanted[name].shape, wanted[name].dtype)
        return restored(arrays[source], leaves[source])

    return {name: leaf(name, source) for name, source in match.sources.items() if name in wanted}


def _without_episodes(state: LoopState) -> LoopState:
    rewards = state.rewards
    if rewards is not None:
        rewards = dataclasses.replace(rewards, sums=None)
    return dataclasses.replace(
        state, network_states=None, env_states=None, tally=cast(Any, None), rewards=rewards
    )
