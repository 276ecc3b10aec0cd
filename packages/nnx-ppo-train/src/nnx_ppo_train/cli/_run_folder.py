"""The folder that a run leaves: where everything is, made and found."""

import dataclasses
import datetime
import os
import re
from pathlib import Path

from ._errors import UsageError

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
        return f"'{path}'" if re.search(r"[^\w@%+=:,./-]", str(path)) else str(path)


def new_run_folder(path: Path | None, env: str, network: str, seed: int) -> RunFolder:
    """Chooses a run folder, without making it.

    Args:
      path: the one the user wants, or None for a name made of the other arguments and the time.
      env: name of the environment.
      network: name of the network.
      seed: the seed.

    Raises:
      UsageError: if there is something at the path already.
    """
    if path is None:
        time = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        words = [re.sub(r"[^\w.-]+", "_", word) for word in (env, network)]
        path = RUNS / "-".join([*words, str(seed), time])
        for count in range(2, 100):
            if not path.exists():
                break
            path = path.with_name(f"{path.name.removesuffix(f'-{count - 1}')}-{count}")
    if os.path.exists(path):  # unlike Path.exists, False where one may not look
        folder = RunFolder(path)
        remedy = f"go on with it by `nnx-ppo resume {folder.name}`, or choose another --run-dir"
        if not folder.config.is_file():
            remedy = "choose another --run-dir"
        raise UsageError(f"--run-dir {path}: expected a folder that does not exist yet; {remedy}")
    return RunFolder(path)


def find_run_folder(path: Path) -> RunFolder:
    """Returns an existing run folder.

    Raises:
      UsageError: if it is none; the message lists those that are near.
    """
    folder = RunFolder(path)
    if folder.config.is_file():
        return folder
    problem = "there is no config.json in it" if path.exists() else "there is no such folder"
    raise UsageError(f"{path}: expected a run folder, {problem}; {_nearby(path)}")


def _nearby(path: Path) -> str:
    places = {place.resolve(): place for place in (path, path.parent, RUNS)}
    found = [
        str(config.parent) for place in places.values() for config in place.glob("*/config.json")
    ]
    if not found:
        return "there are none nearby, `nnx-ppo train` makes one"
    newest = sorted(found, key=lambda name: Path(name).stat().st_mtime, reverse=True)
    return f"run folders nearby, newest first: {', '.join(newest[:5])}"
