"""The host side of training: compiled iterations, and what happens between them."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

from ._callbacks import Action, Callback, ScaleLearningRate, Stop, check_action
from ._config import TrainConfig
from ._hyperparameters import Hyperparameters
from ._interrupt import InterruptRequest
from ._logging_level import LoggingLevel
from ._loop_state import LoopState
from ._metrics import PackedMetrics
from ._update import CompiledIteration

Metrics = dict[str, Any]
LogFn = Callable[[Metrics, int], None]


@dataclasses.dataclass(frozen=True)
class Task:
    """Something to do between iterations, at the start, at the end and every so many steps.

    Attributes:
      every_steps: environment steps between two times.
      run: ``run(state, steps)`` returns metrics to log with the iteration's.
      after_log: whether to run when these have been logged and callbacks have had their say, as
        what saves the state should; no metrics then.
    """

    every_steps: int
    run: Callable[[LoopState, int], Metrics]
    after_log: bool = False


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
    """Runs iterations until the step count is reached, or somebody asks to stop.

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
      tasks: what to do between iterations, in this order.
      log_fn: called with the metrics and the steps of every iteration, or None.
      callbacks: see :data:`Callback`.
      members: number of trainings at once.
    """

    def __init__(
        self,
        compile_iteration: Callable[[LoopState, Hyperparameters], CompiledIteration],
        state: LoopState,
        hyper: Hyperparameters,
        config: TrainConfig,
        *,
        steps: int,
        tasks: Sequence[Task],
        log_fn: LogFn | None,
        callbacks: Sequence[Callback],
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
        self._last_run: dict[int, int] = {}
        self._log_fn = log_fn
        self._callbacks = callbacks
        self._members = members
        self._resumed = steps > 0
        self._free_at = 0.0
        self._measures_speed = LoggingLevel.THROUGHPUT in config.ppo.logging_level

    def run(self, interrupt: InterruptRequest) -> None:
        """Trains.

        Raises:
          KeyboardInterrupt: after an interrupt was asked for, when all is done that was due.
        """
        self._between_iterations({}, final=False)
        pending: _Pending | None = None
        while not self._finished(interrupt):
            following = self._dispatch()
            self._log_pending(pending)
            pending = following
            if self._due_tasks(self._finished(interrupt)):
                metrics = self._finish(pending)
                self._between_iterations(metrics, self._finished(interrupt))
                pending = None
        self._log_pending(pending)
        self._between_iterations({}, final=True)
        if interrupt.requested:
            raise KeyboardInterrupt

    def _finished(self, interrupt: InterruptRequest) -> bool:
        reached = self.steps >= self._config.ppo.total_steps
        return reached or self.stop is not None or interrupt.requested

    def _dispatch(self) -> _Pending:
        """Starts an iteration."""
        extra: Metrics = {}
        if self._compiled is None:
            self._compiled = self._compile(self.state, self._hyper)
            if self._measures_speed:
                extra["throughput/compile_seconds"] = self._compiled.seconds
        dispatched = time.perf_counter()
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
        if self._measures_speed:
            env_steps = self._members * self._config.ppo.steps_per_iteration
            metrics["throughput/train_sps"] = env_steps / seconds
        return metrics

    def _log_pending(self, pending: _Pending | None) -> None:
        if pending is not None:
            self._log(self._finish(pending), pending.steps)

    def _log(self, metrics: Metrics, steps: int) -> None:
        """Hands metrics to the log and to the callbacks, and does what they ask for."""
        self.metrics = {name: _plain(value) for name, value in metrics.items()}
        if self._log_fn is not None:
            self._log_fn(dict(self.metrics), steps)
        if self.iterations == 0 and self._resumed:
            return  # callbacks have seen this step before the break
        for callback in self._callbacks:
            action = callback(dict(self.metrics), steps)
            check_action(action, callback)
            self._do(action)

    def _do(self, action: Action) -> None:
        if isinstance(action, Stop):
            self.stop = self.stop or action
        if isinstance(action, ScaleLearningRate):
            schedules = self.state.schedules
            scaled = schedules.learning_rate_scale * action.factor
            schedules = dataclasses.replace(schedules, learning_rate_scale=scaled)
            self.state = dataclasses.replace(self.state, schedules=schedules)

    def _due_tasks(self, final: bool) -> list[int]:
        """Indices of the tasks that are to run at this step count."""
        return [index for index in range(len(self._tasks)) if self._is_due(index, final)]

    def _is_due(self, index: int, final: bool) -> bool:
        last, every = self._last_run.get(index), self._tasks[index].every_steps
        if last is None:
            return True
        return self.steps // every > last // every or (final and last != self.steps)

    def _between_iterations(self, metrics: Metrics, final: bool) -> None:
        """Does what is due, and logs what comes of it with the iteration's metrics."""
        due = [self._tasks[index] for index in self._due_tasks(final)]
        for index in self._due_tasks(final):
            self._last_run[index] = self.steps
        for task in due:
            if not task.after_log:
                metrics = metrics | task.run(self.state, self.steps)
        if metrics:
            self._log(metrics, self.steps)
        for task in due:
            if task.after_log:
                task.run(self.state, self.steps)


def _plain(value: Any) -> Any:
    """A scalar as a Python float; what has an axis of many trainings stays an array."""
    return value if getattr(value, "ndim", 0) else float(value)
