"""MultiCategoricalSampler: several independent choices at once."""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key
from nnx_stateful import PyTree

from .._validate import check_whole_number
from ._base import Evaluation
from ._categorical import categorical_entropy, log_probability
from ._discrete import DiscreteSampler, rule_out_some


class MultiCategoricalSampler(DiscreteSampler):
    """Samples K independent choices from their logits, side by side in (B, sum of sizes).

    The action is (B, K), int32; its log-likelihood and its entropy, which is exact, are sums over
    the choices. The input may be ``{"params": logits, "mask": mask}`` with a mask of the same
    shape, true where an alternative is allowed. A row that allows nothing for one of its choices is
    an error in an eager call; under ``jit`` all alternatives of that choice then count as allowed.

    Args:
      sizes: number of alternatives of each choice.
      rngs: gives one key.
      entropy_weight: weight of the entropy bonus.

    Raises:
      TypeError: if ``sizes`` is no sequence of ints; on call, if the input is no array and no such
        dict.
      ValueError: if ``sizes`` is empty or has one below 1; on call, if a shape does not fit, or if
        a mask is seen to allow nothing.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> sampler = MultiCategoricalSampler((2, 3), nnx.Rngs(0))
      >>> out = sampler(sampler.initialize_state(4), jnp.zeros((4, 5)))
      >>> out.output["action"].shape, round(float(jnp.exp(out.output["log_likelihood"][0])), 3)
      ((4, 2), 0.167)
    """

    def __init__(self, sizes: Sequence[int], rngs: nnx.Rngs, entropy_weight: float = 0.0):
        super().__init__(rngs, entropy_weight)
        if not isinstance(sizes, Sequence) or isinstance(sizes, str):
            raise TypeError(
                f"MultiCategoricalSampler.sizes: expected the number of alternatives of each "
                f"choice, such as (2, 3), got {sizes!r}"
            )
        if not sizes:
            raise ValueError(
                "MultiCategoricalSampler.sizes: expected at least one choice, got none"
            )
        for index, size in enumerate(sizes):
            check_whole_number(size, f"MultiCategoricalSampler.sizes[{index}]", at_least=1)
        self.sizes = tuple(sizes)

    def check_width(self, shape: tuple[int, ...]) -> None:
        if shape[-1] != sum(self.sizes):
            raise ValueError(
                f"{type(self).__name__}: expected {sum(self.sizes)} features, one logit for each "
                f"alternative of the choices {self.sizes}, got shape {shape}; use a layer of width "
                f"{sum(self.sizes)} before it"
            )

    def apply_mask(
        self, logits: Float[Array, "*lead F"], mask: Bool[Array, "*lead F"]
    ) -> Float[Array, "*lead F"]:
        pairs = zip(self._split(logits), self._split(mask), strict=True)
        masked = [
            rule_out_some(f"{type(self).__name__}, choice {index}", *pair)
            for index, pair in enumerate(pairs)
        ]
        return jnp.concatenate(masked, axis=-1)

    def draw(self, key: Key[Array, ""], features: int) -> Array:
        return jax.random.gumbel(key, (features,))

    def act(self, params: Float[Array, "*lead F"], noise: PyTree | None) -> dict[str, Array]:
        perturbed = self._table(params if noise is None else params + noise)
        return {"raw_action": jnp.argmax(perturbed, axis=-1).astype(jnp.int32)}

    def evaluate(self, params: Float[Array, "*lead F"], extras: dict[str, Array]) -> Evaluation:
        action = extras["raw_action"]
        log_probs = jax.nn.log_softmax(self._table(params), axis=-1)
        return Evaluation(
            action=action,
            log_likelihood=log_probability(log_probs, action).sum(-1),
            entropy=categorical_entropy(log_probs).sum(-1),
            metrics={"probability_of_mode": jnp.exp(log_probs.max(-1))},
        )

    def _table(self, logits: Float[Array, "*lead F"]) -> Float[Array, "*lead K N"]:
        """One row of logits per choice, filled up to the longest with -inf."""
        longest = max(self.sizes)
        lead = [(0, 0)] * (logits.ndim - 1)
        rows = [
            jnp.pad(part, [*lead, (0, longest - part.shape[-1])], constant_values=-jnp.inf)
            for part in self._split(logits)
        ]
        return jnp.stack(rows, axis=-2)

    def _split(self, x: Array) -> list[Array]:
        return jnp.split(x, list(itertools.accumulate(self.sizes))[:-1], axis=-1)
