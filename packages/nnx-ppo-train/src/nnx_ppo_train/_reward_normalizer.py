"""RewardNormalizer: rewards in units of the spread of their discounted sums."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array
from nnx_stateful import Normalizer, PyTree, StatefulModule, StatefulModuleOutput

from ._arguments import check_arrays
from ._validate import check_number, shown


class RewardDiscount(nnx.Variable):
    """The discount with which rewards are summed up."""


class RewardNormalizer(StatefulModule):
    """Divides every reward by the running standard deviation of its discounted sum.

    The carry state is the discounted sum of each row's rewards, which begins anew with every
    episode; a rollout of them is folded into the statistics by :meth:`update_statistics`. Rewards
    are scaled and not shifted: a shift would change the task.

    Args:
      rewards: a tree of rewards, or their shapes; lends its structure.
      discount: discount per step, a number or a tree of them in the structure of the rewards.

    Raises:
      TypeError: if the rewards are no tree of arrays, or a discount is no number.
      ValueError: if a discount is not in [0, 1], or discounts are no tree like the rewards; on
        call, if the input is no tree like the rewards with one number per row.

    Example:
      >>> import jax.numpy as jnp
      >>> normalizer = RewardNormalizer(jnp.zeros(()), 0.5)
      >>> rewards = jnp.array([[1.0], [1.0], [2.0]])
      >>> sums = normalizer.unroll(normalizer.initialize_state(1), rewards).rollout_extras
      >>> sums[:, 0].tolist()
      [1.0, 1.5, 2.75]
      >>> normalizer.update_statistics(sums)
      >>> round(float(normalizer.scaled(rewards)[2, 0]), 3)
      2.717
    """

    def __init__(self, rewards: PyTree, discount: Any):
        check_arrays(rewards, "RewardNormalizer: rewards")
        structure = jax.tree.structure(rewards)
        check_arrays(discount, "RewardNormalizer: discount")
        if isinstance(discount, int | float):
            discount = structure.unflatten([discount] * structure.num_leaves)
        if jax.tree.structure(discount) != structure:
            raise ValueError(
                "RewardNormalizer: discount: expected a number, or a tree of them like that of the "
                f"rewards, {structure}; got {shown(discount)}"
            )
        for number in jax.tree.leaves(discount):
            value = number.item() if getattr(number, "shape", None) == () else number
            check_number(value, "RewardNormalizer: discount", at_least=0.0, at_most=1.0)
        self.discount = RewardDiscount(jax.tree.map(_as_float, discount))
        self.sums = Normalizer(structure.unflatten([()] * structure.num_leaves))

    def initialize_state(self, batch_size: int) -> PyTree:
        return jax.tree.map(lambda mean: jnp.zeros(batch_size, mean.dtype), self._means)

    def reset_state(self, prev_state: PyTree) -> PyTree:
        return jax.tree.map(jnp.zeros_like, prev_state)

    def __call__(
        self, state: PyTree, x: PyTree, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        del rollout_extras
        self._check_input(state, x)
        sums = jax.tree.map(
            lambda total, reward, discount: (discount * total + reward).astype(total.dtype),
            state,
            x,
            self.discount.get_value(),
        )
        return StatefulModuleOutput(sums, self.scaled(x), 0.0, {}, sums)

    def update_statistics(self, rollout_extras: PyTree) -> None:
        self.sums.update_statistics(rollout_extras)

    def scaled(self, rewards: PyTree) -> PyTree:
        """Rewards, leaves (...), in units of the standard deviation."""
        return jax.tree.map(lambda reward, std: reward / std, rewards, self.sums.std)

    def _check_input(self, state: PyTree, x: PyTree) -> None:
        """Raises ValueError unless the input has a number per row for each sum in the state."""
        check_arrays(x, "RewardNormalizer: input")
        wanted, found = (jax.tree.map(jnp.shape, tree) for tree in (state, x))
        if wanted != found:
            raise ValueError(
                f"RewardNormalizer: expected rewards of shapes {shown(wanted)}, got "
                f"{shown(found)}; give one number per row and reward"
            )

    @property
    def _means(self) -> PyTree:
        return self.sums.mean.get_value()


def _as_float(value: Any) -> Array:
    return jnp.asarray(value, jnp.result_type(float))
