"""CategoricalSampler: one of N discrete actions."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key
from nnx_stateful import PyTree

from ._base import ActionSampler, Evaluation


class CategoricalSampler(ActionSampler):
    """Samples an action index from logits (B, N); the entropy is exact.

    A logit of minus infinity rules a choice out.

    Args:
      rngs: gives one key.
      entropy_weight: weight of the entropy bonus.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> sampler = CategoricalSampler(nnx.Rngs(0))
      >>> sampler(sampler.initialize_state(3), jnp.zeros((3, 4))).output["action"].dtype
      dtype('int32')
    """

    def draw(self, key: Key[Array, ""], features: int) -> Array:
        return jax.random.gumbel(key, (features,))

    def act(self, params: Float[Array, "*lead N"], noise: PyTree | None) -> dict[str, Array]:
        perturbed = params if noise is None else params + noise
        return {"raw_action": jnp.argmax(perturbed, axis=-1).astype(jnp.int32)}

    def evaluate(self, params: Float[Array, "*lead N"], extras: dict[str, Array]) -> Evaluation:
        action = extras["raw_action"]
        log_probs = jax.nn.log_softmax(params, axis=-1)
        chosen = jnp.take_along_axis(log_probs, action[..., None], axis=-1)[..., 0]
        possible = jnp.where(jnp.isfinite(log_probs), log_probs, 0.0)  # 0 log 0 = 0
        return Evaluation(
            action=action,
            log_likelihood=chosen,
            entropy=-(jnp.exp(log_probs) * possible).sum(-1),
            metrics={"probability_of_mode": jnp.exp(log_probs.max(-1))},
        )
