"""A custom module whose every channel shows, with a row-wise NumPy twin."""

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float
from nnx_stateful import PyTree, StatefulModule, StatefulModuleOutput


class RowCount(nnx.Variable):
    """How many rows a probe's statistics have seen."""


class LeakyProbe(StatefulModule):
    """A leaky integrator without parameters, for use as a transform or compute.

    ``h' = h / 2 + x`` and ``output = h' @ mixing``, with a fixed mixing matrix. It emits its input
    as rollout_extras and, when replayed, takes them instead of the input; it reports a loss per
    row, a metric, and counts rows in its statistics.

    Args:
      in_features: size of the input.
      out_features: size of the output.

    Attributes:
      seen: number of rows that ``update_statistics`` was given, a scalar.

    Example:
      >>> probe = LeakyProbe(1, 2)
      >>> probe(probe.initialize_state(3), jnp.ones((3, 1))).output.shape
      (3, 2)
    """

    def __init__(self, in_features: int, out_features: int):
        self.in_features = in_features
        self.out_features = out_features
        self.seen = RowCount(jnp.zeros((), jnp.int32))

    def __call__(
        self, state: Float[Array, "B I"], x: Float[Array, "B I"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        emitted = x if rollout_extras is None else rollout_extras
        held = state / 2 + emitted.astype(state.dtype)
        return StatefulModuleOutput(
            next_state=held,
            output=held @ jnp.asarray(self._mixing(), held.dtype),
            regularization_loss=jnp.mean(held**2, axis=-1),
            metrics={"level": jnp.mean(held)},
            rollout_extras=emitted,
        )

    def initialize_state(self, batch_size: int) -> Float[Array, "B I"]:
        return jnp.zeros((batch_size, self.in_features))

    def reset_state(self, prev_state: Float[Array, " I"]) -> Float[Array, " I"]:
        return jnp.zeros_like(prev_state)

    def update_statistics(self, rollout_extras: Float[Array, "T B I"]) -> None:
        self.seen[...] += rollout_extras.shape[0] * rollout_extras.shape[1]

    def step_row(self, held: np.ndarray | None, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same step of one row in NumPy; ``held`` is None at the start of an episode."""
        held = np.asarray(x, float) if held is None else held / 2 + x
        return held, held @ self._mixing()

    def _mixing(self) -> np.ndarray:
        rows, columns = np.indices((self.in_features, self.out_features))
        return 1.0 / (1 + rows + 2 * columns)
