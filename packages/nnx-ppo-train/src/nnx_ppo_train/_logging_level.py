"""Which metrics are computed."""

import enum
from typing import Any

from ._validate import instance, percentiles


class LoggingLevel(enum.Flag):
    """Which groups of metrics are computed; combine them with ``|``."""

    NONE = 0
    LOSSES = enum.auto()
    CRITIC_EXTRA = enum.auto()
    ACTOR_EXTRA = enum.auto()
    ROLLOUT_STATS = enum.auto()
    ROLLOUT_OBS = enum.auto()
    ENV_METRICS = enum.auto()
    NETWORK_METRICS = enum.auto()
    GRAD_NORM = enum.auto()
    WEIGHTS = enum.auto()
    THROUGHPUT = enum.auto()
    BASIC = LOSSES
    ALL = (
        LOSSES
        | CRITIC_EXTRA
        | ACTOR_EXTRA
        | ROLLOUT_STATS
        | ENV_METRICS
        | NETWORK_METRICS
        | GRAD_NORM
        | WEIGHTS
        | THROUGHPUT
    )


def check_logging(config: Any) -> None:
    """Raises unless a config's ``logging_level`` and ``logging_percentiles`` are legal."""
    instance(config, "logging_level", LoggingLevel, "LoggingLevel.BASIC")
    percentiles(config, "logging_percentiles")
