"""Returns of several seeds: a seed without a finite one is the worst, and is shown."""

import math
import statistics
from collections.abc import Mapping

import numpy as np

_SUMMED = "nonfinite/"
_HIGHER_IS_WORSE = "losses/"


def of_all_seeds(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Returns one value for each metric: the median of the seeds, or the sum of counts.

    Args:
      values: by metric an array (N,), one of each seed.

    Returns:
      Medians in which a value that is not finite is the worst: so the median is NaN only if half of
      the seeds are. A return that NaN marks as absent (no episode has ended) is left out.
    """
    return {name: _of_all(name, column) for name, column in values.items()}


def not_finite(values: Mapping[str, np.ndarray]) -> int:
    """Returns how many seeds have a loss that is not finite."""
    losses = [column for name, column in values.items() if name.startswith(_HIGHER_IS_WORSE)]
    if not losses:
        return 0
    return int(np.any(~np.isfinite(np.stack(losses)), axis=0).sum())


def median_seed(returns: Mapping[int, float]) -> int:
    """Returns the seed with the median return; of two in the middle the lower one.

    Example:
      >>> median_seed({3: float("nan"), 4: 7.0, 5: 9.0})
      4
    """
    ranks = {seed: _rank(value) for seed, value in returns.items()}
    middle = statistics.median_low(ranks.values())
    return next(seed for seed, rank in ranks.items() if rank == middle)


def median_return(returns: Mapping[int, float]) -> float:
    """Returns the median return; NaN is below every number, and NaN if it is in the middle.

    Example:
      >>> median_return({3: float("nan"), 4: 7.0, 5: 9.0})
      7.0
    """
    ranks = [_rank(value) for value in returns.values()]
    low, high = statistics.median_low(ranks), statistics.median_high(ranks)
    return (low + high) / 2 if math.isfinite(low) else math.nan


def _rank(value: float) -> float:
    return value if math.isfinite(value) else -math.inf


def _of_all(name: str, column: np.ndarray) -> float:
    if name.startswith(_SUMMED):
        return float(np.nansum(column))
    if name.startswith("train/"):
        column = column[~np.isnan(column)]
    elif not np.all(np.isfinite(column)):
        worst = math.inf if name.startswith(_HIGHER_IS_WORSE) else -math.inf
        column = np.where(np.isfinite(column), column, worst)
    if not column.size:
        return math.nan
    ordered = np.sort(column)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return float((low + high) / 2) if np.isfinite([low, high]).all() else math.nan
