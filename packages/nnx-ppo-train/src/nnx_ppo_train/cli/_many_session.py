"""Several seeds of one run side by side: a run folder for each, and what they have in common."""

import contextlib
import dataclasses
import math
import time
from typing import Any

import numpy as np
from flax import nnx
from nnx_stateful import StatefulModule
from rich.console import Console

from .._background import wait_for_saves
from .._callbacks import EVALUATION_RETURN
from .._checkpoint import latest_checkpoint, load_network
from .._checkpoint_files import checkpoints_in, step_of
from .._checkpoint_saver import make_checkpoint_fn
from .._json_lines import read_metrics
from .._many import train_ppo_many
from .._sweep import Member
from .._types import TrainingState
from ._ending import FAILED, SIGNALS, Ending, end_of
from ._errors import complain
from ._lock import RunLock
from ._metrics_file import MetricsFile
from ._pictures import draw_pictures
from ._progress import TrainingProgress, duration
from ._resolve import build_network
from ._run_config import RunConfig, write_run_config
from ._run_folder import RunFolder
from ._seed_returns import median_return, median_seed, not_finite, of_all_seeds
from ._session import (
    KEPT_CHECKPOINTS,
    draw_unless_interrupted,
    how_it_ended,
    is_not_finite,
    list_files,
    say,
    without_checkpoint,
)
from ._summary import TRAINING_RETURN, last_value, nonfinite_lines, share, time_lines


