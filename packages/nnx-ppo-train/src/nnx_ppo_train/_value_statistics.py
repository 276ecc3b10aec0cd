"""Running statistics of value targets: the unit in which PPO learns values."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from nnx_stateful import PyTree

from ._gae import gae
from ._types import Transition

HORIZON = 10.0
"""Iterations that the statistics average over, once there are that many."""
SMALLEST_SPREAD = 1e-3
"""Smallest standard deviation beside the absolute mean: rounding errors of float32 stay below 1e-3
of it where rewards are constant."""
LONGEST_RETURN = 1e4
"""Largest factor from rewards to a mean return, where hardly anything ends an episode."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ValueStatistics:
    """Mean and standard deviation of value targets, exponentially weighted over iterations.

    Values are learned as ``u`` in ``mean + std * u``, as in PopArt (van Hasselt et al. 2016, arXiv
    1602.07714), but without its rescaling of the last layer, which a read-out of any kind does not
    have: when mean and std move, values move with them.

    The mean is the fixed point of the mean target: targets are linear in the values that they are
    made of, so of a constant value ``m`` their mean is ``gain + (1 - decay) m``, and
    ``m = gain / decay`` (least-squares temporal differences, Boyan 2002, with one constant
    feature). An average of targets would take many iterations to reach a constant that is in all
    rewards.

    The statistics contain the rollout that is learned from, and nothing in them depends on the
    unit of rewards: of rewards times a power of two they are the same, bit for bit, times that.

    Attributes:
      weight: () sum of the weights of all iterations so far.
      gain: (N,) weighted sum of mean targets where the mean value is 0, one for each of N rewards.
      decay: (N,) weighted sum of the shares of a constant value that mean targets lose.
      square: (N,) weighted sum of mean squared deviations of targets from the mean.
      mean: (N,) mean value in the unit of the rewards.
      std: (N,) standard deviation in the unit of the rewards, 1 where nothing has any spread.
    """

    weight: Float[Array, ""]
    gain: Float[Array, " N"]
    decay: Float[Array, " N"]
    square: Float[Array, " N"]
    mean: Float[Array, " N"]
    std: Float[Array, " N"]

    @classmethod
    def start(
        cls, rewards: PyTree, units: dict[str, Float[Array, " N"]] | None = None
    ) -> "ValueStatistics":
        """Returns statistics before any rollout.

        Args:
          rewards: a tree of rewards, or of their shapes.
          units: mean and std of a network that was trained before; they hold until the first
            rollout.
        """
        zeros = jnp.zeros(len(jax.tree.leaves(rewards)))
        start = cls(jnp.zeros(()), zeros, zeros, zeros, zeros, jnp.ones_like(zeros))
        if not units or units["mean"].shape != zeros.shape:
            return start
        return dataclasses.replace(start, **units)

    @property
    def units(self) -> dict[str, Float[Array, " N"]]:
        """Mean and std, by which normalized values become values in the unit of the rewards."""
        return {"mean": self.mean, "std": self.std}

    def updated(
        self,
        rollout: Transition,
        values: PyTree,
        discounts: PyTree,
        gae_lambda: Array | float,
        left_out: Bool[Array, "T B"] | None,
        *,
        common: bool,
    ) -> "ValueStatistics":
        """Returns the statistics with a rollout among them.

        Args:
          rollout: the rollout, with rewards in the environment's unit, leaves (T, B).
          values: normalized values of its observations, in the tree of the rewards, leaves (T, B).
          discounts: one discount for each reward.
          gae_lambda: lambda of the targets.
          left_out: (T, B), samples that do not count; None if all do.
          common: whether all rewards get one standard deviation, so that their ratio stays as it
            is.
        """
        counted = jnp.ones(rollout.done.shape, bool) if left_out is None else ~left_out
        n = jnp.sum(counted)
        # Values count as 0 before any rollout, and never as more than targets spread: a critic
        # with large outputs would raise its own std at every iteration.
        previous_std = jnp.where(self.weight > 0, self.std, 0.0) / _size(values, counted)
        zero_mean, constant = _targets(
            rollout, values, discounts, gae_lambda, left_out, previous_std
        )

        def folded(before: Array, now: Array) -> Array:
            now = (1 - 1 / HORIZON) * before + now
            return jnp.where(n > 0, now, before)

        def mean(x: Float[Array, "N T B"]) -> Float[Array, " N"]:
            return jnp.sum(jnp.where(counted, x, 0.0), axis=(1, 2)) / jnp.maximum(n, 1)

        weight = folded(self.weight, jnp.ones(()))
        gain = folded(self.gain, mean(zero_mean))
        decay = folded(self.decay, 1.0 - mean(constant))
        bounded = jnp.maximum(decay, weight / LONGEST_RETURN)
        center = jnp.where(bounded > 0, gain / jnp.where(bounded > 0, bounded, 1.0), 0.0)
        shift = center[:, None, None]
        square = folded(self.square, mean(jnp.square(zero_mean + shift * constant - shift)))
        spread = _spread(square, weight, center)
        std = _root_mean_square(spread) if common else spread
        std = jnp.where(std > 0, std, 1.0)
        return ValueStatistics(weight, gain, decay, square, center, std)

    def normalized(self, rollout: Transition, discounts: PyTree) -> Transition:
        """Returns the rollout with rewards for which the normalized values are the right ones.

        With values ``mean + std * u`` a step's error ``r + discount v' - v`` is ``std`` times
        ``r~ + discount u' - u`` for ``r~ = (r - (1 - discount) mean) / std``, and for
        ``r~ = (r - mean) / std`` where the episode terminates and nothing follows. So nothing that
        learns from the rollout needs to know the unit.

        Args:
          rollout: the rollout, with rewards in the environment's unit, leaves (T, B).
          discounts: one discount for each reward.
        """
        ends = rollout.done & ~rollout.truncated
        leaves, structure = jax.tree.flatten(rollout.rewards)
        pairs = zip(leaves, jax.tree.leaves(discounts), self.mean, self.std, strict=True)
        rewards = [
            (reward - jnp.where(ends, 1.0, 1.0 - discount) * mean) / std
            for reward, discount, mean, std in pairs
        ]
        return dataclasses.replace(rollout, rewards=structure.unflatten(rewards))


