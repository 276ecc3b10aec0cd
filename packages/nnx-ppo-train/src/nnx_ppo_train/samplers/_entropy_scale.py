"""How much the entropy bonus counts right now: the factor that an entropy schedule gives."""

import contextlib
import contextvars
from collections.abc import Iterator

from jaxtyping import Array, Float

_scale: contextvars.ContextVar[Float[Array, ""] | float | None] = contextvars.ContextVar(
    "entropy_scale", default=None
)


@contextlib.contextmanager
def entropy_scaled(scale: Float[Array, ""] | float) -> Iterator[None]:
    """Multiplies the entropy bonus of every sampler that is called inside.

    Within it ``regularization_loss = -entropy_weight * scale * entropy``. The weights of several
    samplers keep their proportions, and modules without entropy know nothing of it. Of nested
    scales the innermost holds.

    Args:
      scale: the factor, a number or a traced scalar.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> from nnx_ppo_train import CategoricalSampler
      >>> sampler = CategoricalSampler(nnx.Rngs(0), entropy_weight=1.0)
      >>> with entropy_scaled(0.0):
      ...     out = sampler(sampler.initialize_state(1), jnp.zeros((1, 2)))
      >>> abs(out.regularization_loss.item()), round(out.metrics["entropy"].item(), 2)
      (0.0, 0.69)
    """
    token = _scale.set(scale)
    try:
        yield
    finally:
        _scale.reset(token)


def scaled_entropy(entropy: Float[Array, "*lead"]) -> Float[Array, "*lead"]:
    """Returns ``entropy`` times the scale of the :func:`entropy_scaled` around the call, if any."""
    scale = _scale.get()
    return entropy if scale is None else scale * entropy
