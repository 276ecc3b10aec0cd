"""One training from the command line: progress, files, pictures, summary."""

import dataclasses
import shutil
import time
from pathlib import Path
from typing import Any

from nnx_stateful import StatefulModule
from rich.console import Console

from .._checkpoint import latest_checkpoint, make_checkpoint_fn
from .._checkpoint_files import step_of
from .._train import train_ppo
from .._types import TrainingState, VideoData
from ._metrics_file import MetricsFile, read_metrics
from ._pictures import draw_pictures
from ._profile import IterationProfile
from ._progress import TrainingProgress, duration
from ._rendering import RenderedEnv, save_gif
from ._run_config import RunConfig
from ._run_folder import RunFolder

KEPT_CHECKPOINTS = 3
INTERRUPTED = 130  # exit code of a program that Ctrl-C ended


@dataclasses.dataclass(frozen=True)
class Session:
    """A run in the making.

    Attributes:
      console: where to say how it goes.
      folder: where it leaves its files.
      run: what to do.
      env: the environment.
      network: the network; holds the trained parameters afterwards.
      profile: whether to record where the time of an iteration goes.
    """

    console: Console
    folder: RunFolder
    run: RunConfig
    env: Any
    network: StatefulModule
    profile: bool = False

    def train(self, start: TrainingState | None = None) -> int:
        """Trains, draws the pictures and says what there is.

        Args:
          start: state from which to go on.

        Returns:
          The exit code: 0, or 130 after Ctrl-C.
        """
        started = time.monotonic()
        interrupted, stopped_by = False, None
        try:
            stopped_by = self._train(start)
        except KeyboardInterrupt:
            interrupted = True
            if self._left_nothing():
                return INTERRUPTED
            say(self.console, "\nInterrupted; drawing the pictures (Ctrl-C again to leave them).")
        try:
            self.draw()
        except KeyboardInterrupt:
            say(self.console, "Pictures left undrawn.")
        self._summarize(time.monotonic() - started, stopped_by)
        return INTERRUPTED if interrupted else 0

    def _train(self, start: TrainingState | None) -> str | None:
        """Trains; returns why it ended early, if it did."""
        config = self.run.train
        start_step = 0 if start is None else start.steps_taken
        metrics = MetricsFile(self.folder.metrics, start_step)
        progress = TrainingProgress(self.console, config.ppo.total_steps, start_step)
        profile = IterationProfile(self.folder.profile if self.profile else None)

        def log(values: dict[str, float], step: int) -> None:
            profile.after_iteration()
            metrics.write(values, step)
            progress.update(values, step)

        def video(data: VideoData) -> None:
            self.folder.videos.mkdir(exist_ok=True)
            save_gif(self.folder.videos / f"step_{data.step:010d}.gif", list(data.frames))

        try:
            with progress, profile:
                result = train_ppo(
                    self.env,
                    self.network,
                    config,
                    log_fn=log,
                    video_fn=video,
                    checkpoint_fn=make_checkpoint_fn(
                        self.folder.checkpoints, config, keep=KEPT_CHECKPOINTS
                    ),
                    eval_env=RenderedEnv(self.env) if config.video.enabled else self.env,
                    initial_state=start,
                )
        finally:
            metrics.close()
        return result.stopped_by

    def draw(self) -> None:
        """Draws the pictures."""
        metrics = [self.folder.metrics]
        draw_pictures(self.console, self.folder, self.env, self.network, self.run, metrics)

    def _left_nothing(self) -> bool:
        """Whether there is no checkpoint; the folder, which nobody can use, is removed then."""
        try:
            latest_checkpoint(self.folder.checkpoints)
        except FileNotFoundError:
            shutil.rmtree(self.folder.path)
            say(
                self.console,
                f"\nStopped before the first checkpoint; {self.folder.path} is removed.",
            )
            return True
        return False

    def _summarize(self, seconds: float, stopped_by: str | None) -> None:
        total = self.run.train.ppo.total_steps
        name = self.folder.name
        checkpoint = latest_checkpoint(self.folder.checkpoints)
        steps = step_of(checkpoint)
        say(self.console, "")
        if steps < total:
            why = f": {stopped_by}" if stopped_by else ""
            done = f"Stopped at {steps:,} of {total:,} steps after {duration(seconds)}{why}."
            say(self.console, done)
        else:
            say(self.console, f"Finished {steps:,} steps in {duration(seconds)}.")
        say(self.console, self._result())
        list_files(self.console, self.folder, {"checkpoint": checkpoint})
        if steps < total:
            say(self.console, f"Go on:     nnx-ppo resume {name}")
        else:
            say(self.console, f"Train on:  nnx-ppo resume {name} --total-steps {2 * steps}")
        say(self.console, f"Evaluate:  nnx-ppo eval {name}")

    def _result(self) -> str:
        """The last evaluation in words, or the training return where there is none."""
        lines = read_metrics(self.folder.metrics)
        for what, key in (
            ("Deterministic evaluation return", "eval/episode_reward/mean"),
            ("Return of training episodes", "train/episode_reward"),
        ):
            found = [line for line in lines if line.get(key) is not None]
            if found:
                value = found[-1][key]
                return f"{what}: {value:.4g}{share(value, self.env)} at step {found[-1]['step']:,}"
        return "No episode has ended yet, so there is no return to report."


def say(console: Console, text: str) -> None:
    """Prints a line as it is."""
    console.print(text, soft_wrap=True, markup=False, highlight=False)


def list_files(console: Console, folder: RunFolder, more: dict[str, Path]) -> None:
    """Says what there is in a run folder, and what else."""
    files = {
        "config": folder.config,
        "metrics": folder.metrics,
        **more,
        "learning curve": folder.learning_curve,
        "graph": folder.graph,
        "episode": folder.episode,
        "videos": folder.videos,
        "profile": folder.profile,
    }
    for label, path in files.items():
        if path.exists():
            say(console, f"  {label:<15} {path}")


def share(value: float, env: Any) -> str:
    """How much of the environment's greatest return that is, where it is known."""
    greatest = getattr(env, "max_return", None)
    if not greatest or greatest < 0:
        return ""
    return f" of {greatest:g}, {value / greatest:.0%} of the maximum"