def _targets(
    rollout: Transition,
    values: PyTree,
    discounts: PyTree,
    gae_lambda: Array | float,
    left_out: Bool[Array, "T B"] | None,
    scale: Float[Array, " N"],
) -> tuple[Float[Array, "N T B"], Float[Array, "N T B"]]:
    """Returns targets of values whose mean is 0, and the share of a constant value in targets."""

    def targets(reward: Array, value: Array, bootstrap: Array, discount: Array) -> Array:
        options = {"discount": discount, "lambda_": gae_lambda, "ignored": left_out}
        return value + gae(reward, value, bootstrap, rollout.done, **options)

    trees = (rollout.rewards, values, rollout.bootstrap_value, discounts)
    leaves = list(zip(*map(jax.tree.leaves, trees), scale, strict=True))
    ones = jnp.ones(rollout.done.shape)
    follows = jnp.where(rollout.done & ~rollout.truncated, 0.0, ones)
    zero_mean = [targets(r, std * v, std * b, discount) for r, v, b, discount, std in leaves]
    constant = [targets(0.0 * ones, ones, follows, discount) for _, _, _, discount, _ in leaves]
    return jnp.stack(zero_mean), jnp.stack(constant)


def _size(values: PyTree, counted: Bool[Array, "T B"]) -> Float[Array, " N"]:
    """Returns the root mean square of each value, at least 1."""
    n = jnp.maximum(jnp.sum(counted), 1)
    squares = [
        jnp.sum(jnp.where(counted, jnp.square(leaf), 0.0)) / n for leaf in jax.tree.leaves(values)
    ]
    return jnp.sqrt(jnp.maximum(jnp.stack(squares), 1.0))


def _spread(
    square: Float[Array, " N"], weight: Float[Array, ""], mean: Float[Array, " N"]
) -> Float[Array, " N"]:
    spread = jnp.sqrt(square / jnp.where(weight > 0, weight, 1.0))
    return jnp.maximum(spread, SMALLEST_SPREAD * jnp.abs(mean))


def _root_mean_square(spread: Float[Array, " N"]) -> Float[Array, " N"]:
    largest = jnp.max(spread)
    share = spread / jnp.where(largest > 0, largest, 1.0)
    return jnp.broadcast_to(largest * jnp.sqrt(jnp.mean(jnp.square(share))), spread.shape)
