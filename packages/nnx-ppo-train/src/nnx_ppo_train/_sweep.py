"""Which trainings run at once: every seed with every combination of swept values."""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ._config import LARGEST_SEED, TrainConfig
from ._hyperparameters import Hyperparameters
from ._validate import check_whole_number, shown

SWEEPABLE = tuple(field.name for field in dataclasses.fields(Hyperparameters))
"""Options that can be swept: the numeric ones."""


@dataclasses.dataclass(frozen=True)
class Member:
    """One of many trainings.

    Attributes:
      seed: its seed.
      values: values of the swept options by name.
      config: its config, which a single run of it would have.
    """

    seed: int
    values: dict[str, Any]
    config: TrainConfig


def make_members(
    config: TrainConfig, seeds: Iterable[int], sweep: Mapping[str, Iterable[Any]] | None
) -> tuple[Member, ...]:
    """Returns the members: all seeds of the first combination, then of the next.

    Args:
      config: what they share.
      seeds: their seeds, all different.
      sweep: values by name of a numeric option of PPOConfig; combinations are their product, the
        last option varying fastest.

    Raises:
      TypeError, ValueError: if a seed or an option cannot be, or options that are off in one member
        are on in another.
    """
    seeds = _checked_seeds(seeds)
    sweep = _checked_sweep({} if sweep is None else sweep)
    members = []
    for combination in itertools.product(*sweep.values()):
        values = dict(zip(sweep, combination, strict=True))
        ppo = dataclasses.replace(config.ppo, **values)
        for seed in seeds:
            own = dataclasses.replace(config, ppo=ppo, seed=seed)
            members.append(Member(seed, values, own))
    return tuple(members)


def _checked_seeds(seeds: Any) -> list[int]:
    if isinstance(seeds, int) or not isinstance(seeds, Iterable):
        raise TypeError(
            f"train_ppo_many: seeds: expected several seeds, such as range(8), got {shown(seeds)}"
        )
    seeds = _plain(seeds)
    for seed in seeds:
        check_whole_number(seed, "train_ppo_many: seeds", at_least=0, at_most=LARGEST_SEED)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(
            f"train_ppo_many: seeds: expected at least one seed and each only once, got {seeds}"
        )
    return seeds


def _checked_sweep(sweep: Any) -> dict[str, list[Any]]:
    if not isinstance(sweep, Mapping):
        raise TypeError(
            "train_ppo_many: sweep: expected a dict such as {'learning_rate': [1e-3, 1e-4]}, got "
            f"{shown(sweep)}"
        )
    lists = {}
    for name, values in sweep.items():
        if name not in SWEEPABLE:
            raise ValueError(
                "train_ppo_many: sweep: expected numeric options of PPOConfig, "
                f"{', '.join(SWEEPABLE)}; got {shown(name)}; run train_ppo for each value of it"
            )
        several = isinstance(values, Iterable) and not isinstance(values, str | Mapping)
        lists[name] = _plain(values) if several else []
        if not lists[name]:
            raise TypeError(
                f"train_ppo_many: sweep[{name!r}]: expected a list of values, got {shown(values)}"
            )
        if any(map(callable, lists[name])):
            raise ValueError(
                f"train_ppo_many: sweep[{name!r}]: expected numbers, got schedules, which are "
                "part of the program that all members share; run train_ppo for each of them"
            )
        if len({_kind(value) for value in lists[name]}) > 1:
            raise ValueError(
                f"train_ppo_many: sweep[{name!r}]: expected values of one kind (an option is on or "
                f"off for all members alike), got {lists[name]}"
            )
    return lists


def _plain(values: Iterable[Any]) -> list[Any]:
    """A list, with Python's numbers for NumPy's, as from ``np.arange`` and ``np.logspace``."""
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _kind(value: Any) -> str:
    if value is None:
        return "off"
    if isinstance(value, Mapping):
        return f"dict of {sorted(value)}"
    return "number"
