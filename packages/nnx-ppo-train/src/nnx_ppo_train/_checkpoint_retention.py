"""Choice of the checkpoints that are kept: the newest, the best, and one every so often."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from ._validate import check_whole_number, shown

EVALUATION_RETURN = "eval/episode_reward/mean"


@dataclasses.dataclass(frozen=True)
class Retention:
    """Rules of what is kept; a checkpoint stays as long as one of them wants it.

    Attributes:
      keep: number of the newest ones; None for all.
      best_by: metric by which the best one is kept, higher is better; None for none.
      every_steps: environment steps of which the first checkpoint is kept; None for none.
    """

    keep: int | None = None
    best_by: str | None = None
    every_steps: int | None = None

    def __post_init__(self) -> None:
        if self.keep is not None:
            check_whole_number(self.keep, "make_checkpoint_fn: keep", at_least=1)
        if not (self.best_by is None or isinstance(self.best_by, str)):
            raise TypeError(
                "make_checkpoint_fn: keep_best: expected True, None or the name of a metric, such "
                f"as {EVALUATION_RETURN!r}, got {shown(self.best_by)}"
            )
        if self.every_steps is not None:
            check_whole_number(self.every_steps, "make_checkpoint_fn: keep_every_steps", at_least=1)
            if self.keep is None:
                raise ValueError(
                    "make_checkpoint_fn: keep_every_steps: expected None where keep is None (all "
                    f"checkpoints are kept), got {self.every_steps}; set keep as well"
                )

    def superfluous(self, steps: Sequence[int], scores: Mapping[int, float | None]) -> list[int]:
        """Returns the steps of the checkpoints that no rule wants.

        Args:
          steps: steps of the checkpoints there are, in ascending order.
          scores: by steps the value of the metric, None or NaN where it is not known.
        """
        if self.keep is None:
            return []
        wanted = {*steps[-self.keep :]}
        if self.best_by is not None and (best := best_of(scores)) is not None:
            wanted.add(best)
        if self.every_steps is not None:
            firsts: dict[int, int] = {}
            for step in steps:
                firsts.setdefault(step // self.every_steps, step)
            wanted.update(firsts.values())
        return [step for step in steps if step not in wanted]


def best_of(scores: Mapping[int, float | None]) -> int | None:
    """Returns the steps of the best score, None where there is none.

    Of equal ones it is the earliest: until the next evaluation, later checkpoints repeat the
    metrics of the last one.
    """
    known = {step: score for step, score in scores.items() if is_score(score)}
    return max(sorted(known), key=lambda step: known[step] or 0.0, default=None)


def is_score(value: float | None) -> bool:
    """Returns whether this can be the best: NaN and infinity never are."""
    return value is not None and math.isfinite(value)
