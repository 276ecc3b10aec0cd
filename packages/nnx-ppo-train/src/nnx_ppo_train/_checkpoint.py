"""Checkpoints: a training state on disk, and back. Arrays by Orbax, the rest as JSON."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import optax
import orbax.checkpoint as ocp
from flax import nnx
from nnx_stateful import StatefulModule

from ._checkpoint_files import (
    ARRAYS,
    FORMAT,
    RECORD,
    VERSION,
    checkpoints_in,
    file_sizes,
    read_arrays,
    read_record,
    step_of,
)
from ._checkpoint_leaves import check_leaves, describe, named_leaves, restored, storable
from ._config import TrainConfig
from ._config_json import config_to_json
from ._loop_state import StateFactory, as_loop_state, as_training_state
from ._optimizer import Optimizer
from ._types import TrainingState
from ._validate import check_whole_number

_UNFINISHED = ".unfinished-"


def make_checkpoint_fn(
    directory: str | os.PathLike[str], config: TrainConfig | None = None, *, keep: int | None = None
) -> Callable[[TrainingState, int], None]:
    """Returns a ``checkpoint_fn`` for :func:`train_ppo` that saves below a directory.

    Checkpoints are called ``step_0000512000``. One appears when it is complete, and only then are
    old ones deleted, so that there is a whole one at any time. A state that is there already, as
    when training is resumed, is not written again.

    Args:
      directory: where to save; made when needed.
      config: noted down beside the arrays.
      keep: how many of the newest checkpoints to keep; None for all of them.

    Raises:
      TypeError, ValueError: if ``keep`` is no whole number of at least 1. The function that is
        returned raises ValueError where the directory holds checkpoints of another run, or of
        later steps.

    Example:
      >>> from nnx_ppo_train import EvalConfig, PPOConfig, TrainConfig, make_env, train_ppo
      >>> from nnx_ppo_train.presets import make_mlp_actor_critic
      >>> ppo = PPOConfig(n_envs=8, rollout_length=4, total_steps=64)
      >>> config = TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False))
      >>> env, net = make_env("cartpole"), make_mlp_actor_critic(4, 1, nnx.Rngs(0))
      >>> result = train_ppo(env, net, config, checkpoint_fn=make_checkpoint_fn("saved", keep=1))
      >>> state = load_checkpoint(latest_checkpoint("saved"), net, env, config)
      >>> state.steps_taken
      64
    """
    folder = Path(directory).absolute()
    if keep is not None:
        check_whole_number(keep, "make_checkpoint_fn: keep", at_least=1)

    def checkpoint_fn(state: TrainingState, step: int) -> None:
        target = folder / f"step_{step:010d}"
        later = [path.name for path in checkpoints_in(folder) if step_of(path) > step]
        if later:
            raise ValueError(
                f"{folder}: expected no checkpoints after step {step}, found {', '.join(later)}; "
                "save into another directory, or delete them"
            )
        if target.exists():
            _check_same(target, state)
        else:
            save_checkpoint(target, state, config)
        for leftover in folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(leftover)
        for old in checkpoints_in(folder)[:-keep] if keep is not None else ():
            shutil.rmtree(old)

    return checkpoint_fn


def save_checkpoint(
    path: str | os.PathLike[str], state: TrainingState, config: TrainConfig | None = None
) -> None:
    """Saves a training state as one checkpoint.

    The checkpoint is written beside its place and moved there when it is complete.

    Args:
      path: a folder that does not exist yet; those above it are made.
      state: what to save.
      config: noted down beside the arrays.

    Raises:
      ValueError: if the path exists.
    """
    path = Path(path).absolute()
    if path.exists():
        raise ValueError(f"{path}: expected a path that does not exist yet, there is a file there")
    leaves = named_leaves(as_loop_state(state))
    record = {
        "format": FORMAT,
        "version": VERSION,
        "steps_taken": state.steps_taken,
        "leaves": {name: describe(leaf) for name, leaf in leaves.items()},
        "config": config_to_json(config),
    }
    unfinished = path.parent / f"{_UNFINISHED}{path.name}-{os.getpid()}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(unfinished / ARRAYS, storable(leaves))
    record["files"] = file_sizes(unfinished)
    (unfinished / RECORD).write_text(json.dumps(record, indent=1))
    unfinished.rename(path)


def load_checkpoint(
    path: str | os.PathLike[str],
    networks: StatefulModule,
    env: Any,
    config: TrainConfig | None = None,
    optimizer: optax.GradientTransformation | None = None,
) -> TrainingState:
    """Loads a checkpoint, to go on with ``train_ppo(..., initial_state=state)``.

    Training that goes on gives bit for bit what it would have given without the break.

    Args:
      path: one checkpoint, for instance from :func:`latest_checkpoint`.
      networks: a network built as the saved one was; it lends its structure and stays as it is.
      env: the environment that the saved run was trained in.
      config: the saved run's config: number of environments and kind of optimiser.
      optimizer: the saved run's own optimiser, where it had one.

    Returns:
      The training state with a network of its own.

    Raises:
      FileNotFoundError: if there is nothing at the path.
      ValueError: if it is no checkpoint, or a damaged one, or its arrays are not those that
        network, environment and config want; the message names the first that differ.
    """
    path = Path(path).absolute()
    record = read_record(path)
    graphdef, _ = nnx.split(networks)
    config = config or TrainConfig()
    states = StateFactory(env, graphdef, Optimizer(config.ppo, optimizer), config)
    shapes = states.shapes(networks)
    named = named_leaves(shapes)
    check_leaves(path, record["leaves"], named)
    arrays = read_arrays(path, record)
    leaves = [restored(arrays[name], record["leaves"][name]) for name in named]
    tree = jax.tree.unflatten(jax.tree.structure(shapes), leaves)
    rewards = nnx.split(states.normalizer)[0]
    return as_training_state(tree, graphdef, rewards, record["steps_taken"])


def latest_checkpoint(directory: str | os.PathLike[str]) -> Path:
    """Returns the newest checkpoint that :func:`make_checkpoint_fn` left in a directory.

    Raises:
      FileNotFoundError: if there is none.
    """
    found = checkpoints_in(Path(directory))
    if not found:
        problem = "no checkpoint in it" if Path(directory).is_dir() else "no such directory"
        raise FileNotFoundError(f"{directory}: expected a directory of checkpoints; {problem}")
    return found[-1]


def _check_same(path: Path, state: TrainingState) -> None:
    """Raises ValueError unless the checkpoint holds this very state."""
    record = read_record(path)
    leaves = named_leaves(as_loop_state(state))
    described = {name: describe(leaf) for name, leaf in leaves.items()}
    same = record["leaves"] == described and record["steps_taken"] == state.steps_taken
    if same:
        saved = read_arrays(path, record)
        given = storable(leaves)
        same = all(array.tobytes() == saved[name].tobytes() for name, array in given.items())
    if not same:
        raise ValueError(
            f"{path}: expected the state that is about to be saved, got one of another run; save "
            "into another directory, or delete the checkpoint"
        )
