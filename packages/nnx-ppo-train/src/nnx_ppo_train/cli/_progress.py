"""How training is going: a live line on a terminal, now and then a line elsewhere."""

import dataclasses
import math
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

PLAIN_INTERVAL = 10.0  # s, between lines where there is no terminal


@dataclasses.dataclass
class Latest:
    """The newest values of what is shown; NaN where there is none yet.

    Attributes:
      train_return: mean return of the training episodes that ended in the last iteration in which
        any did.
      eval_return: mean return of the last evaluation.
      actor_loss: the clipped surrogate, summed over actions.
      critic_loss: the value loss, summed over rewards.
    """

    train_return: float = math.nan
    eval_return: float = math.nan
    actor_loss: float = math.nan
    critic_loss: float = math.nan

    def update(self, metrics: dict[str, float]) -> None:
        """Takes what is new in an iteration's metrics."""
        for name, key in (
            ("train_return", "train/episode_reward"),
            ("eval_return", "eval/episode_reward/mean"),
        ):
            value = metrics.get(key, math.nan)
            if not math.isnan(value):
                setattr(self, name, value)
        for name, key in (("actor_loss", "losses/actor"), ("critic_loss", "losses/critic")):
            parts = [v for k, v in metrics.items() if k == key or k.startswith(f"{key}/")]
            if parts:
                setattr(self, name, sum(parts))

    def text(self) -> str:
        """Returns and losses, as far as there are any."""
        shown = {
            "return": self.train_return,
            "eval": self.eval_return,
            "actor": self.actor_loss,
            "critic": self.critic_loss,
        }
        formats = {"return": ".1f", "eval": ".1f", "actor": ".3f", "critic": ".3g"}
        return "  ".join(
            f"{name} {value:{formats[name]}}"
            for name, value in shown.items()
            if not math.isnan(value)
        )


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
            columns = (SpinnerColumn(), BarColumn(8), TextColumn("{task.description}"))
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

    def update(self, metrics: dict[str, float], step: int) -> None:
        """Takes the metrics of an iteration and shows what is due."""
        self._latest.update(metrics)
        now = time.monotonic()
        if self._first is None and step > self._start_step:
            self._first = (now, step)
        if self._live is not None:
            text = f"{short(step)} steps{self._speed(now, step)}  {self._latest.text()}"
            self._live.update(self._task, completed=step, description=text)
        evaluated = "eval/episode_reward/mean" in metrics
        due = now - self._last_line > PLAIN_INTERVAL or step >= self._total
        if evaluated or (self._live is None and due):
            self._last_line = now
            self._console.print(
                f"step {step:,} of {self._total:,}{self._speed(now, step)}  {self._latest.text()}",
                highlight=False,
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
