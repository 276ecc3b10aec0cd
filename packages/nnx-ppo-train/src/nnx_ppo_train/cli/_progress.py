"""How training is going: a live line on a terminal, now and then a line elsewhere."""

import dataclasses
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from .._callbacks import EVALUATION_RETURN

PLAIN_INTERVAL = 10.0  # s, between lines where there is no terminal
_SHOWN = {
    "train/episode_reward": ("return", ".1f"),
    EVALUATION_RETURN: ("eval", ".1f"),
    "losses/actor": ("actor", ".3f"),
    "losses/critic": ("critic", ".3g"),
}
_COUNTED = {"nonfinite/samples": "samples", "nonfinite/updates": "updates"}


@dataclasses.dataclass
class Latest:
    """The newest values of what is shown, by metric; NaN is a value and is shown.

    Attributes:
      values: by metric, of those that were there once.
      left_out: counts of what was not finite, summed over the iterations.
    """

    values: dict[str, float] = dataclasses.field(default_factory=dict)
    left_out: dict[str, float] = dataclasses.field(default_factory=dict)

    def update(self, metrics: dict[str, float]) -> None:
        """Takes what is new in an iteration's metrics; what they lack keeps its last value."""
        for metric in _SHOWN:
            parts = [v for k, v in metrics.items() if k == metric or k.startswith(f"{metric}/")]
            if metric in metrics or (parts and metric.startswith("losses/")):
                is_loss = metric.startswith("losses/")
                self.values[metric] = sum(parts) if is_loss else metrics[metric]
        for metric in _COUNTED:
            self.left_out[metric] = self.left_out.get(metric, 0.0) + metrics.get(metric, 0.0)

    def text(self) -> str:
        """Returns and losses as far as there are any, and what was left out if anything was."""
        words = [
            f"{name} {self.values[metric]:{form}}"
            for metric, (name, form) in _SHOWN.items()
            if metric in self.values
        ]
        counts = [
            f"{self.left_out[metric]:,.0f} {name}"
            for metric, name in _COUNTED.items()
            if self.left_out.get(metric)
        ]
        return "  ".join([*words, f"not finite: {', '.join(counts)}"] if counts else words)


class TrainingProgress:
    """Context that shows steps, speed, return, losses and the time that is left.

    Speed and remaining time count from the end of the first iteration: compilation is over then.

    Args:
      console: where to show it.
      total_steps: environment steps at which training ends.
      start_step: environment steps at which it begins.
    """

    def __init__(self, console: Console, total_steps: int, start_step: int):
        self._console = console
        self._total = total_steps
        self._start_step = start_step
        self._first: tuple[float, int] | None = None
        self._latest = Latest()
        self._last_line = time.monotonic()
        self._live: Progress | None = None

    def __enter__(self) -> "TrainingProgress":
        if self._console.is_terminal:
            columns = (
                SpinnerColumn(),
                BarColumn(8),
                TextColumn("{task.description}", markup=False),
            )
            self._live = Progress(*columns, console=self._console, refresh_per_second=5)
            self._task = self._live.add_task(
                "compiling", total=self._total, completed=self._start_step
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, metrics: dict[str, float], step: int, note: str = "") -> None:
        """Takes the metrics of an iteration and shows what is due.

        Args:
          metrics: the metrics.
          step: environment steps.
          note: what else to show behind them.
        """
        self._latest.update(metrics)
        latest = f"{self._latest.text()}{note}"
        now = time.monotonic()
        if self._first is None and step > self._start_step:
            self._first = (now, step)
        if self._live is not None:
            text = f"{short(step)} steps{self._speed(now, step)}  {latest}"
            self._live.update(self._task, completed=step, description=text)
        evaluated = EVALUATION_RETURN in metrics
        due = now - self._last_line > PLAIN_INTERVAL or step >= self._total
        if evaluated or (self._live is None and due):
            self._last_line = now
            self._console.print(
                f"step {step:,} of {self._total:,}{self._speed(now, step)}  {latest}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )

    def _speed(self, now: float, step: int) -> str:
        """Steps per second and the time that is left, once they can be told."""
        if self._first is None or step <= self._first[1]:
            return ""
        rate = (step - self._first[1]) / max(now - self._first[0], 1e-9)
        left = max(self._total - step, 0) / rate
        return f"  {short(rate)}/s  {duration(left)} left"


def short(number: float) -> str:
    """A number of steps with three digits.

    Example:
      >>> short(999), short(15_360), short(2_500_000)
      ('999', '15.4k', '2.5M')
    """
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.3g}"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, without leading zeros.

    Example:
      >>> duration(75.2), duration(3661)
      ('1:15', '1:01:01')
    """
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
