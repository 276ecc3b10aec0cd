"""Interventions: what is cut, clamped or driven in a graph, how, in which rows, at which steps."""

from typing import Literal

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int
from nnx_stateful import RowVariable

from .._declaration._hints import shown

Kind = Literal["lesion", "clamp", "stimulate"]
VALUES: dict[Kind, str] = {"lesion": "strength", "clamp": "value", "stimulate": "current"}
"""What the value of each kind is called."""
Schedule = tuple[int, int | None, int]
"""First step, the step before which it ends (None: never), and every how many steps it acts."""


class InterventionValue(nnx.Variable):
    """A number, or one for each unit or step, that an intervention uses in all rows alike."""


class Intervention(nnx.Module):
    """One change of what a graph does; no part of it is trained.

    Args:
      kind: what is done.
      target: the name of the population or connection.
      value: strength of a lesion, or None for a complete one; value of a clamp; current. The shape
        is (), (size,), (B, 1) or (B, size).
      rows: (B,) bool, where it acts; None for all rows.
      steps: when it acts, counted from 0 in each episode of a row: a schedule, or bool of shape
        (N,) or (B, N) for the first N steps; None for all of them.

    Attributes:
      kind: as given.
      target: as given.
      value: the variable that holds it, or None.
      rows: the variable that holds it, or None.
      steps: a schedule, the variable that holds the booleans, or None.
    """

    def __init__(
        self,
        kind: Kind,
        target: str,
        value: Float[Array, "..."] | None,
        rows: Bool[Array, " B"] | None,
        steps: Schedule | Bool[Array, "*B N"] | None,
    ):
        self.kind: Kind = kind
        self.target = target
        self.value = None if value is None else _variable(value)
        self.rows = None if rows is None else RowVariable(rows)
        self.steps = steps if steps is None or isinstance(steps, tuple) else _variable(steps)

    def act(self, x: Float[Array, "B size"], step: Int[Array, " B"] | None) -> Array:
        """Returns what becomes of sums, of outputs or of what arrives.

        Args:
          x: that of the target.
          step: since the row's last reset; needed where there is a schedule.

        Raises:
          ValueError: if the intervention is for another number of rows.
        """
        self._check_rows(x.shape[0])
        changed = self._changed(x)
        acting = self._is_acting(step)
        if acting is None:
            return jnp.broadcast_to(changed, x.shape)
        return jnp.where(acting[:, None], changed, x)

    def _changed(self, x: Array) -> Array:
        if self.value is None:
            return jnp.zeros_like(x)
        value = self.value[...].astype(x.dtype)
        if self.kind == "clamp":
            return value
        if self.kind == "stimulate":
            return x + value
        lost = (value == 1) & ~jnp.isfinite(x)  # 0 times these would be no number
        return jnp.where(lost, 0, x) * (1 - value)

    def _is_acting(self, step: Array | None) -> Array | None:
        """(B,), or None if it always is."""
        rows = None if self.rows is None else self.rows[...]
        if self.steps is None:
            return rows
        assert step is not None
        scheduled = self._is_scheduled(self.steps, step)
        return scheduled if rows is None else rows & scheduled

    def _is_scheduled(self, steps: Schedule | nnx.Variable, step: Array) -> Array:
        if isinstance(steps, tuple):
            start, stop, every = steps
            chosen = (step >= start) & ((step - start) % every == 0)
            return chosen if stop is None else chosen & (step < stop)
        table = steps[...]
        place = jnp.minimum(step, table.shape[-1] - 1)
        chosen = table[place] if table.ndim == 1 else table[jnp.arange(step.shape[0]), place]
        return chosen & (step < table.shape[-1])

    def _check_rows(self, rows: int) -> None:
        parts = {VALUES[self.kind]: self.value, "rows": self.rows, "steps": self.steps}
        for what, part in parts.items():
            if isinstance(part, RowVariable) and part.shape[0] != rows:
                raise ValueError(
                    f"PopulationGraph.{self.kind}({shown(self.target)}): expected a batch of "
                    f"{part.shape[0]} rows, one for each of {what}, got {rows} rows; run it with "
                    f"as many, or give {what} as many rows"
                )


def _variable(array: Array) -> nnx.Variable:
    return (RowVariable if array.ndim == 2 else InterventionValue)(array)
