"""Options of the presets."""

import dataclasses

from .._validate import boolean, instance, number, one_of, whole_number

COMPUTE_DTYPES = (None, "bfloat16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Options of all presets; each preset refuses those that it has no use for.

    Attributes:
      hidden_size: width of hidden layers, recurrent layers and the graph's hidden population.
      hidden_layers: number of hidden layers of the MLP; 0 for a linear policy.
      delay: delay of the graph's recurrent connection, in steps.
      entropy_weight: weight of the entropy bonus.
      normalize_obs: whether observations are normalised by running statistics.
      actor_obs: key of the observation that the actor sees; None for all of it.
      critic_obs: key of the observation that the critic sees; None for all of it.
      share: whether actor and critic share all layers but the read-outs, for which they must see
        the same observation. None is the preset's own choice: apart in "mlp", shared elsewhere.
      compute_dtype: type of the operands of matrix products, "bfloat16" or None for float32, which
        parameters, carry and outputs always have.
    """

    hidden_size: int = 64
    hidden_layers: int = 2
    delay: int = 1
    entropy_weight: float = 1e-2
    normalize_obs: bool = True
    actor_obs: str | None = None
    critic_obs: str | None = None
    share: bool | None = None
    compute_dtype: str | None = None

    def __post_init__(self) -> None:
        whole_number(self, "hidden_size", at_least=1)
        whole_number(self, "hidden_layers", at_least=0)
        whole_number(self, "delay", at_least=1)
        number(self, "entropy_weight", at_least=0.0)
        boolean(self, "normalize_obs")
        if self.share is not None:
            boolean(self, "share")
        for name in ("actor_obs", "critic_obs"):
            instance(self, name, str, "'state'", optional=True)
        instance(self, "compute_dtype", str, "'bfloat16'", optional=True)
        one_of(self, "compute_dtype", COMPUTE_DTYPES)
