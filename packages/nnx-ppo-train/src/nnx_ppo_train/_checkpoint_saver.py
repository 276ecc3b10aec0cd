"""CheckpointSaver: the ``checkpoint_fn`` that saves while training goes on."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from ._arguments import as_path
from ._background import BackgroundSave, wait_for_saves
from ._checkpoint_files import checkpoints_in, read_arrays, read_record, step_of
from ._checkpoint_leaves import (
    checksum,
    nonfinite_leaves,
    of_episodes,
    of_network,
)
from ._checkpoint_retention import EVALUATION_RETURN, Retention, best_of, is_score
from ._checkpoint_writing import (
    Snapshot,
    delete_checkpoint,
    delete_leftovers,
    from_json,
    write_checkpoint,
)
from ._config import TrainConfig
from ._migrations import stand_ins
from ._types import TrainingState
from ._validate import check_bool, check_instance, check_whole_number

_LOG = logging.getLogger("nnx_ppo_train")
_NONFINITE = "nonfinite_"


def make_checkpoint_fn(
    directory: str | os.PathLike[str],
    config: TrainConfig | None = None,
    *,
    keep: int | None = None,
    keep_best: str | bool | None = None,
    keep_every_steps: int | None = None,
    include_env_state: bool = True,
) -> "CheckpointSaver":
    """Returns a ``checkpoint_fn`` for :func:`train_ppo` that saves below a directory.

    Checkpoints are called ``step_0000512000``. The state is copied when the function is called and
    written while training goes on. A checkpoint appears when it is complete and on the disk, and
    only then are old ones deleted, so that there is a whole one at any time. A state that is there
    already, as when training is resumed, is not written again.

    A state with a value that is not finite in the network's parameters, its other variables or the
    optimizer is saved as ``nonfinite_step_0000512000`` for inspection, of which the newest stays:
    it never takes the place of a checkpoint from which a run can go on.

    Args:
      directory: where to save; made when needed.
      config: noted down beside the arrays; None for the one that ``train_ppo`` is called with.
      keep: how many of the newest checkpoints to keep; None for all of them.
      keep_best: metric by which the best checkpoint is kept as well, whatever ``keep`` says, higher
        is better; True stands for "eval/episode_reward/mean". ``train_ppo`` then also saves when
        an evaluation gives a new best value. See :func:`best_checkpoint`.
      keep_every_steps: environment steps of which the first checkpoint is kept for good.
      include_env_state: whether to save environment states, carry state and episodes under way.
        Without them a run that goes on begins new episodes; with large environments they may be
        nearly all of a checkpoint.

    Raises:
      TypeError, ValueError: if an option is illegal. The function that is returned raises
        ValueError where the directory holds checkpoints of another run, or of later steps, and
        OSError where the last save failed, as on a full disk.

    Example:
      >>> from flax import nnx
      >>> from nnx_ppo_train import EvalConfig, PPOConfig, TrainConfig, make_env, train_ppo
      >>> from nnx_ppo_train import latest_checkpoint, load_checkpoint
      >>> from nnx_ppo_train.presets import make_mlp_actor_critic
      >>> ppo = PPOConfig(n_envs=8, rollout_length=4, total_steps=64)
      >>> config = TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False))
      >>> env, net = make_env("cartpole"), make_mlp_actor_critic(4, 1, nnx.Rngs(0))
      >>> save = make_checkpoint_fn("saved", config, keep=1)
      >>> result = train_ppo(env, net, config, checkpoint_fn=save)
      >>> load_checkpoint(latest_checkpoint("saved"), net, env).steps_taken
      64
    """
    path = as_path(directory, "make_checkpoint_fn: directory")
    check_instance(
        config, "make_checkpoint_fn: config", TrainConfig, "TrainConfig()", optional=True
    )
    check_bool(include_env_state, "make_checkpoint_fn: include_env_state")
    best_by = EVALUATION_RETURN if keep_best is True else keep_best
    retention = Retention(keep, None if best_by is False else best_by, keep_every_steps)
    return CheckpointSaver(path, config, retention, include_env_state)


class CheckpointSaver:
    """Saves training states below a directory, one at a time, in a thread of its own.

    Made by :func:`make_checkpoint_fn`, which says what is saved and kept. A process that exits
    waits for a save that is under way.

    Args:
      directory: absolute path of the directory.
      config: noted down beside the arrays, or None.
      retention: what is kept.
      include_env_state: whether episodes under way are saved.

    Attributes:
      config: the config that is noted down; ``train_ppo`` gives its own where there is none.
    """

    def __init__(
        self,
        directory: Path,
        config: TrainConfig | None,
        retention: Retention,
        include_env_state: bool,
    ):
        self.config = config
        self._has_own_config = config is not None
        self._directory = directory
        self._retention = retention
        self._include_env_state = include_env_state
        self._save: BackgroundSave | None = None
        self._scores: dict[int, float | None] | None = None
        self._infinite_by_design: set[str] | None = None

    def __call__(self, state: TrainingState, step: int) -> None:
        """Copies a training state and begins to save it; waits for the save before.

        Raises:
          ValueError: if the directory holds checkpoints of another run, or of later steps.
          TypeError: if the state of a callback is nothing that JSON can hold.
          OSError: if the save before failed.
        """
        check_instance(state, "checkpoint_fn: state", TrainingState, "result.training_state")
        check_whole_number(step, "checkpoint_fn: step", 0)
        self.wait()
        wait_for_saves(self._directory)  # of other savers
        later = [path.name for path in checkpoints_in(self._directory) if step_of(path) > step]
        if later:
            raise ValueError(
                f"{self._directory}: expected no checkpoints after step {step}, found "
                f"{', '.join(later)}; save into another directory, or delete them"
            )
        snapshot = Snapshot.of(state, self.config, self._include_env_state)
        path = self._directory / f"step_{step:010d}"
        if path.exists():
            _check_same(path, snapshot)
        self._save = BackgroundSave(self._directory, lambda: self._write(path, snapshot))

    def note_config(self, config: TrainConfig) -> None:
        """Notes down the config of the run that begins, unless another one was given at first."""
        if not self._has_own_config:
            self.config = config

    def wait(self) -> None:
        """Waits until the last state is saved.

        Raises:
          OSError: if it could not be saved.
        """
        save, self._save = self._save, None
        if save is not None:
            save.wait()

    def is_due(self, metrics: Mapping[str, float], steps: int) -> bool:
        """Returns whether the state with these metrics is to be saved whatever the schedule says.

        Args:
          metrics: metrics of an iteration by name.
          steps: environment steps after it.

        Returns:
          True if ``keep_best`` names one of the metrics and its value is the best so far.
        """
        name = self._retention.best_by
        value = None if name is None else metrics.get(name)
        if value is None or not is_score(value):
            return False
        self._wait_quietly()
        scores = {step: score for step, score in self._known_scores().items() if step != steps}
        best = best_of(scores)
        return best is None or value > (scores[best] or 0.0)

    def _wait_quietly(self) -> None:
        """Waits without raising: the error is for the next save."""
        if self._save is not None:
            self._save.join()

    def _write(self, path: Path, snapshot: Snapshot) -> None:
        """Writes a snapshot and deletes what is not wanted any more."""
        delete_leftovers(self._directory)
        found = self._nonfinite(snapshot)
        if found and not path.exists():
            self._write_apart(path, snapshot, found)
            return
        scores = self._known_scores()
        if not path.exists():
            write_checkpoint(path, snapshot)
            scores[step_of(path)] = snapshot.metrics.get(self._retention.best_by or "")
        there = {step_of(old): old for old in checkpoints_in(self._directory)}
        for step in self._retention.superfluous(list(there), scores):
            delete_checkpoint(there[step])
            scores.pop(step, None)

    def _write_apart(self, path: Path, snapshot: Snapshot, found: dict[str, str]) -> None:
        """Saves a state that is not finite where nothing that resumes a run looks for it."""
        apart = path.with_name(f"{_NONFINITE}{path.name}")
        _LOG.warning(
            "%s: not finite at step %d: %s; saved apart for inspection, the last finite "
            "checkpoint stays",
            apart,
            snapshot.steps_taken,
            ", ".join(found),
        )
        for old in self._directory.glob(f"{_NONFINITE}step_*"):
            delete_checkpoint(old)
        write_checkpoint(apart, snapshot)

    def _nonfinite(self, snapshot: Snapshot) -> dict[str, str]:
        """Leaves of network and optimizer that are not finite, by name.

        A leaf may be infinite by design, a running minimum for instance, or the best loss that an
        optimizer has seen: one that is so in the first state that is saved does not count.
        """
        arrays = {
            name: array
            for name, array in snapshot.arrays.items()
            if of_network(name) or name.lstrip(".").startswith("optimizer")
        }
        found = nonfinite_leaves(arrays)
        if self._infinite_by_design is None:
            self._infinite_by_design = {name for name, kind in found.items() if kind == "inf"}
        return {
            name: kind
            for name, kind in found.items()
            if kind == "nan" or name not in self._infinite_by_design
        }

    def _known_scores(self) -> dict[int, float | None]:
        """The metric of every checkpoint by its steps; read once."""
        if self._scores is None:
            self._scores = {}
            if self._retention.best_by is not None:
                paths = checkpoints_in(self._directory)
                self._scores = {
                    step_of(path): score_of(path, self._retention.best_by) for path in paths
                }
        return self._scores


def score_of(path: Path, metric: str) -> float | None:
    """The value of a metric that a checkpoint holds; None where it has none or is damaged."""
    try:
        value = from_json(read_record(path)["metrics"]).get(metric)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, float) else None


def _check_same(path: Path, snapshot: Snapshot) -> None:
    """Raises ValueError unless the checkpoint is of the same state.

    Episodes under way may differ: a run with another number of environments begins new ones.
    """
    record = read_record(path)
    saved = {name: leaf for name, leaf in record["leaves"].items() if not of_episodes(name)}
    given = {name: leaf for name, leaf in snapshot.leaves.items() if not of_episodes(name)}
    new = stand_ins(saved, given, record["written_as"])
    same = record["steps_taken"] == snapshot.steps_taken
    same = same and saved.keys() == given.keys() - new.keys()
    if same:
        old = any("checksum" not in leaf for leaf in saved.values())
        arrays = read_arrays(path, record) if old else {}
        same = all(
            (leaf["shape"], leaf["dtype"]) == (given[name]["shape"], given[name]["dtype"])
            and (leaf.get("checksum") or checksum(arrays[name])) == checksum(snapshot.arrays[name])
            for name, leaf in saved.items()
        )
    if not same:
        raise ValueError(
            f"{path}: expected the state that is about to be saved, got one of another run; save "
            "into another directory, or delete the checkpoint"
        )
