"""Several seeds of one run side by side: a run folder for each, and what they have in common."""

import dataclasses
import shutil
import statistics
import time
from typing import Any

import numpy as np
from flax import nnx
from nnx_stateful import StatefulModule
from rich.console import Console

from .._callbacks import EVALUATION_RETURN
from .._checkpoint import latest_checkpoint, load_checkpoint, make_checkpoint_fn
from .._checkpoint_files import checkpoints_in, step_of
from .._many import train_ppo_many
from .._sweep import Member
from .._types import TrainingState
from ._metrics_file import MetricsFile, read_metrics
from ._pictures import draw_pictures
from ._progress import TrainingProgress, duration
from ._resolve import resolve_network
from ._run_config import RunConfig, write_run_config
from ._run_folder import RunFolder
from ._session import INTERRUPTED, KEPT_CHECKPOINTS, list_files, say, share


@dataclasses.dataclass(frozen=True)
class ManySession:
    """Runs in the making that differ by their seed.

    Attributes:
      console: where to say how it goes.
      folder: the folder that holds all of them.
      run: what to do; its seed is the first.
      env: the environment.
      seeds: the seeds.
      command: the words of the command line, for the record.
    """

    console: Console
    folder: RunFolder
    run: RunConfig
    env: Any
    seeds: range
    command: list[str]

    def train(self) -> int:
        """Trains, draws the pictures and says what there is.

        Returns:
          The exit code: 0, or 130 after Ctrl-C.
        """
        started = time.monotonic()
        interrupted, stopped_by = False, None
        for seed in self.seeds:
            own = self._folder_of(seed)
            own.path.mkdir()
            write_run_config(own.config, self._run_of(seed), self.command)
        try:
            stopped_by = self._train()
        except KeyboardInterrupt:
            interrupted = True
            if self._left_nothing():
                return INTERRUPTED
            say(self.console, "\nInterrupted; drawing the pictures (Ctrl-C again to leave them).")
        try:
            self._draw()
        except KeyboardInterrupt:
            say(self.console, "Pictures left undrawn.")
        self._summarize(time.monotonic() - started, stopped_by)
        return INTERRUPTED if interrupted else 0

    def _folder_of(self, seed: int) -> RunFolder:
        return RunFolder(self.folder.path / f"seed_{seed}")

    def _run_of(self, seed: int) -> RunConfig:
        return dataclasses.replace(self.run, train=dataclasses.replace(self.run.train, seed=seed))

    def _train(self) -> str | None:
        """Trains; returns why it ended early, if it did."""
        config = self.run.train
        files = [MetricsFile(self._folder_of(seed).metrics) for seed in self.seeds]
        progress = TrainingProgress(self.console, config.ppo.total_steps, 0)
        savers = {
            seed: make_checkpoint_fn(
                self._folder_of(seed).checkpoints, self._run_of(seed).train, keep=KEPT_CHECKPOINTS
            )
            for seed in self.seeds
        }

        def log(metrics: dict[str, Any], step: int) -> None:
            every = {name: np.broadcast_to(v, len(self.seeds)) for name, v in metrics.items()}
            for index, file in enumerate(files):
                file.write({name: float(values[index]) for name, values in every.items()}, step)
            progress.update({name: _median(values) for name, values in every.items()}, step)

        def save(state: TrainingState, step: int, member: Member) -> None:
            savers[member.seed](state, step)

        try:
            with progress:
                result = train_ppo_many(
                    lambda: self.env,
                    self._network,
                    config,
                    seeds=self.seeds,
                    log_fn=log,
                    checkpoint_fn=save,
                )
        finally:
            for file in files:
                file.close()
        return result.stopped_by

    def _network(self, env: Any, rngs: nnx.Rngs) -> StatefulModule:
        return resolve_network(self.run, env, rngs)

    def _left_nothing(self) -> bool:
        """Whether there is no checkpoint; the folder, which nobody can use, is removed then."""
        if all(checkpoints_in(self._folder_of(seed).checkpoints) for seed in self.seeds):
            return False
        shutil.rmtree(self.folder.path)
        say(
            self.console,
            f"\nStopped before the first checkpoint; {self.folder.path} is removed.",
        )
        return True

    def _draw(self) -> None:
        """Draws the curves of all seeds, and an episode of the median one."""
        seed = self._median_seed()
        run, folder = self._run_of(seed), self._folder_of(seed)
        network = self._network(self.env, nnx.Rngs(seed))
        checkpoint = latest_checkpoint(folder.checkpoints)
        trained = load_checkpoint(checkpoint, network, self.env, run.train).networks
        metrics = [self._folder_of(seed).metrics for seed in self.seeds]
        draw_pictures(self.console, self.folder, self.env, trained, run, metrics)

    def _median_seed(self) -> int:
        returns = self._last_returns()
        if not returns:
            return self.seeds[0]
        middle = statistics.median_low(returns.values())
        return next(seed for seed, value in returns.items() if value == middle)

    def _last_returns(self) -> dict[int, float]:
        """The last evaluation's mean return by seed; without seeds that have none."""
        found = {}
        for seed in self.seeds:
            lines = read_metrics(self._folder_of(seed).metrics)
            values = [line.get(EVALUATION_RETURN) for line in lines]
            values = [value for value in values if value is not None]
            if values:
                found[seed] = values[-1]
        return found

    def _summarize(self, seconds: float, stopped_by: str | None) -> None:
        total = self.run.train.ppo.total_steps
        first = self._folder_of(self.seeds[0])
        steps = step_of(latest_checkpoint(first.checkpoints))
        done = f"Finished {steps:,}" if steps >= total else f"Stopped at {steps:,} of {total:,}"
        why = f": {stopped_by}" if stopped_by else ""
        say(self.console, f"\n{done} steps of each seed in {duration(seconds)}{why}.")
        returns = self._last_returns()
        if returns:
            listed = "  ".join(f"{seed}: {value:.4g}" for seed, value in returns.items())
            median = statistics.median(returns.values())
            say(
                self.console,
                f"Evaluation return, median of the seeds: {median:.4g}{share(median, self.env)}\n"
                f"by seed: {listed}",
            )
        list_files(self.console, self.folder, {"first of the runs": first.path})
        say(self.console, f"Evaluate one:  nnx-ppo eval {first.name}")
        further = f" --total-steps {2 * steps}" if steps >= total else ""
        say(self.console, f"Train it on:   nnx-ppo resume {first.name}{further}")


def _median(values: np.ndarray) -> float:
    """The median of the seeds that have a value; NaN where none has."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else float("nan")
