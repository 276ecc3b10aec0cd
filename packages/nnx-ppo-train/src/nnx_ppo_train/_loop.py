"""The host side of training: compiled iterations, and what happens between them."""

import collections
import contextlib
import dataclasses
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import numpy as np

from ._callbacks import Action, Callback, ScaleLearningRate, Stop, check_action
from ._config import TrainConfig
from ._episodes import EPISODES, MEANS
from ._epochs import FIRST_LEAF, SKIPPED
from ._hyperparameters import Hyperparameters
from ._interrupt import InterruptRequest
from ._logging_level import LoggingLevel
from ._loop_state import LoopState
from ._metrics import PackedMetrics
from ._nonfinite import SAMPLES, NonFiniteError
from ._stopwatch import Stopwatch
from ._update import CompiledIteration
from ._watch import RunWatch

Metrics = dict[str, Any]
LogFn = Callable[[Metrics, int], None]
Diagnose = Callable[[LoopState, int, Metrics], str]
"""From the state before an iteration, its steps and its metrics to what was not finite in it."""


@dataclasses.dataclass(frozen=True)
class Task:
    """Work between iterations: at the start, at the end and every so many steps.

    Attributes:
      part: what its time counts as, see ``_stopwatch.PARTS``.
      every_steps: environment steps between two times.
      run: ``run(state, steps)`` returns metrics to log with the iteration's.
      saves: whether it saves the state: then it runs when metrics have been logged and callbacks
        have had their say, and also after an interrupt or a failure; its metrics are dropped.
      every_seconds: seconds after which it runs in any case, or None.
      wanted: ``wanted(metrics, steps)`` asks for it after what was logged, or None.
    """

    part: str
    every_steps: int
    run: Callable[[LoopState, int], Metrics]
    saves: bool = False
    every_seconds: float | None = None
    wanted: Callable[[Metrics, int], bool] | None = None


@dataclasses.dataclass(frozen=True)
class _Pending:
    """An iteration that has been dispatched and not yet logged.

    Attributes:
      metrics: its metrics, which may still be under way.
      extra: further metrics, known already.
      steps: environment steps after it.
      dispatched: when it was dispatched (s).
    """

    metrics: PackedMetrics
    extra: Metrics
    steps: int
    dispatched: float


