"""Signs of a run that goes wrong: told once, or reason to end it."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._config import TrainConfig
from ._episodes import EPISODES
from ._epochs import SKIPPED, UPDATES
from ._nonfinite import KINDS, PATIENCE, SAMPLES
from ._stopwatch import Stopwatch

_LOG = logging.getLogger("nnx_ppo_train")

STEPS_WITHOUT_END = 2_000
"""Steps of every environment without any end of an episode, after which a warning says so."""
EVALUATION_SHARE = 1 / 3
"""Share of the time above which a warning says what evaluation costs."""
MEASURED_SECONDS = 30.0
"""Seconds that are measured before that share is judged."""


class RunWatch:
    """Reads every iteration's metrics for signs of failure.

    Metrics of many trainings at once are arrays; a sign must show in all of them.

    Args:
      config: the run.
    """

    def __init__(self, config: TrainConfig):
        self._config = config
        self._idle = 0
        self._steps_without_end = 0
        self._any_ended = False
        self._said: set[str] = set()

    def failure(self, metrics: Mapping[str, Any], steps: int) -> str | None:
        """Returns why the run cannot go on after an iteration, or None if it can.

        Args:
          metrics: the iteration's metrics.
          steps: environment steps after it.
        """
        if self._config.ppo.nonfinite == "ignore" or UPDATES not in metrics:
            return None
        # Without any finite sample updates are applied, of entropy and regularization alone. An
        # iteration that target_kl ended before its first update is no failure.
        nothing_left = metrics[SAMPLES] >= self._config.ppo.steps_per_iteration
        none_applied = (np.asarray(metrics[UPDATES]) == 0) & (np.asarray(metrics[SKIPPED]) > 0)
        idle = bool(np.all(none_applied | nothing_left))
        self._idle = self._idle + 1 if idle else 0
        if self._idle < PATIENCE:
            return None
        counts = {kind: metrics.get(f"nonfinite/{kind}", 0) for kind in KINDS}
        found = ", ".join(f"{kind} {np.sum(count):,.0f}" for kind, count in counts.items())
        return (
            f"step {steps:,}: {PATIENCE} iterations in a row without an applied update or without "
            f"any finite sample: in the last one {np.sum(metrics[SAMPLES]):,.0f} samples "
            f"({found}) and {np.sum(metrics[SKIPPED]):,.0f} gradients. Nothing is learned any "
            'more; train with PPOConfig(nonfinite="raise") to see the first such value, or '
            "lower learning_rate, set gradient_clipping, or bound what the environment returns"
        )

    def look(self, metrics: Mapping[str, Any], stopwatch: Stopwatch) -> None:
        """Logs a warning, once each, about what a run should not go on like.

        Args:
          metrics: metrics as they are logged.
          stopwatch: time spent so far.
        """
        if EPISODES in metrics:
            none_ended = not np.any(np.asarray(metrics[EPISODES]) > 0)
            self._any_ended = self._any_ended or not none_ended
            self._steps_without_end += self._config.ppo.rollout_length
        if not self._any_ended and self._steps_without_end >= STEPS_WITHOUT_END:
            self._say_once(
                "no end",
                f"No episode has ended in {self._steps_without_end:,} steps of each environment, "
                "so there are no returns to report. If the environment never ends by itself, give "
                "it a limit: EpisodeWrapper(env, episode_length).",
            )
        share = stopwatch.total("evaluation") / max(stopwatch.total(), MEASURED_SECONDS)
        if share > EVALUATION_SHARE:
            self._say_once(
                "evaluation",
                f"Evaluation takes {share:.0%} of the time. Raise EvalConfig.every_steps "
                f"({self._config.eval.every_steps:,}), or lower n_envs or max_episode_length.",
            )

    def _say_once(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            _LOG.warning(text)
