"""What binds the weights of connections: masks, signs, frozen values, and common weights."""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
from flax import nnx
from jaxtyping import Bool, Float, Int

from .._declaration._connectivity import mask_of
from .._declaration._delay import taps
from .._declaration._spec import Connection, GraphSpec, Sign
from ._common import CommonWeights, deviation
from ._packing import Block

SIGNS: dict[Sign, int] = {"excitatory": 1, "inhibitory": -1}


class Structure(nnx.Variable):
    """A part of what a graph is that no training changes."""


@dataclasses.dataclass(frozen=True)
class Constraints:
    """What binds the weights of a block; arrays as its kernel and bias, None where nothing does.

    Attributes:
      mask: (n, rows, columns), true where there is a weight.
      signs: (n, rows, 1): 1 or -1 where the source has a sign, otherwise 0.
      frozen_kernel: true where the weight is frozen.
      frozen_bias: (n, R, columns).
      borrowed_kernel: index among the common weights, -1 where the weight is the block's own.
      borrowed_bias: the same for the bias.
      taps: index among the weights of taps, -1 where there is none.
      deviation: standard deviation of the initial weights: LeCun's, for the inputs that there are.
    """

    mask: Bool[np.ndarray, "n rows columns"] | None
    signs: Int[np.ndarray, "n rows 1"] | None
    frozen_kernel: Bool[np.ndarray, "n rows columns"] | None
    frozen_bias: Bool[np.ndarray, "n R columns"] | None
    borrowed_kernel: Int[np.ndarray, "n rows columns"] | None
    borrowed_bias: Int[np.ndarray, "n R columns"] | None
    taps: Int[np.ndarray, "n rows columns"] | None
    deviation: Float[np.ndarray, "n rows columns"]

    @classmethod
    def of(
        cls,
        block: Block,
        spec: GraphSpec,
        common: CommonWeights,
        tap_places: Mapping[str, int],
        regions: Iterable[tuple[Connection, tuple, tuple]],
        bias_shape: tuple[int, int, int],
    ) -> "Constraints":
        """Collects what binds a block.

        Args:
          block: whose weights.
          spec: the declaration.
          common: the common weights.
          tap_places: where the weights of the taps of a connection begin, if it has several.
          regions: each connection of the block, and where its kernel and bias are.
          bias_shape: of the block's bias.
        """
        sizes = {p.name: p.size for p in spec.populations}
        sign = {p.name: SIGNS[p.sign] for p in spec.populations if p.sign}
        shape = len(block.reads), block.rows, block.columns
        mask, signs = np.ones(shape, bool), np.zeros((*shape[:2], 1), np.int32)
        frozen = np.zeros(shape, bool), np.zeros(bias_shape, bool)
        borrowed = np.full(shape, -1), np.full(bias_shape, -1)
        tapped, scale = np.full(shape, -1), np.zeros(shape)
        for connection, kernel, bias in regions:
            size = sizes[connection.src], sizes[connection.dst]
            times = (len(taps(connection.delay, size[0])), 1)  # rows of each tap
            if connection.connectivity is not None:
                own = mask_of(connection.connectivity, connection.name, *size)
                mask[kernel] = np.tile(own, times)
            scale[kernel] = deviation(connection, *size)
            signs[kernel[:2]] = sign.get(connection.src, 0)
            of_kernel, of_bias = common.places(connection)
            frozen[0][kernel] = connection.frozen and of_kernel is None
            frozen[1][bias] = connection.frozen
            if of_kernel is not None:
                own = of_kernel + np.arange(np.prod(size)).reshape(size)
                borrowed[0][kernel] = np.tile(own, times)
            if connection.name in tap_places:
                own = tap_places[connection.name] + np.arange(times[0] * size[0])
                tapped[kernel] = own[:, None]
            if of_bias is not None:
                borrowed[1][bias] = of_bias + np.arange(size[1])
        return cls(
            mask=None if mask.all() else mask,
            signs=signs if signs.any() else None,
            frozen_kernel=frozen[0] if frozen[0].any() else None,
            frozen_bias=frozen[1] if frozen[1].any() else None,
            borrowed_kernel=borrowed[0] if (borrowed[0] >= 0).any() else None,
            borrowed_bias=borrowed[1] if (borrowed[1] >= 0).any() else None,
            taps=tapped if (tapped >= 0).any() else None,
            deviation=scale,
        )
