"""The record that every stateful module returns."""

import dataclasses
from typing import Any, Protocol, runtime_checkable

import jax

PyTree = Any
"""Any tree of arrays. Axis conventions are given where a tree is used."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StatefulModuleOutput:
    """What a call, or an unrolled sequence of calls, of a stateful module returns.

    Attributes:
      next_state: the carry state after the call: the tree, shapes and dtypes of the state that
        went in, every leaf leading with the batch axis B.
      output: a tree whose leaves lead with B, or with (T, B) after ``unroll``.
      regularization_loss: a number, a scalar (the batch mean of a per-row loss, or a loss that
        does not depend on the batch) or one value per row, (B,). Containers add up what their
        children report; the training loss averages over the batch.
      metrics: a dict with str keys; containers nest it under the child's name.
      rollout_extras: what the module must remember from the rollout so that the loss can replay
        it exactly, or None.

    Example:
      >>> import jax.numpy as jnp
      >>> out = StatefulModuleOutput((), jnp.ones((2, 3)), jnp.zeros(2), {})
      >>> out.replace(rollout_extras=jnp.ones(2)).rollout_extras.shape
      (2,)
    """

    next_state: PyTree
    output: PyTree
    regularization_loss: Any
    metrics: dict[str, Any]
    rollout_extras: PyTree = None

    def replace(self, **changes: Any) -> "StatefulModuleOutput":
        """Returns a copy in which the named fields are changed."""
        return dataclasses.replace(self, **changes)


@runtime_checkable
class Steps(Protocol):
    """What the time loop and the reset need of a module; StatefulModule has all of it."""

    def __call__(
        self, state: PyTree, x: PyTree, rollout_extras: PyTree = None, /
    ) -> StatefulModuleOutput:
        """Advances every row by one step."""
        ...

    def initialize_state(self, batch_size: int) -> PyTree:
        """Returns the carry state of fresh rows."""
        ...

    def reset_state(self, prev_state: PyTree) -> PyTree:
        """Returns the carry state of a fresh row."""
        ...
