"""Variational bottlenecks, which call their source of randomness ``rng``."""

import nnx_stateful
from flax import nnx

__all__ = ["AR1VariationalBottleneck", "VariationalBottleneck"]


class VariationalBottleneck(nnx_stateful.VariationalBottleneck):
    """As :class:`nnx_stateful.VariationalBottleneck`; ``rng`` is its ``rngs``.

    Example:
      >>> VariationalBottleneck(4, rng=nnx.Rngs(0), kl_weight=0.1).latent_size
      4
    """

    def __init__(
        self,
        latent_size: int,
        rng: nnx.Rngs | nnx.RngStream,
        kl_weight: float = 1.0,
        min_std: float = 1e-6,
    ):
        super().__init__(latent_size, rng, kl_weight, min_std)


class AR1VariationalBottleneck(nnx_stateful.AR1VariationalBottleneck):
    """As :class:`nnx_stateful.AR1VariationalBottleneck`; ``rng`` is its ``rngs``.

    Example:
      >>> AR1VariationalBottleneck(4, rng=nnx.Rngs(0), ar1_weight=0.5).ar1_weight
      0.5
    """

    def __init__(
        self,
        latent_size: int,
        rng: nnx.Rngs | nnx.RngStream,
        kl_weight: float = 1.0,
        min_std: float = 1e-6,
        ar1_weight: float = 1.0,
        backprop_through_time: bool = True,
    ):
        super().__init__(latent_size, rng, kl_weight, min_std, ar1_weight, backprop_through_time)
