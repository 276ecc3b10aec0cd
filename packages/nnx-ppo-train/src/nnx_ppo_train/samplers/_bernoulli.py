"""BernoulliSampler: K independent switches."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key
from nnx_stateful import PyTree

from ._base import Evaluation
from ._discrete import DiscreteSampler, rule_out


class BernoulliSampler(DiscreteSampler):
    """Samples K independent switches, 0 or 1, from the logits (B, K) of being 1.

    The action is (B, K), int32; its log-likelihood and its entropy, which is exact, are sums over
    the switches. The input may be ``{"params": logits, "mask": mask}`` with a mask (B, K) that is
    true where a switch may be 1: the others stay 0 (all of them may). ``eval()`` gives the more
    likely value of each switch.

    Args:
      rngs: gives one key.
      entropy_weight: weight of the entropy bonus.

    Raises:
      TypeError: on call, if the input is no array and no such dict.
      ValueError: on call, if a shape does not fit.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> sampler = BernoulliSampler(nnx.Rngs(0))
      >>> out = sampler(sampler.initialize_state(1), jnp.array([[100.0, -100.0, 100.0]]))
      >>> out.output["action"].tolist(), round(float(out.output["log_likelihood"][0]), 3)
      ([[1, 0, 1]], 0.0)
    """

    def apply_mask(
        self, logits: Float[Array, "*lead K"], mask: Bool[Array, "*lead K"]
    ) -> Float[Array, "*lead K"]:
        return rule_out(logits, mask)

    def draw(self, key: Key[Array, ""], features: int) -> Array:
        return jax.random.uniform(key, (features,))

    def act(self, params: Float[Array, "*lead K"], noise: PyTree | None) -> dict[str, Array]:
        on = params > 0.0 if noise is None else noise < jax.nn.sigmoid(params)
        return {"raw_action": on.astype(jnp.int32)}

    def evaluate(self, params: Float[Array, "*lead K"], extras: dict[str, Array]) -> Evaluation:
        action = extras["raw_action"]
        log_on, log_off = jax.nn.log_sigmoid(params), jax.nn.log_sigmoid(-params)
        on = jnp.exp(log_on)
        entropy = -(on * log_on + jnp.exp(log_off) * log_off)
        return Evaluation(
            action=action,
            log_likelihood=jnp.where(action == 1, log_on, log_off).sum(-1),
            entropy=entropy.sum(-1),
            metrics={"probability_of_on": on},
        )
