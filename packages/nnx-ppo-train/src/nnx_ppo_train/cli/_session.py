"""One training from the command line: progress, files, pictures, summary."""

import dataclasses
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from nnx_stateful import StatefulModule
from rich.console import Console

from .._background import wait_for_saves
from .._callbacks import EVALUATION_RETURN
from .._checkpoint import best_checkpoint, latest_checkpoint
from .._checkpoint_files import checkpoints_in, step_of
from .._checkpoint_saver import make_checkpoint_fn
from .._json_lines import read_metrics
from .._train import train_ppo
from .._types import TrainingState, VideoData
from ._ending import FAILED, INTERRUPTED, SIGNALS, Ending, end_of
from ._errors import complain
from ._lock import RunLock
from ._metrics_file import MetricsFile
from ._pictures import draw_pictures
from ._profile import IterationProfile
from ._progress import TrainingProgress, duration
from ._rendering import RenderedEnv, save_gif
from ._run_config import RunConfig, note_end
from ._run_folder import RunFolder
from ._summary import nonfinite_lines, result_line, time_lines

KEPT_CHECKPOINTS = 3


@dataclasses.dataclass(frozen=True)
class Session:
    """A run in the making.

    Attributes:
      console: where to say how it goes.
      folder: where it leaves its files.
      lock: the lock on the folder.
      run: what to do.
      env: the environment.
      network: the network; holds the trained parameters afterwards.
      profile: whether to record where the time of an iteration goes.
    """

    console: Console
    folder: RunFolder
    lock: RunLock
    run: RunConfig
    env: object
    network: StatefulModule
    profile: bool = False

    def train(self, start: TrainingState | None = None) -> int:
        """Trains, draws the pictures and says what there is.

        Args:
          start: state from which to go on.

        Returns:
          The exit code: 0, 1 after a failure, 130 after Ctrl-C, 143 and 138 after SIGTERM and
          SIGUSR1.
        """
        started = time.monotonic()
        ending = end_of(lambda: self._train(start), self.folder.path)
        if ending.code == 0 and is_not_finite(self.folder):
            ending = Ending(FAILED, failure="the trained network is not finite")
        if ending.failure:
            complain(ending.failure)
        if ending.code and not checkpoints_in(self.folder.checkpoints):
            return without_checkpoint(self.console, self.folder, self.lock, ending)
        if ending.hurries:
            self._say_how_to_go_on(ending)
            return ending.code
        if ending.stopped_by:
            note_end(self.folder.config, self._last_step(), ending.stopped_by)
        draw_unless_interrupted(self.console, ending, self.draw)
        self._summarize(time.monotonic() - started, ending)
        return ending.code

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
                        self.folder.checkpoints,
                        config,
                        keep=KEPT_CHECKPOINTS,
                        keep_best=EVALUATION_RETURN if config.eval.enabled else None,
                    ),
                    eval_env=RenderedEnv(self.env) if config.video.enabled else self.env,
                    initial_state=start,
                )
        finally:
            metrics.close()
            wait_for_saves()
        return result.stopped_by

    def draw(self) -> None:
        """Draws the pictures."""
        metrics = [self.folder.metrics]
        draw_pictures(self.console, self.folder, self.env, self.network, self.run, metrics)

    def _last_step(self) -> int:
        return step_of(latest_checkpoint(self.folder.checkpoints))

    def _say_how_to_go_on(self, ending: Ending) -> None:
        say(
            self.console,
            f"\nStopped by {SIGNALS[ending.code]} at {self._last_step():,} of "
            f"{self.run.train.ppo.total_steps:,} steps; go on:  nnx-ppo resume {self.folder.name}",
        )

    def _summarize(self, seconds: float, ending: Ending) -> None:
        name, lines = self.folder.name, read_metrics(self.folder.metrics)
        checkpoint = latest_checkpoint(self.folder.checkpoints)
        steps, total = step_of(checkpoint), self.run.train.ppo.total_steps
        reached = lines[-1]["step"] if lines and ending.code == FAILED else steps
        say(self.console, f"\n{how_it_ended(ending, reached, total, duration(seconds))}")
        for line in (
            result_line(lines, self.env),
            *nonfinite_lines([lines]),
            *time_lines([lines], self.run),
        ):
            say(self.console, line)
        label = "last finite one" if ending.code == FAILED else "checkpoint"
        list_files(self.console, self.folder, {label: checkpoint, **best_of(self.folder)})
        if ending.code == FAILED:
            say(self.console, f"Evaluate the last finite checkpoint:  nnx-ppo eval {name}")
            return
        if steps < total:
            say(self.console, f"Go on:     nnx-ppo resume {name}")
        else:
            say(self.console, f"Train on:  nnx-ppo resume {name} --total-steps {2 * steps}")
        say(self.console, f"Evaluate:  nnx-ppo eval {name}")


def is_not_finite(folder: RunFolder) -> bool:
    """Returns whether the last state of a run is one that was saved apart, as not finite."""
    lines = read_metrics(folder.metrics)
    step = lines[-1]["step"] if lines else 0
    return (folder.checkpoints / f"nonfinite_step_{step:010d}").is_dir()


def best_of(folder: RunFolder) -> dict[str, Path]:
    """Returns the checkpoint with the best evaluation under what it is called, if there is one."""
    try:
        return {"best checkpoint": best_checkpoint(folder.checkpoints)}
    except (FileNotFoundError, ValueError):  # no evaluation yet, or none that is finite
        return {}


def how_it_ended(ending: Ending, steps: int, total: int, took: str, of_each: str = "") -> str:
    """Returns the sentence that says whether a training went through."""
    if ending.code == FAILED:
        return f"Failed at {steps:,} of {total:,} steps{of_each} after {took}: {ending.failure}"
    if steps < total:
        why = f": {ending.stopped_by}" if ending.stopped_by else ""
        return f"Stopped at {steps:,} of {total:,} steps{of_each} after {took}{why}."
    return f"Finished {steps:,} steps{of_each} in {took}."


def without_checkpoint(console: Console, folder: RunFolder, lock: RunLock, ending: Ending) -> int:
    """Removes a run folder without a checkpoint, unless the run failed; returns the exit code.

    A run that failed leaves what tells why: its metrics, and the state that was saved apart.
    """
    lock.release()
    if ending.code == FAILED:
        say(
            console,
            f"\nFailed before the first finite checkpoint; what the run left is in {folder.path}.",
        )
    else:
        shutil.rmtree(folder.path, ignore_errors=True)
        say(console, f"\nStopped before the first checkpoint; {folder.path} is removed.")
    return ending.code


def draw_unless_interrupted(console: Console, ending: Ending, draw: Callable[[], None]) -> None:
    """Draws the pictures, which Ctrl-C leaves undrawn."""
    if ending.code == INTERRUPTED:
        say(console, "\nInterrupted; drawing the pictures (Ctrl-C again to leave them).")
    try:
        draw()
    except KeyboardInterrupt:
        say(console, "Pictures left undrawn.")


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
