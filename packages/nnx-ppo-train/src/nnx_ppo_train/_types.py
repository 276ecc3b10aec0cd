"""The records that pass between rollout, loss and loop."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool
from nnx_stateful import PyTree, StatefulModule

from ._episodes import EpisodeTally
from ._hyperparameters import ScheduleState


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PPONetworkOutput:
    """Output of a network that PPO trains; made by :class:`PPOAdapter`.

    Attributes:
      actions: tree of actions, leaves (B, ...) or (T, B, ...).
      loglikelihoods: tree of log-likelihoods of these actions, leaves (B,) or (T, B).
      value_estimates: tree of values, one leaf per reward, (B,) or (T, B).
    """

    actions: PyTree
    loglikelihoods: PyTree
    value_estimates: PyTree


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Transition:
    """A rollout: every leaf leads with (T, B).

    Attributes:
      obs: observations that the network saw.
      network_output: actions, log-likelihoods and values at the time.
      rewards: tree of rewards, leaves (T, B).
      done: (T, B), the row's episode ended with this step.
      truncated: (T, B), it ended by a limit and not by the task.
      bootstrap_value: like ``rewards``: the value of the state after this step where the sequence
        is cut there: at a truncation, and at the last step unless its episode ended; zero
        everywhere else. Computed with the behaviour parameters and the carry of that step.
      metrics: what the network and the environment reported.
      rollout_extras: what the network must remember to replay the rollout.
      nonfinite: (T, B), values of the step were not finite: it is left out of losses and
        statistics; None if nothing was checked.
    """

    obs: PyTree
    network_output: PPONetworkOutput
    rewards: PyTree
    done: Bool[Array, "T B"]
    truncated: Bool[Array, "T B"]
    bootstrap_value: PyTree
    metrics: dict[str, Any]
    rollout_extras: PyTree = None
    nonfinite: Bool[Array, "T B"] | None = None


@dataclasses.dataclass(frozen=True)
class TrainingState:
    """Everything that a training run needs to go on.

    Attributes:
      networks: the network; a copy, safe to keep, in what ``checkpoint_fn`` receives.
      network_states: carry state, leaves (B, ...); None to begin new episodes.
      env_states: environment states, leaves (B, ...); None to begin new episodes.
      optimizer: state of the optax optimiser.
      schedules: how far learning rate and entropy schedules have come.
      rng_key: the key from which the next iteration draws.
      steps_taken: environment steps so far, an exact Python int.
      episodes: returns and lengths of the training episodes under way; None to begin new ones.
      reward_normalizer: what rewards are normalised by; None without ``normalize_rewards``.
      reward_sums: discounted sums of rewards under way, the normaliser's carry, leaves (B,); None
        to begin new ones.
      values: statistics by which values are normalized; None without ``normalize_values``.
      callbacks: what ``state_dict()`` of each callback returned, None for those without one.
      metrics: the last metrics by name; those of an evaluation only if it was of this very state.
    """

    networks: StatefulModule
    network_states: PyTree
    env_states: PyTree
    optimizer: PyTree
    schedules: ScheduleState
    rng_key: Array
    steps_taken: int
    episodes: EpisodeTally | None
    reward_normalizer: StatefulModule | None = None
    reward_sums: PyTree = None
    values: PyTree = None
    callbacks: tuple[Any, ...] = ()
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class VideoData:
    """A rendered episode.

    Attributes:
      frames: (T, height, width, 3) uint8.
      step: environment steps of training so far.
      episode_reward: the episode's return, summed over reward keys.
      episode_length: steps until the episode ended or was cut.
    """

    frames: np.ndarray
    step: int
    episode_reward: float
    episode_length: int


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """Result of :func:`train_ppo`.

    Attributes:
      training_state: from which training can go on; its network is the one that was passed in.
      final_metrics: the latest value of every metric.
      eval_history: one dict per evaluation, with its "step".
      total_steps: environment steps taken.
      total_iterations: iterations done in this call.
      stopped_by: why training ended before ``total_steps``, None if it did not.
    """

    training_state: TrainingState
    final_metrics: dict[str, Any]
    eval_history: list[dict[str, Any]]
    total_steps: int
    total_iterations: int
    stopped_by: str | None = None