class TrainingLoop:
    """Runs iterations until the step count is reached, or something asks to stop.

    Metrics of an iteration are fetched only when the next one has been dispatched, or when a task
    waits for the device anyway: so the device never waits for the host, and no more than two
    iterations are under way. The state may have a further leading axis of many trainings; metrics
    have it too then.

    Args:
      compile_iteration: compiles the iteration for a state and hyperparameters.
      state: where training begins; donated.
      hyper: the config's numbers as arrays.
      config: the run.
      steps: environment steps taken before.
      resumed: whether the run goes on after a break: tasks and callbacks of ``steps`` are done.
      tasks: work between iterations, in this order.
      log_fn: called with the metrics and the steps of every iteration, or None.
      callbacks: see :data:`Callback`.
      diagnose: names the first value that was not finite, for ``nonfinite="raise"``.
      members: number of trainings at once.

    Attributes:
      state: the state after the last iteration; after an error the last one that can be read.
      steps: environment steps taken to it.
      iterations: iterations done in this loop.
      metrics: the latest value of every metric.
      stop: the Stop that a callback returned, or None.
    """

    def __init__(
        self,
        compile_iteration: Callable[[LoopState, Hyperparameters], CompiledIteration],
        state: LoopState,
        hyper: Hyperparameters,
        config: TrainConfig,
        *,
        steps: int,
        resumed: bool,
        tasks: Sequence[Task],
        log_fn: LogFn | None,
        callbacks: Sequence[Callback],
        diagnose: Diagnose,
        members: int = 1,
    ):
        self.state = state
        self.steps = steps
        self.iterations = 0
        self.metrics: Metrics = {}
        self.stop: Stop | None = None
        self._compile = compile_iteration
        self._compiled: CompiledIteration | None = None
        self._hyper = hyper
        self._config = config
        self._tasks = tasks
        self._last_run = dict.fromkeys(range(len(tasks)), steps) if resumed else {}
        self._last_time = dict.fromkeys(range(len(tasks)), time.monotonic())
        self._log_fn = log_fn
        self._callbacks = callbacks
        self._diagnose = diagnose
        self._members = members
        self._free_at = 0.0
        self._measures_speed = LoggingLevel.THROUGHPUT in config.ppo.logging_level
        self._stopwatch = Stopwatch()
        self._watch = RunWatch(config)
        self._failure: str | None = None
        # States before the iterations under way, with their steps: alive unless donated.
        self._before: collections.deque[tuple[LoopState, int]] = collections.deque()

    def run(self, interrupt: InterruptRequest) -> None:
        """Trains.

        Raises:
          NonFiniteError: if values that are not finite ended the run; all is saved by then.
          KeyboardInterrupt, SystemExit: after a signal asked for the end, when all was saved.
        """
        try:
            self._train(interrupt)
        except Exception:
            self._keep_last_good()
            raise
        if self._failure is not None:
            raise NonFiniteError(self._failure)
        interrupt.raise_requested()

    def _train(self, interrupt: InterruptRequest) -> None:
        self._between_iterations({}, self._due_tasks())
        pending: _Pending | None = None
        while not self._finished(interrupt):
            following = self._dispatch()
            self._log_pending(pending)
            pending = following
            if self._due_tasks() or self._finished(interrupt):
                metrics = self._finish(pending)
                final = self._final_tasks(interrupt) if self._finished(interrupt) else []
                self._between_iterations(metrics, {*self._due_tasks(), *final})
                pending = None
        self._log_pending(pending)
        self._between_iterations({}, self._final_tasks(interrupt))

    def _finished(self, interrupt: InterruptRequest) -> bool:
        reached = self.steps >= self._config.ppo.total_steps
        ended = self.stop is not None or self._failure is not None
        return reached or ended or interrupt.requested

    def _dispatch(self) -> _Pending:
        """Starts an iteration."""
        extra: Metrics = {}
        if self._compiled is None:
            self._compiled = self._compile(self.state, self._hyper)
            if self._measures_speed:
                extra["throughput/compile_seconds"] = self._compiled.seconds
        dispatched = time.perf_counter()
        self._before.append((self.state, self.steps))
        self.state, metrics = self._compiled.run(self.state, self._hyper)
        self.steps += self._config.ppo.steps_per_iteration
        self.iterations += 1
        return _Pending(metrics, extra, self.steps, dispatched)

    def _finish(self, pending: _Pending) -> Metrics:
        """Waits for an iteration; returns its metrics, with how fast it was."""
        metrics = {**jax.device_get(pending.metrics).as_dict(), **pending.extra}
        now = time.perf_counter()
        seconds = now - max(pending.dispatched, self._free_at)
        self._free_at = now
        self._stopwatch.add("train", seconds)
        if self._measures_speed:
            env_steps = self._members * self._config.ppo.steps_per_iteration
            metrics["throughput/train_sps"] = env_steps / seconds
        self._judge(metrics, pending.steps)
        while self._before and self._before[0][1] < pending.steps:
            self._before.popleft()
        return metrics

    def _judge(self, metrics: Metrics, steps: int) -> None:
        """Ends a run that values which are not finite have made senseless."""
        if self._config.ppo.nonfinite == "raise":
            found = np.any(metrics[SAMPLES] > 0) or np.any(metrics[SKIPPED] > 0)
            if found and self._failure is None:
                self._failure = self._diagnose(self._before[0][0], self._before[0][1], metrics)
            metrics.pop(FIRST_LEAF)
        self._failure = self._failure or self._watch.failure(metrics, steps)

    def _log_pending(self, pending: _Pending | None) -> None:
        if pending is not None:
            self._log(self._finish(pending), pending.steps)

    def _log(self, metrics: Metrics, steps: int) -> None:
        """Hands metrics to the log and to the callbacks, and does what they ask for."""
        metrics = _without_empty_means(metrics)
        if self._measures_speed:
            metrics = metrics | self._stopwatch.read()
        plain = {name: _plain(value) for name, value in metrics.items()}
        self.metrics = self.metrics | plain
        with self._stopwatch.measuring("host"):
            self._watch.look(plain, self._stopwatch)
            if self._log_fn is not None:
                self._log_fn(dict(plain), steps)
            for callback in self._callbacks:
                action = callback(dict(plain), steps)
                check_action(action, callback)
                self._do(action, steps)

    def _do(self, action: Action, steps: int) -> None:
        if isinstance(action, Stop):
            self.stop = self.stop or action
        if isinstance(action, ScaleLearningRate):
            # It acts after exactly one more iteration, be that under way already or not: so a
            # run that is cut here and goes on later takes the same updates.
            under_way = steps < self.steps
            self.state = _scaled(self.state, action.factor, at_once=under_way)
            for place, (state, before) in enumerate(self._before):
                if before == steps:
                    self._before[place] = (_scaled_if_alive(state, action.factor), before)

    def _due_tasks(self) -> list[int]:
        """Indices of the tasks that are due at this step count and time."""
        return [index for index in range(len(self._tasks)) if self._is_due(index)]

    def _is_due(self, index: int) -> bool:
        task, last = self._tasks[index], self._last_run.get(index)
        if last is None:
            return True
        if last == self.steps:
            return False
        waited = time.monotonic() - self._last_time[index]
        overdue = task.every_seconds is not None and waited >= task.every_seconds
        return overdue or self.steps // task.every_steps > last // task.every_steps

    def _final_tasks(self, interrupt: InterruptRequest) -> list[int]:
        """Indices of the tasks that have not run for the last state.

        After an interrupt or a failure only what saves the state runs: an undisturbed run would
        not evaluate here, and callbacks would act on it.
        """
        return self._not_done(saves_only=interrupt.requested or self._failure is not None)

    def _not_done(self, saves_only: bool) -> list[int]:
        indices = range(len(self._tasks))
        left = [index for index in indices if self._last_run.get(index) != self.steps]
        return [index for index in left if self._tasks[index].saves or not saves_only]

    def _between_iterations(self, metrics: Metrics, due: Collection[int]) -> None:
        """Runs what is due, and logs what comes of it with the iteration's metrics."""
        for index in sorted(due):
            if not self._tasks[index].saves:
                metrics = metrics | self._run(index)
        if metrics:
            self._log(metrics, self.steps)
        for index, task in enumerate(self._tasks):
            wanted = bool(metrics) and task.wanted is not None and task.wanted(metrics, self.steps)
            if task.saves and (index in due or wanted):
                self._run(index)

    def _run(self, index: int) -> Metrics:
        task = self._tasks[index]
        with self._stopwatch.measuring(task.part):
            metrics = task.run(self.state, self.steps)
        self._last_run[index], self._last_time[index] = self.steps, time.monotonic()
        return metrics

    def _keep_last_good(self) -> None:
        """Goes back to the newest state that can be read, after an error, and saves it.

        Errors on a device surface in whatever is read first, so a later state may be lost, too.
        """
        for state, steps in [(self.state, self.steps), *reversed(self._before)]:
            try:
                jax.block_until_ready(state)
                alive = not any(leaf.is_deleted() for leaf in jax.tree.leaves(state))
            except Exception:  # whatever the failed program raised
                alive = False
            if alive:
                self.iterations -= (self.steps - steps) // self._config.ppo.steps_per_iteration
                self.state, self.steps = state, steps
                break
        else:
            return
        for index in self._not_done(saves_only=True):
            with contextlib.suppress(Exception):  # the error itself must not be hidden
                self._run(index)


