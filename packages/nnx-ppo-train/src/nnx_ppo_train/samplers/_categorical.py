"""CategoricalSampler: one of N discrete actions."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key
from nnx_stateful import PyTree

from ._base import Evaluation
from ._discrete import DiscreteSampler, rule_out_some


class CategoricalSampler(DiscreteSampler):
    """Samples an action index from logits (B, N); the entropy is exact.

    The input is the logits, or ``{"params": logits, "mask": mask}`` with a mask (B, N) that is
    true where a choice is allowed: what it rules out has probability 0. A row that allows nothing
    is an error in an eager call; under ``jit``, where values cannot be seen, all its choices count
    as allowed. A logit of minus infinity rules a choice out as well.

    Args:
      rngs: gives one key.
      entropy_weight: weight of the entropy bonus.

    Raises:
      TypeError: on call, if the input is neither.
      ValueError: on call, if a shape does not fit, or if a mask is seen to allow nothing.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> sampler = CategoricalSampler(nnx.Rngs(0))
      >>> state = sampler.initialize_state(3)
      >>> sampler(state, jnp.zeros((3, 4))).output["action"].dtype
      dtype('int32')
      >>> mask = jnp.tile(jnp.array([False, True, False, False]), (3, 1))
      >>> sampler(state, {"params": jnp.zeros((3, 4)), "mask": mask}).output["action"].tolist()
      [1, 1, 1]
    """

    def apply_mask(
        self, logits: Float[Array, "*lead N"], mask: Bool[Array, "*lead N"]
    ) -> Float[Array, "*lead N"]:
        return rule_out_some(type(self).__name__, logits, mask)

    def draw(self, key: Key[Array, ""], features: int) -> Array:
        return jax.random.gumbel(key, (features,))

    def act(self, params: Float[Array, "*lead N"], noise: PyTree | None) -> dict[str, Array]:
        perturbed = params if noise is None else params + noise
        return {"raw_action": jnp.argmax(perturbed, axis=-1).astype(jnp.int32)}

    def evaluate(self, params: Float[Array, "*lead N"], extras: dict[str, Array]) -> Evaluation:
        action = extras["raw_action"]
        log_probs = jax.nn.log_softmax(params, axis=-1)
        return Evaluation(
            action=action,
            log_likelihood=log_probability(log_probs, action),
            entropy=categorical_entropy(log_probs),
            metrics={"probability_of_mode": jnp.exp(log_probs.max(-1))},
        )


def log_probability(
    log_probs: Float[Array, "*lead N"], action: Int[Array, "*lead"]
) -> Float[Array, "*lead"]:
    """Picks the logarithmic probability of the choice that was made."""
    return jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]


def categorical_entropy(log_probs: Float[Array, "*lead N"]) -> Float[Array, "*lead"]:
    """Entropy -sum p log p in nats, with 0 log 0 = 0."""
    possible = jnp.where(jnp.isfinite(log_probs), log_probs, 0.0)
    return -(jnp.exp(log_probs) * possible).sum(-1)
