"""Rewards as the losses see them: scaled, or in the unit in which values are learned."""

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array
from nnx_stateful import PyTree, rebuild

from ._estimates import samples_counted
from ._hyperparameters import Hyperparameters
from ._loop_state import RewardState
from ._metrics import summarize
from ._nonfinite import unless_newly_nonfinite
from ._pairing import match_rewards
from ._ppo_config import PPOConfig
from ._types import Transition
from ._value_statistics import ValueStatistics


def scaled_rewards(
    graphdef: Any, state: RewardState | None, rollout: Transition, hyper: Hyperparameters
) -> tuple[RewardState | None, Transition]:
    """Returns the rollout with rewards that are scaled, or divided by their running std."""
    if state is None:
        rewards = jax.tree.map(lambda reward: reward * hyper.reward_scaling, rollout.rewards)
        return None, dataclasses.replace(rollout, rewards=rewards)
    normalizer = rebuild(graphdef, state.variables)
    normalizer.discount.set_value(hyper.discounts(rollout.rewards))
    out = normalizer.unroll(state.sums, rollout.rewards, rollout.done)
    normalizer.update_statistics(out.rollout_extras)
    rewards = normalizer.scaled(rollout.rewards)
    following = RewardState(nnx.split(normalizer)[1], out.next_state)
    return following, dataclasses.replace(rollout, rewards=rewards)


def with_normalized_values(
    before: ValueStatistics | None,
    rollout: Transition,
    config: PPOConfig,
    hyper: Hyperparameters,
) -> tuple[ValueStatistics | None, Array, Transition]:
    """Returns statistics, whether they are finite, and the rollout with rewards to learn from."""
    kept = jnp.ones((), bool)
    if before is None:
        return None, kept, rollout
    values = match_rewards(rollout.network_output.value_estimates, rollout.rewards)
    discounts = hyper.discounts(rollout.rewards)
    counted = samples_counted(rollout, config)
    left_out = None if counted is None else ~counted
    statistics = before.updated(
        rollout, values, discounts, hyper.gae_lambda, left_out, common=config.combine_advantages
    )
    if config.nonfinite != "ignore":  # squares of large finite rewards may overflow
        following, kept = unless_newly_nonfinite(statistics, before)
        statistics = cast(ValueStatistics, following)
    return statistics, kept, statistics.normalized(rollout, discounts)


def units_told(statistics: ValueStatistics, rewards: PyTree) -> dict[str, Array]:
    """Mean and standard deviation of value targets as metrics, for each reward."""
    structure = jax.tree.structure(rewards)
    told: dict[str, Array] = {}
    for name, numbers in statistics.units.items():
        told |= summarize(structure.unflatten(list(numbers)), f"values/{name}", None)
    return told
