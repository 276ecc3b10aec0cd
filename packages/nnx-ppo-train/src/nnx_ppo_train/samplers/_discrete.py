"""What discrete samplers share: logits, and masks that rule choices out."""

import abc
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float
from nnx_stateful import PyTree

from .._arguments import check_arrays
from ._base import ActionSampler

_ENTRIES = {"params", "mask"}
_RULED_OUT = -1e9
"""Logit of a choice that is ruled out: its probability is 0 in every float type, its logarithm
finite, so that neither an entropy nor a gradient meets 0 times infinity."""


class DiscreteSampler(ActionSampler):
    """Reads logits (B, F), or ``{"params": logits, "mask": mask}``.

    The mask, of the same shape, is true (or 1) where a choice is allowed. Masked logits get no
    gradient.
    """

    @abc.abstractmethod
    def apply_mask(
        self, logits: Float[Array, "*lead F"], mask: Bool[Array, "*lead F"]
    ) -> Float[Array, "*lead F"]:
        """Returns the logits with those ruled out that the mask does not allow."""

    def read(self, x: PyTree, wanted: str) -> Float[Array, "*lead F"]:
        if not isinstance(x, Mapping) or "mask" not in x:
            return super().read(x, wanted)
        kind = type(self).__name__
        if set(x) != _ENTRIES:
            raise ValueError(
                f"{kind}: expected an array of parameters, or a dict with the entries 'params' and "
                f"'mask', got one with {sorted(map(str, x))}; pick them with a Filter"
            )
        logits = super().read(x["params"], wanted)
        return self.apply_mask(logits, _as_mask(kind, x["mask"], logits.shape))


def rule_out(logits: Float[Array, "... N"], allowed: Bool[Array, "... N"]) -> Float[Array, "... N"]:
    """Gives the choices that are not allowed a probability of 0."""
    lowest = max(_RULED_OUT, float(jnp.finfo(logits.dtype).min))
    return jnp.where(allowed, logits, jnp.asarray(lowest, logits.dtype))


def rule_out_some(
    kind: str, logits: Float[Array, "... N"], mask: Bool[Array, "... N"]
) -> Float[Array, "... N"]:
    """Rules out what a mask over one choice out of N does not allow.

    Args:
      kind: name of the sampler, for the message.
      logits: one vector for each choice that is made.
      mask: where an alternative is allowed.

    Raises:
      ValueError: if a row allows nothing, where the values of the mask can be seen. Under ``jit``
        they cannot, and all alternatives of such a row count as allowed.
    """
    something = mask.any(axis=-1, keepdims=True)
    if not isinstance(something, Tracer) and not np.all(something):
        row = tuple(int(index) for index in np.argwhere(~np.asarray(something))[0][:-1])
        raise ValueError(
            f"{kind}: mask: expected at least one allowed choice, got none in row {row}; an "
            "environment must allow something in every observation, also in the last one"
        )
    return rule_out(logits, mask | ~something)


def _as_mask(kind: str, mask: Any, shape: tuple[int, ...]) -> Bool[Array, "*lead F"]:
    got = getattr(mask, "shape", None)
    if got != shape:
        raise ValueError(
            f"{kind}: mask: expected an array of the shape of the parameters, {shape}, got "
            f"{type(mask).__name__ if got is None else got}; give one entry per choice, true where "
            "it is allowed"
        )
    check_arrays(mask, f"{kind}: mask")
    return jnp.asarray(mask) != 0
