"""``nnx-ppo eval``."""

import dataclasses
import math
import os
from pathlib import Path
from typing import Any

import jax
from nnx_stateful import StatefulModule
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._checkpoint import best_checkpoint, latest_checkpoint, load_config, load_network
from .._checkpoint_files import RECORD, checkpoints_in, read_record
from .._config import LARGEST_SEED, TrainConfig
from .._evaluation import eval_rollout
from .._keys import Purpose, key_for
from .._validate import check_whole_number
from ._arguments import EvalArguments
from ._errors import UsageError, user_errors
from ._resolve import make_run
from ._run_config import RunConfig, read_run_config
from ._run_folder import RunFolder, find_run_folder
from ._summary import LEFT_OUT, share
from ._trust import import_folders

PERCENTILES = (0, 25, 50, 75, 100)
_MOST = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class _Subject:
    """What is to be evaluated.

    Attributes:
      run: the run that left it.
      checkpoint: the checkpoint.
      import_path: folders from which the run's own code may be imported.
    """

    run: RunConfig
    checkpoint: Path
    import_path: tuple[str, ...]


def evaluate(arguments: EvalArguments, console: Console) -> int:
    """Evaluates a checkpoint of a run, or one that Python wrote; returns the exit code.

    Args:
      arguments: what the flags say.
      console: where to print.

    Raises:
      UsageError: if there is no such run or checkpoint, or one that does not fit; if the run's code
        is not trusted.
    """
    episodes, seed, length = arguments.episodes, arguments.seed, arguments.max_episode_length
    with user_errors():
        check_whole_number(episodes, "--episodes", 1, _MOST)
        check_whole_number(seed, "--seed", 0, LARGEST_SEED)
        if length is not None:
            check_whole_number(length, "--max-episode-length", 1, _MOST)
    subject = _subject(arguments)
    run = subject.run
    env, network = make_run(run, subject.import_path)
    with user_errors():
        trained = load_network(subject.checkpoint, network)
    length = run.train.eval.max_episode_length if length is None else length
    values = _values(env, trained, arguments, length)
    console.print(_table(values))
    how = "deterministic" if arguments.deterministic else "sampled"
    mean = values["eval/episode_reward/mean"]
    left_out = values.get(LEFT_OUT, 0.0)
    console.print(
        f"{run.network} on {run.env}, {subject.checkpoint}\n"
        f"{episodes} {how} episodes from seed {seed}, mean return {mean:.4g}{share(mean, env)}"
        + (f"; {left_out:.2%} of them were left out, not finite" if left_out > 0 else ""),
        soft_wrap=True,
        markup=False,
        highlight=False,
    )
    return 0 if math.isfinite(mean) else 1


def _values(
    env: Any, network: StatefulModule, arguments: EvalArguments, length: int
) -> dict[str, float]:
    """Runs the episodes and returns their metrics."""
    metrics = eval_rollout(
        env,
        network,
        arguments.episodes,
        length,
        key_for(arguments.seed, Purpose.EVALUATION),
        PERCENTILES,
        stochastic=not arguments.deterministic,
    )
    return {name: float(value) for name, value in jax.device_get(metrics).items()}


def _subject(arguments: EvalArguments) -> _Subject:
    """Finds what a path names: a run folder, a checkpoint, or a folder of checkpoints."""
    path = arguments.run
    if arguments.env is not None or arguments.network is not None:
        return _named_subject(arguments)
    checkpoint = path if _is_checkpoint(path) else None
    owner = next((p for p in (path, *path.absolute().parents[:2]) if _has_config(p)), None)
    if owner is None or not (owner == path or checkpoint or checkpoints_in(path)):
        if checkpoint or checkpoints_in(path):
            raise UsageError(
                f"{path}: expected --env and --network beside a checkpoint that is in no run "
                "folder; name those that it was trained with"
            )
        find_run_folder(path)  # says what is wrong
    folder = RunFolder(path if owner is None else owner)
    with user_errors():
        run = read_run_config(folder.config)
        folders = import_folders(run, folder.path, arguments.trust)
        found = checkpoint or _choose(folder.checkpoints, arguments.best)
    return _Subject(run, found, folders)


def _named_subject(arguments: EvalArguments) -> _Subject:
    """The checkpoint of a path, with environment and network as the flags name them."""
    path, env, network = arguments.run, arguments.env, arguments.network
    if env is None or network is None:
        raise UsageError("--env, --network: expected both, or none for a run folder; got one")
    if _has_config(path):
        raise UsageError(
            f"{path}: expected no --env and --network beside a run folder, whose config names "
            f"them; leave them out, or evaluate {path / 'checkpoints'}"
        )
    with user_errors():
        found = path if _is_checkpoint(path) else _choose(path, arguments.best)
        has_config = read_record(found)["config"] is not None
        train = load_config(found) if has_config else TrainConfig()
    run = RunConfig(
        env=env, network=network, net=None if ":" in network else arguments.net, train=train
    )
    return _Subject(run, found, (os.getcwd(),))


def _choose(directory: Path, best: bool) -> Path:
    """The newest checkpoint in a directory, or the best."""
    return best_checkpoint(directory) if best else latest_checkpoint(directory)


def _is_checkpoint(path: Path) -> bool:
    return os.path.isfile(path / RECORD)


def _has_config(path: Path) -> bool:
    return os.path.isfile(RunFolder(path).config)


def _table(values: dict[str, float]) -> Table:
    table = Table("", "mean", "std", "least", "25 %", "median", "75 %", "most")
    columns = ("mean", "std", *(f"p{level}" for level in PERCENTILES))
    prefix = "eval/episode_reward"
    rewards = [name for name in values if name.startswith(prefix) and name.endswith("/mean")]
    rows = {name.removesuffix("/mean"): name for name in rewards} | {"eval/lifespan": ""}
    for row in rows:
        label = Text(row.replace(prefix, "return").replace("eval/lifespan", "steps"))
        table.add_row(label, *(f"{values[f'{row}/{column}']:.4g}" for column in columns))
    return table