def _scaled(state: LoopState, factor: float, at_once: bool) -> LoopState:
    """The state with another learning rate: from its next iteration on, or the one after."""
    schedules = state.schedules
    schedules = dataclasses.replace(schedules, coming_scale=schedules.coming_scale * factor)
    if at_once:
        scale = state.schedules.learning_rate_scale * factor
        schedules = dataclasses.replace(schedules, learning_rate_scale=scale)
    return dataclasses.replace(state, schedules=schedules)


def _scaled_if_alive(state: LoopState, factor: float) -> LoopState:
    if state.schedules.coming_scale.is_deleted():
        return state
    return _scaled(state, factor, at_once=False)


def _without_empty_means(metrics: Metrics) -> Metrics:
    """Leaves out means over episodes where none ended; NaN for those of many trainings."""
    if EPISODES not in metrics or np.all(metrics[EPISODES] > 0):
        return metrics
    if np.ndim(metrics[EPISODES]) == 0 or not np.any(metrics[EPISODES] > 0):
        return {name: value for name, value in metrics.items() if name not in MEANS}
    known = {name: np.where(metrics[EPISODES] > 0, metrics[name], np.nan) for name in MEANS}
    return metrics | known


def _plain(value: Any) -> Any:
    """A scalar as a Python float; what has an axis of many trainings stays an array."""
    return value if getattr(value, "ndim", 0) else float(value)
