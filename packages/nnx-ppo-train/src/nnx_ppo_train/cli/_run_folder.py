"""The folder that a run leaves: where everything is, made and found."""

import dataclasses
import datetime
import os
import re
import shlex
from pathlib import Path

from .._checkpoint import latest_checkpoint
from .._checkpoint_files import RECORD
from ._errors import UsageError, reason
from ._lock import LOCK

RUNS = Path("runs")


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """Paths of a run.

    Attributes:
      path: the folder itself.
    """

    path: Path

    @property
    def config(self) -> Path:
        """The resolved config, versions and command."""
        return self.path / "config.json"

    @property
    def metrics(self) -> Path:
        """One line of JSON per iteration."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The newest checkpoints."""
        return self.path / "checkpoints"

    @property
    def learning_curve(self) -> Path:
        """Picture of the returns over training."""
        return self.path / "learning_curve.png"

    @property
    def graph(self) -> Path:
        """Picture of the population graph."""
        return self.path / "graph.png"

    @property
    def episode(self) -> Path:
        """Animation of one episode."""
        return self.path / "episode.gif"

    @property
    def videos(self) -> Path:
        """Animations made during training."""
        return self.path / "videos"

    @property
    def profile(self) -> Path:
        """Trace of one iteration."""
        return self.path / "profile"

    @property
    def name(self) -> str:
        """The path as a word of a shell command, relative to the current folder if inside it."""
        path = self.path
        if path.is_absolute() and path.is_relative_to(Path.cwd()):
            path = path.relative_to(Path.cwd())
        word = str(path)
        return shlex.quote(f"./{word}" if word.startswith("-") else word)


def check_new(path: Path) -> None:
    """Raises UsageError unless a run folder can be made at a path, as far as one can tell."""
    try:
        os.fspath(path.absolute()).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"--run-dir: expected a path in UTF-8, got {os.fsencode(path.absolute())!r}; choose "
            "another --run-dir"
        ) from error
    if os.path.lexists(path):  # unlike Path.exists, False where one may not look
        _refuse(path)


def make_run_folder(path: Path | None, env: str, network: str, seed: int) -> RunFolder:
    """Makes a run folder.

    Args:
      path: the one the user wants, or None for a name made of the other arguments and the time;
        of several processes in the same second each gets one of its own.
      env: name of the environment.
      network: name of the network.
      seed: the seed.

    Raises:
      UsageError: if there is something at the path already, or no folder can be made there.
    """
    if path is not None:
        _make(path)
        return RunFolder(path)
    time = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    words = [re.sub(r"[^\w.-]+", "_", word) for word in (env, network)]
    first = RUNS / "-".join([*words, str(seed), time])
    for count in range(1, 10_000):
        candidate = first if count == 1 else first.with_name(f"{first.name}-{count}")
        try:
            candidate.mkdir(parents=True)  # atomic: one process alone succeeds
        except FileExistsError:
            continue
        except OSError:
            pass  # told below
        break
    if not candidate.is_dir():
        _make(candidate)
    return RunFolder(candidate)


def is_unused(path: Path) -> bool:
    """Returns whether a folder holds nothing but, perhaps, a lock."""
    return path.is_dir() and all(entry.name == LOCK for entry in path.iterdir())


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        _refuse(path)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"--run-dir {path}: expected a folder that can be made, got {why!r}; choose another "
            "--run-dir"
        ) from error


def _refuse(path: Path) -> None:
    folder = RunFolder(path)
    remedy = f"go on with it by `nnx-ppo resume {folder.name}`, or choose another --run-dir"
    if not os.path.isfile(folder.config):
        remedy = "choose another --run-dir"
    raise UsageError(f"--run-dir {path}: expected a folder that does not exist yet; {remedy}")


def find_run_folder(path: Path) -> RunFolder:
    """Returns an existing run folder.

    Raises:
      UsageError: if it is none; the message lists those that are near.
    """
    folder = RunFolder(path)
    if os.path.isfile(folder.config):
        return folder
    problem = "there is no config.json in it" if os.path.exists(path) else "there is no such folder"
    raise UsageError(f"{path}: expected a run folder, {problem}; {_nearby(path)}")


def newest_checkpoint(path: Path) -> Path:
    """Returns the newest checkpoint of a run folder or a folder of checkpoints, or a checkpoint.

    Raises:
      FileNotFoundError: if there is none.
    """
    if os.path.isfile(path / RECORD):
        return path
    folder = RunFolder(path)
    return latest_checkpoint(folder.checkpoints if os.path.isfile(folder.config) else path)


def _nearby(path: Path) -> str:
    try:
        places = {place.resolve(): place for place in (path, path.parent, RUNS)}
        found = [
            str(config.parent)
            for place in places.values()
            for config in place.glob("*/config.json")
        ]
    except (OSError, ValueError):  # where one may not look, or no path at all
        found = []
    if not found:
        return "there are none nearby, `nnx-ppo train` makes one"
    newest = sorted(found, key=lambda name: Path(name).stat().st_mtime, reverse=True)
    return f"run folders nearby, newest first: {', '.join(newest[:5])}"
