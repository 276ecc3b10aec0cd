"""The updates of an iteration: epochs of minibatches, until the policy has moved far enough."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Bool, Int, Key
from nnx_stateful import PyTree, rebuild

from ._any_row import any_row
from ._estimates import Estimates, estimate, steps_left_out, with_normalized_advantages
from ._hyperparameters import Hyperparameters, ScheduleState, entropy_scale, learning_rate
from ._logging_level import LoggingLevel
from ._loss import ppo_loss
from ._metrics import PackedMetrics, summarize
from ._nonfinite import all_finite
from ._optimizer import Optimizer
from ._pairing import match_rewards
from ._ppo_config import PPOConfig
from ._types import Transition
from .samplers import entropy_scaled

UPDATES = "updates"
"""Metric: number of updates that were applied."""
SKIPPED = "nonfinite/updates"
"""Metric: number of updates that were not applied, since their gradient was not finite."""
FIRST_LEAF = "nonfinite/first_leaf"
"""Metric of ``nonfinite="raise"``: 0 if loss and gradients are finite, 1 if the loss is not,
2 + the place among the parameters of the first gradient that is not, 2 + their number if only the
step is not finite that was made of them."""

ADAPTATION = 1.5
"""Factor by which the learning rate is adapted, at each update at most."""
ADAPTATION_BOUNDS = (0.01, 10.0)
"""Bounds of what adaptation may make of the learning rate."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Learner:
    """State that gradient updates change.

    Attributes:
      params: trainable parameters.
      variables: the network's other variables.
      optimizer: state of the optimiser.
      schedules: how far the schedules have come.
      stopped: () whether this iteration's remaining updates are skipped.
    """

    params: PyTree
    variables: PyTree
    optimizer: PyTree
    schedules: ScheduleState
    stopped: Bool[Array, ""]