@dataclasses.dataclass(frozen=True)
class ManySession:
    """Runs in the making that differ by their seed.

    Attributes:
      console: where to say how it goes.
      folder: the folder that holds all of them.
      lock: the lock on it.
      run: what to do; its seed is the first.
      env: the environment.
      seeds: the seeds.
      command: the words of the command line, for the record.
    """

    console: Console
    folder: RunFolder
    lock: RunLock
    run: RunConfig
    env: Any
    seeds: range
    command: list[str]

    def train(self) -> int:
        """Trains, draws the pictures and says what there is.

        Returns:
          The exit code: 0, 1 after a failure, 130 after Ctrl-C, 143 and 138 after SIGTERM and
          SIGUSR1.
        """
        started = time.monotonic()
        with contextlib.ExitStack() as locks:
            for seed in self.seeds:
                own = self._folder_of(seed)
                own.path.mkdir()
                locks.enter_context(RunLock(own.path))
                write_run_config(own.config, self._run_of(seed), self.command)
            ending = self._without_bad_seeds(end_of(self._train, self.folder.path))
            if ending.failure:
                complain(ending.failure)
            if ending.code and not self._saved_seeds():
                locks.close()
                return without_checkpoint(self.console, self.folder, self.lock, ending)
            if ending.hurries:
                self._say_how_to_go_on(ending)
                return ending.code
            draw_unless_interrupted(self.console, ending, self._draw)
            self._summarize(time.monotonic() - started, ending)
            return ending.code

    def _without_bad_seeds(self, ending: Ending) -> Ending:
        """The ending, or a failure if the network of a seed is not finite."""
        bad = [str(seed) for seed in self.seeds if is_not_finite(self._folder_of(seed))]
        if ending.code or not bad:
            return ending
        return Ending(FAILED, failure=f"the trained network is not finite of seed {', '.join(bad)}")

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
                self._folder_of(seed).checkpoints,
                self._run_of(seed).train,
                keep=KEPT_CHECKPOINTS,
                keep_best=EVALUATION_RETURN if config.eval.enabled else None,
            )
            for seed in self.seeds
        }

        def log(metrics: dict[str, Any], step: int) -> None:
            every = {name: np.broadcast_to(v, len(self.seeds)) for name, v in metrics.items()}
            for index, file in enumerate(files):
                file.write(_of_one(every, index), step)
            progress.update(of_all_seeds(every), step, _note(not_finite(every), len(self.seeds)))

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
            wait_for_saves()
        return result.stopped_by

    def _network(self, env: Any, rngs: nnx.Rngs) -> StatefulModule:
        return build_network(self.run, env, rngs, begins=True)

    def _saved_seeds(self) -> list[int]:
        """The seeds with a finite checkpoint."""
        return [seed for seed in self.seeds if checkpoints_in(self._folder_of(seed).checkpoints)]

    def _draw(self) -> None:
        """Draws the curves of all seeds, and an episode of the median one."""
        saved = self._saved_seeds()
        returns = {seed: value for seed, value in self._last_returns().items() if seed in saved}
        seed = median_seed(returns) if returns else saved[0]
        run, folder = self._run_of(seed), self._folder_of(seed)
        network = self._network(self.env, nnx.Rngs(seed))
        checkpoint = latest_checkpoint(folder.checkpoints)
        trained = load_network(checkpoint, network)
        metrics = [self._folder_of(seed).metrics for seed in self.seeds]
        draw_pictures(self.console, self.folder, self.env, trained, run, metrics)

    def _lines(self) -> list[list[dict[str, Any]]]:
        return [read_metrics(self._folder_of(seed).metrics) for seed in self.seeds]

    def _last_returns(self) -> dict[int, float]:
        """The last evaluation's mean return by seed, NaN included; without seeds that have none."""
        found = {
            seed: last_value(lines, EVALUATION_RETURN)
            for seed, lines in zip(self.seeds, self._lines(), strict=True)
        }
        return {seed: value[0] for seed, value in found.items() if value is not None}

    def _steps(self) -> int:
        return step_of(latest_checkpoint(self._folder_of(self._saved_seeds()[0]).checkpoints))

    def _say_how_to_go_on(self, ending: Ending) -> None:
        first = self._folder_of(self._saved_seeds()[0])
        say(
            self.console,
            f"\nStopped by {SIGNALS[ending.code]} at {self._steps():,} of "
            f"{self.run.train.ppo.total_steps:,} steps of each seed; go on with each, as by:  "
            f"nnx-ppo resume {first.name}",
        )

    def _summarize(self, seconds: float, ending: Ending) -> None:
        total = self.run.train.ppo.total_steps
        first, steps = self._folder_of(self._saved_seeds()[0]), self._steps()
        lines = self._lines()
        reached = lines[0][-1]["step"] if ending.code == FAILED and lines[0] else steps
        took = duration(seconds)
        say(self.console, f"\n{how_it_ended(ending, reached, total, took, ' of each seed')}")
        returns = self._last_returns()
        if returns:
            listed = "  ".join(f"{seed}: {value:.4g}" for seed, value in returns.items())
            median = median_return(returns)
            say(
                self.console,
                f"Evaluation return, median of the seeds: {median:.4g}{share(median, self.env)}\n"
                f"by seed: {listed}",
            )
            bad = [str(seed) for seed, value in returns.items() if not math.isfinite(value)]
            if bad:
                say(self.console, f"Not finite, and counted as the worst: seed {', '.join(bad)}")
        for line in (*nonfinite_lines(lines), *time_lines(lines, self.run)):
            say(self.console, line)
        list_files(self.console, self.folder, {"first of the runs": first.path})
        say(self.console, f"Evaluate one:  nnx-ppo eval {first.name}")
        if ending.code != FAILED:
            further = f" --total-steps {2 * steps}" if steps >= total else ""
            say(self.console, f"Train it on:   nnx-ppo resume {first.name}{further}")


def _of_one(every: dict[str, np.ndarray], index: int) -> dict[str, float]:
    """The metrics of one seed; without the return of training if none of its episodes ended."""
    own = {name: float(column[index]) for name, column in every.items()}
    return {
        name: value
        for name, value in own.items()
        if not (name.startswith(TRAINING_RETURN) and math.isnan(value))
    }


def _note(count: int, seeds: int) -> str:
    return f"  not finite in {count} of {seeds} seeds" if count else ""
