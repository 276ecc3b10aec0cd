"""The numbers of a config as arrays: what a compiled iteration reads, and what can be swept."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int
from nnx_stateful import PyTree

from ._ppo_config import PPOConfig

Number = Any
"""A Python float, or a scalar array."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Hyperparameters:
    """The numeric options of a :class:`PPOConfig`, of the same names and meanings.

    They are arguments of the compiled iteration, not constants in it, so one compilation serves
    many values, also at once. None stands for an option that is off.

    Attributes:
      learning_rate: step size; None where it is a schedule.
      entropy_scale: factor of the entropy weights; None where it is a schedule.
      discounting_factor: discount per step; a dict by reward key where the config has one.
      gae_lambda: lambda.
      clip_range: half-width of the interval of the ratio.
      critic_loss_weight: weight of the value loss.
      reward_scaling: factor of the rewards.
      gradient_clipping: largest gradient norm.
      weight_decay: decoupled weight decay.
      value_clip_range: half-width of the interval of the value.
      huber_delta: where the value loss turns linear.
      desired_kl: divergence that the learning rate is adapted to.
      target_kl: divergence at which updates stop.
    """

    learning_rate: Number | None
    entropy_scale: Number | None
    discounting_factor: Number | Mapping[str, Number]
    gae_lambda: Number
    clip_range: Number
    critic_loss_weight: Number
    reward_scaling: Number
    gradient_clipping: Number | None
    weight_decay: Number | None
    value_clip_range: Number | None
    huber_delta: Number | None
    desired_kl: Number | None
    target_kl: Number | None

    @classmethod
    def of(cls, config: PPOConfig) -> "Hyperparameters":
        """Reads them off a config, as Python floats."""
        values = {field.name: getattr(config, field.name) for field in dataclasses.fields(cls)}
        for name in ("learning_rate", "entropy_scale"):
            if callable(values[name]):
                values[name] = None
        if isinstance(config.discounting_factor, Mapping):
            values["discounting_factor"] = dict(config.discounting_factor)
        return cls(**jax.tree.map(float, values))  # an int may be beyond int32

    def as_arrays(self) -> "Hyperparameters":
        """The same as scalar arrays, which a compiled function takes without tracing again."""
        return jax.tree.map(lambda value: jnp.asarray(value, jnp.result_type(float)), self)

    def discounts(self, rewards: PyTree) -> PyTree:
        """One discount per reward, in the tree of the rewards."""
        structure = jax.tree.structure(rewards)
        if isinstance(self.discounting_factor, Mapping):
            return structure.unflatten(jax.tree.leaves(self.discounting_factor))
        return structure.unflatten([self.discounting_factor] * structure.num_leaves)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ScheduleState:
    """How far the schedules have come.

    Attributes:
      updates: () int32, gradient updates that were due so far, also those that ``target_kl``
        skipped, so that schedules end when training does.
      learning_rate_scale: () factor of the learning rate that callbacks have asked for.
      coming_scale: () that factor from the next iteration on: what a callback asks for acts after
        exactly one more iteration, whether or not that one was under way already.
      adaptation: () factor of the learning rate that ``desired_kl`` has led to.
    """

    updates: Int[Array, ""]
    learning_rate_scale: Array
    coming_scale: Array
    adaptation: Array

    @classmethod
    def start(cls) -> "ScheduleState":
        """Returns the state in which a run begins."""
        return cls(jnp.zeros((), jnp.int32), jnp.ones(()), jnp.ones(()), jnp.ones(()))


def learning_rate(config: PPOConfig, hyper: Hyperparameters, updates: Number) -> Number:
    """The step size after a number of updates, without the scale that adaptation gives it."""
    if callable(config.learning_rate):
        return config.learning_rate(updates)
    return hyper.learning_rate * _remaining(config, config.learning_rate_schedule, updates)


def entropy_scale(config: PPOConfig, hyper: Hyperparameters, updates: Number) -> Number:
    """The factor of the entropy weights after a number of updates."""
    if callable(config.entropy_scale):
        return config.entropy_scale(updates)
    return hyper.entropy_scale * _remaining(config, config.entropy_schedule, updates)


def _remaining(config: PPOConfig, schedule: str, updates: Number) -> Number:
    """What a schedule leaves of its first value: all of it, or the share of updates to come."""
    if schedule == "constant":
        return 1.0
    iterations = -(-config.total_steps // config.steps_per_iteration)
    return jnp.maximum(1.0 - updates / (iterations * config.updates_per_iteration), 0.0)