class Epochs:
    """All updates on one rollout.

    Args:
      graphdef: structure of the network.
      optimizer: from gradients to parameters.
      config: the algorithm.
      hyper: its numbers.
      rollout: the rollout, leaves (T, B, ...).
      network_states: carry state before its first step, leaves (B, ...).
    """

    def __init__(
        self,
        graphdef: Any,
        optimizer: Optimizer,
        config: PPOConfig,
        hyper: Hyperparameters,
        rollout: Transition,
        network_states: PyTree,
    ):
        self._graphdef = graphdef
        self._optimizer = optimizer
        self._config = config
        self._hyper = hyper
        self._rollout = dataclasses.replace(rollout, metrics={})
        self._network_states = network_states
        self._estimates: Estimates | None = None
        if not config.recompute_advantages:
            values = match_rewards(rollout.network_output.value_estimates, rollout.rewards)
            self._estimates = estimate(rollout, values, config, hyper)
            if config.normalizes_rollouts:
                left_out = steps_left_out(rollout, config)
                self._estimates = with_normalized_advantages(self._estimates, left_out)

    def run(self, learner: Learner, key: Key[Array, ""]) -> tuple[Learner, PackedMetrics]:
        """Runs all updates; returns the metrics of each, (updates, N)."""
        rows = shuffled_rows(key, self._config)
        first = jnp.arange(rows.shape[0]) == 0
        return jax.lax.scan(self._update, learner, (rows, first))

    def _update(
        self, learner: Learner, inputs: tuple[Int[Array, " rows"], Bool[Array, ""]]
    ) -> tuple[Learner, PackedMetrics]:
        """One update, or none once the iteration has stopped."""
        rows, first = inputs
        if self._hyper.target_kl is None:
            learner, metrics = self._step(learner, rows, first)
        else:
            target = self._hyper.target_kl
            learner, metrics = self._step_unless_stopped(learner, rows, first, target)
        schedules = dataclasses.replace(learner.schedules, updates=learner.schedules.updates + 1)
        return dataclasses.replace(learner, schedules=schedules), PackedMetrics.of(metrics)

    def _step_unless_stopped(
        self, learner: Learner, rows: Int[Array, " rows"], first: Bool[Array, ""], target: Any
    ) -> tuple[Learner, dict[str, Array]]:
        """One gradient step, if the divergence before it and all others is below the target."""
        skipped = jax.tree.map(
            lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
            jax.eval_shape(self._step, learner, rows, first)[1],
        )

        def step(learner: Learner) -> tuple[Learner, dict[str, Array]]:
            following, metrics = self._step(learner, rows, first)
            stopped = learner.stopped | (metrics["replay/kl"] > target)  # NaN: skipped in _step
            schedules = _where(learner.stopped, learner.schedules, following.schedules)
            following = _where(stopped, learner, following)
            following = dataclasses.replace(following, schedules=schedules)
            metrics[UPDATES] = jnp.where(stopped, 0.0, metrics[UPDATES])
            if SKIPPED in metrics:
                metrics[SKIPPED] = jnp.where(learner.stopped, 0.0, metrics[SKIPPED])
            metrics["computed"] = jnp.where(learner.stopped, 0.0, metrics["computed"])
            return dataclasses.replace(following, stopped=stopped), metrics

        return jax.lax.cond(
            any_row(~learner.stopped), step, lambda learner: (learner, skipped), learner
        )

    def _step(
        self, learner: Learner, rows: Int[Array, " rows"], first: Bool[Array, ""]
    ) -> tuple[Learner, dict[str, Array]]:
        """One gradient step on the environments ``rows``."""
        config, hyper = self._config, self._hyper
        rollout, estimates = jax.tree.map(
            lambda leaf: leaf[:, rows], (self._rollout, self._estimates)
        )
        initial = jax.tree.map(lambda leaf: leaf[rows], self._network_states)
        updates = learner.schedules.updates

        def loss(params: PyTree) -> tuple[Array, tuple[dict[str, Any], PyTree]]:
            network = rebuild(self._graphdef, params, learner.variables)
            with entropy_scaled(entropy_scale(config, hyper, updates)):
                value, metrics = ppo_loss(network, initial, rollout, config, hyper, estimates)
            return value, (metrics, nnx.split(network, nnx.Param, ...)[2])

        (value, (metrics, variables)), grads = jax.value_and_grad(loss, has_aux=True)(
            learner.params
        )
        schedules = learner.schedules
        if hyper.desired_kl is not None:
            adapted = adapt(schedules.adaptation, metrics["replay/kl"], hyper.desired_kl)
            adapted = jnp.where(first, schedules.adaptation, adapted)
            schedules = dataclasses.replace(schedules, adaptation=adapted)
        scale = schedules.learning_rate_scale * schedules.adaptation
        own = self._optimizer.has_own_rate
        rate = scale if own else scale * learning_rate(config, hyper, updates)
        params, optimizer, finite = self._optimizer.step(
            hyper, rate, grads, learner.optimizer, learner.params
        )
        following = Learner(params, variables, optimizer, schedules, learner.stopped)
        scalars = {"computed": jnp.ones(()), UPDATES: jnp.ones(())}
        if config.nonfinite != "ignore":
            finite = finite & jnp.isfinite(value)
            following = _where(finite, following, learner)
            scalars |= {UPDATES: 1.0 * finite, SKIPPED: 1.0 * ~finite}
        if config.nonfinite == "raise":
            scalars[FIRST_LEAF] = jnp.where(finite, 0, _first_leaf(value, grads))
        scalars["learning_rate_scale" if own else "learning_rate"] = jnp.asarray(rate)
        for name, entry in metrics.items():
            scalars |= summarize(entry, name, config.logging_percentiles)
        if LoggingLevel.LOSSES in config.logging_level:
            scalars["losses/total"] = value
        if LoggingLevel.GRAD_NORM in config.logging_level:
            scalars["grad_norm"] = optax.tree.norm(grads)
        return following, scalars


def _first_leaf(loss: Array, grads: PyTree) -> Array:
    """Place of the first leaf that is not finite among loss, gradients and the step itself."""
    finite = jnp.stack([all_finite(leaf) for leaf in [loss, *jax.tree.leaves(grads)]])
    return jnp.where(jnp.all(finite), 1 + finite.shape[0], 1 + jnp.argmin(finite))


def adapt(factor: Array, divergence: Array, desired: Any) -> Array:
    """The factor of the learning rate after a divergence (nats) above or below the desired one.

    Above twice the desired one it is divided by 1.5, below half of it multiplied (Rudin et al.
    2022, arXiv 2109.11978), within a hundredth and ten times.
    """
    factor = jnp.where(divergence > 2.0 * desired, factor / ADAPTATION, factor)
    factor = jnp.where(divergence < 0.5 * desired, factor * ADAPTATION, factor)
    return jnp.clip(factor, *ADAPTATION_BOUNDS)


def _where(condition: Bool[Array, ""], on_true: Any, on_false: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), on_true, on_false)


def shuffled_rows(key: Key[Array, ""], config: PPOConfig) -> Int[Array, "updates rows"]:
    """Draws the environments of each update: every epoch a new partition into minibatches."""
    drawn = jax.random.bits(key, (config.n_epochs, config.n_envs))
    return jnp.argsort(drawn, axis=-1).reshape(config.updates_per_iteration, -1)
