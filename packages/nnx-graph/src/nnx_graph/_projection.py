"""The weights of default connections: one packed kernel for each destination."""

from collections.abc import Mapping

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key


class Projection(nnx.Module):
    """All default connections into one population, computed as one matrix product.

    The sources of the connections are concatenated, so their kernels are stacked along the input
    axis; each connection keeps rows of its own, see :meth:`rows`.

    Args:
      sources: size of the source by connection name.
      kernel: (sum of the source sizes, size of the destination).
      bias: (number of connections, size of the destination).
    """

    def __init__(
        self, sources: Mapping[str, int], kernel: Float[Array, "I O"], bias: Float[Array, "C O"]
    ):
        self.sources = tuple(sources.items())
        self.kernel = nnx.Param(kernel)
        self.bias = nnx.Param(bias)

    @classmethod
    def draw(
        cls, sources: Mapping[str, int], size: int, keys: Mapping[str, Key[Array, ""]]
    ) -> "Projection":
        """Initialises each connection as a linear layer of its own: LeCun normal, bias zero."""
        init = nnx.initializers.lecun_normal()
        kernels = [init(keys[name], (width, size), jnp.float32) for name, width in sources.items()]
        return cls(sources, jnp.concatenate(kernels), jnp.zeros((len(sources), size), jnp.float32))

    def rows(self, name: str) -> tuple[slice, int]:
        """Returns the rows of ``kernel`` and the row of ``bias`` that belong to a connection."""
        start = 0
        for position, (other, width) in enumerate(self.sources):
            if other == name:
                return slice(start, start + width), position
            start += width
        raise KeyError(name)

    def part(self, names: set[str]) -> "Projection":
        """Returns the projection of some of the connections, with a copy of their rows."""
        if len(names) == len(self.sources):
            return self
        kept = {name: width for name, width in self.sources if name in names}
        rows = [self.rows(name) for name in kept]
        kernel, bias = self.kernel[...], self.bias[...]
        return Projection(
            kept,
            jnp.concatenate([kernel[inputs] for inputs, _ in rows]),
            jnp.stack([bias[position] for _, position in rows]),
        )

    def __call__(self, reads: Mapping[str, Float[Array, "*lead I"]]) -> Float[Array, "*lead O"]:
        """Returns the summed contribution of all connections for what each of them carries."""
        x = jnp.concatenate([reads[name] for name, _ in self.sources], axis=-1)
        flat = x.reshape((-1, x.shape[-1]))  # one product over time and batch together
        y = flat @ self.kernel[...] + jnp.sum(self.bias[...], axis=0)
        return y.reshape((*x.shape[:-1], y.shape[-1]))
