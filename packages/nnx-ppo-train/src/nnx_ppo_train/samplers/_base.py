"""What every sampler shares: noise in the carry, the rollout's action in the extras."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key
from nnx_stateful import (
    NoiseState,
    PyTree,
    StatefulModuleOutput,
    StochasticModule,
    check_same_state,
    draw_noise,
)

from .._arguments import check_arrays, refused
from .._validate import check_number, shown
from ._entropy_scale import scaled_entropy


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """An action under the current distribution; leaves lead with (B,) or (T, B).

    Attributes:
      action: what the environment gets.
      log_likelihood: log density (or probability) of the action, summed over its components.
      entropy: entropy of the distribution, exact or estimated from stored noise.
      metrics: parameters worth logging.
    """

    action: Array
    log_likelihood: Float[Array, "*lead"]
    entropy: Float[Array, "*lead"]
    metrics: dict[str, Array]


class ActionSampler(StochasticModule):
    """Base of all samplers; a distribution implements ``draw``, ``act`` and ``evaluate``.

    Without rollout_extras a sampler draws an action and emits what it drew; with them it
    evaluates the stored action under the current parameters and draws nothing. ``eval()`` (or
    ``nnx.view(..., deterministic=True)``) makes it return the mode.

    Parameters of a narrower type, such as bfloat16, are widened to float32: log-likelihoods and
    ratios need its digits, and near the bounds of an action its range.

    Args:
      rngs: gives one key; noise is counted from it in the carry state.
      entropy_weight: weight of the negative entropy in the regularization loss, at least 0.
    """

    def __init__(self, rngs: nnx.Rngs, entropy_weight: float = 0.0):
        super().__init__(rngs)
        check_number(entropy_weight, f"{type(self).__name__}.entropy_weight", at_least=0.0)
        self.entropy_weight = float(entropy_weight)  # an int beyond int32 would overflow in jit

    @abc.abstractmethod
    def draw(self, key: Key[Array, ""], features: int) -> PyTree:
        """Draws the noise of one row at one step, for parameters of that many features."""

    @abc.abstractmethod
    def act(self, params: Float[Array, "*lead F"], noise: PyTree | None) -> PyTree:
        """Returns the extras of an action drawn with ``noise``; None means the mode."""

    @abc.abstractmethod
    def evaluate(self, params: Float[Array, "*lead F"], extras: PyTree) -> Evaluation:
        """Evaluates the action that ``extras`` describe."""

    def __call__(
        self, state: NoiseState, x: PyTree, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        return self._run(state, self.read(x, "(B, F)"), rollout_extras, steps=None)

    def unroll(
        self, state: NoiseState, xs: PyTree, done: Any = None, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        del done  # noise goes on over the ends of episodes
        params = self.read(xs, "(T, B, F)")
        return self._run(state, params, rollout_extras, steps=params.shape[0])

    def read(self, x: PyTree, wanted: str) -> Float[Array, "*lead F"]:
        """Returns the distribution parameters that the input holds, in float32 at least.

        Args:
          x: the input of a step or of a sequence.
          wanted: the shape that the parameters must have, "(B, F)" or "(T, B, F)".

        Raises:
          TypeError: if the input is no array.
          ValueError: if it has another number of axes, or a width that the distribution cannot
            have.
        """
        kind = type(self).__name__
        if not isinstance(getattr(x, "shape", None), tuple):
            raise TypeError(
                f"{kind}: expected an array of distribution parameters {wanted}, got a "
                f"{_describe(x)}"
            )
        if len(x.shape) != wanted.count(",") + 1 or not x.shape[-1]:
            raise ValueError(
                f"{kind}: expected distribution parameters of shape {wanted}, got {x.shape}; "
                "put a layer such as Dense before it, which gives one vector per row"
            )
        self.check_width(x.shape)
        check_arrays(x, f"{kind}: input")
        return jnp.asarray(x, jnp.promote_types(x.dtype, jnp.float32))

    def check_width(self, shape: tuple[int, ...]) -> None:
        """Raises ValueError if no distribution has parameters of that shape."""

    def _run(
        self, state: NoiseState, params: Array, extras: PyTree, steps: int | None
    ) -> StatefulModuleOutput:
        self._check_carried(state, params, extras)
        if extras is None:
            extras = jax.lax.stop_gradient(self._act_afresh(state, params, steps))
        result = self.evaluate(params, extras)
        return StatefulModuleOutput(
            next_state=state.advance(1 if steps is None else steps),
            output={"action": result.action, "log_likelihood": result.log_likelihood},
            regularization_loss=-self.entropy_weight * scaled_entropy(result.entropy),
            metrics={**result.metrics, "entropy": result.entropy},
            rollout_extras=extras,
        )

    def _check_carried(self, state: NoiseState, params: Array, extras: PyTree) -> None:
        """Raises ValueError unless state and extras are those of such a sampler and such rows."""
        kind, rows = type(self).__name__, params.shape[-2]
        if not isinstance(state, NoiseState) or jnp.shape(state.count) != (rows,):
            raise ValueError(
                f"{kind}: expected the state of {rows} rows that initialize_state({rows}) gives, "
                f"got {shown(state)}"
            )
        if extras is not None:
            acted = jax.eval_shape(lambda: self.act(params, None))
            hint = "pass the rollout_extras that a call of this sampler returned"
            where = f"{kind}: rollout_extras"
            with refused(where, "those of a call of this sampler", extras, ValueError):
                check_same_state(acted, extras, where, hint)

    def _act_afresh(self, state: NoiseState, params: Array, steps: int | None) -> PyTree:
        if self.deterministic:
            return self.act(params, None)
        noise = draw_noise(state, lambda key: self.draw(key, params.shape[-1]), steps)
        return self.act(params, noise)


def _describe(x: Any) -> str:
    """Names an input that is no array, and says what to do about it."""
    kind = type(x).__name__
    if not isinstance(x, Mapping):
        return f"{kind}; pick the array with a Filter"
    names = sorted(map(str, x))
    if "mask" in names:
        return (
            f"{kind} with {names}; a mask rules out choices and serves discrete samplers alone: "
            "pass the array of parameters itself"
        )
    return f"{kind} with {names}; pick the entry with Map({{name: sampler}})"
