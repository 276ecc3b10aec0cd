"""What stochastic modules share: one key, noise from the carry, and exact replay."""

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from .._noise import NoiseKey, NoiseState, draw_normal, noise_state
from .._output import PyTree
from .._protocol import StatefulModule
from .._validate import check_rngs


class StochasticModule(StatefulModule):
    """A module whose noise is a function of its carry, and is replayed from rollout_extras.

    It takes one key from ``rngs`` when it is built and keeps no stream. Its carry holds a
    :class:`NoiseState`; a subclass gets its noise from :meth:`normal` and emits it.

    Args:
      rngs: source of the key: the stream ``noise``, else the default one, else ``params``.

    Attributes:
      noise_key: the key from which ``initialize_state`` makes one key per row.
      deterministic: draw zeros instead of noise. ``module.eval()`` sets it, ``module.train()``
        unsets it.

    Example:
      >>> from nnx_stateful import StatefulModuleOutput
      >>> class Jitter(StochasticModule):
      ...     def __call__(self, state, x, rollout_extras=None):
      ...         eps = self.normal(state, x.shape[-1:], rollout_extras)
      ...         return StatefulModuleOutput(state.advance(), x + eps, 0.0, {}, eps)
      >>> jitter = Jitter(nnx.Rngs(0))
      >>> out = jitter(jitter.initialize_state(2), jnp.zeros((2, 3)))
      >>> replayed = jitter(jitter.initialize_state(2), jnp.zeros((2, 3)), out.rollout_extras)
      >>> bool((replayed.output == out.output).all())
      True
    """

    def __init__(self, rngs: nnx.Rngs | nnx.RngStream):
        check_rngs(type(self).__name__, rngs, stream_allowed=True)
        self.noise_key = NoiseKey(_take_key(rngs))
        self.deterministic = False

    def set_view(self, deterministic: bool | None = None) -> None:
        """Lets ``nnx.view(network, deterministic=True)`` set the attribute in its copy."""
        if deterministic is not None:
            self.deterministic = deterministic

    def initialize_state(self, batch_size: int) -> Any:
        return noise_state(self.noise_key[...], batch_size)

    def normal(
        self,
        noise: NoiseState,
        shape: tuple[int, ...],
        rollout_extras: PyTree = None,
        steps: int | None = None,
        dtype: Any = None,
    ) -> Float[Array, "*lead"]:
        """Returns standard normal noise: the replayed one if there is one, else as drawn afresh.

        Args:
          noise: state before the (first) step; the caller advances it.
          shape: shape of one row's noise.
          rollout_extras: the noise to replay, or None.
          steps: T for a sequence, None for one step.
          dtype: float type of fresh noise, float32 by default.

        Returns:
          (B, *shape), or (T, B, *shape) where ``steps`` is given.
        """
        if rollout_extras is not None:
            return rollout_extras
        if self.deterministic:
            lead = noise.count.shape if steps is None else (steps, *noise.count.shape)
            return jnp.zeros((*lead, *shape), dtype or jnp.float32)
        return draw_normal(noise, shape, steps, dtype)


def _take_key(rngs: nnx.Rngs | nnx.RngStream) -> Key[Array, ""]:
    if isinstance(rngs, nnx.RngStream):
        return rngs()
    return rngs.noise() if "noise" in rngs or "default" in rngs else rngs.params()
