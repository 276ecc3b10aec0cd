"""Metrics: trees to flat names, arrays to scalars, scalars to one vector; all in this one place."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from nnx_stateful import PyTree


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PackedMetrics:
    """Scalar metrics as one vector: one array to compute, to stack and to fetch.

    Attributes:
      values: (*lead, N) floats.
      names: the N names, in order.

    Example:
      >>> packed = PackedMetrics.of({"loss": 0.5, "kl": 1})
      >>> packed.values.tolist(), packed.as_dict()["kl"].tolist()
      ([0.5, 1.0], 1.0)
    """

    values: Float[Array, "*lead N"]
    names: tuple[str, ...] = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, metrics: Mapping[str, Any]) -> "PackedMetrics":
        """Packs scalars."""
        dtype = jnp.result_type(float)
        values = [jnp.asarray(value, dtype) for value in metrics.values()]
        return cls(jnp.stack(values) if values else jnp.zeros(0, dtype), tuple(metrics))

    @classmethod
    def joined(cls, parts: Sequence["PackedMetrics"]) -> "PackedMetrics":
        """Puts metrics of different names one after the other."""
        values = jnp.concatenate([part.values for part in parts], axis=-1)
        return cls(values, tuple(name for part in parts for name in part.names))

    def as_dict(self) -> dict[str, Array]:
        """The metrics by name, each (*lead,)."""
        return {name: self.values[..., place] for place, name in enumerate(self.names)}


def flatten_metrics(tree: PyTree, prefix: str) -> dict[str, Array]:
    """Flattens a tree to names joined by "/", below ``prefix``.

    Example:
      >>> sorted(flatten_metrics({"arm": {"mu": 0.0}, "leg": 1.0}, "net"))
      ['net/arm/mu', 'net/leg']
    """
    return {
        "/".join([prefix, *(_step(entry) for entry in path)]): jnp.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def distribution(
    name: str,
    value: Array,
    percentiles: tuple[int, ...] | None,
    counted: Bool[Array, "..."] | None = None,
) -> dict[str, Float[Array, ""]]:
    """Returns mean and standard deviation of an array and, where asked for, its percentiles.

    Args:
      name: beginning of the metrics' names.
      value: the array.
      percentiles: which ones, in [0, 100], or None.
      counted: which entries count, of the array's leading axes; all if None. All statistics are 0
        if none counts.
    """
    value = jnp.asarray(value, jnp.result_type(float))
    if counted is None:
        found = {f"{name}/mean": value.mean(), f"{name}/std": value.std()}
        for level in percentiles or ():
            found[f"{name}/p{level:g}"] = jnp.percentile(value, level)
        return found
    counted = counted.reshape(counted.shape + (1,) * (value.ndim - counted.ndim))
    counted = jnp.broadcast_to(counted, value.shape)
    number = jnp.maximum(counted.sum(), 1)
    mean = jnp.where(counted, value, 0).sum() / number
    variance = jnp.where(counted, jnp.square(value - mean), 0).sum() / number
    found = {f"{name}/mean": mean, f"{name}/std": jnp.sqrt(variance)}
    if not percentiles:
        return found
    ordered = jnp.sort(jnp.where(counted, value, jnp.inf), axis=None)
    for level in percentiles:
        place = (level / 100) * (number - 1).astype(value.dtype)
        low, high = (ordered[place.astype(int)], ordered[jnp.ceil(place).astype(int)])
        share = place - jnp.floor(place)
        between = jnp.where(share == 0, low, low * (1 - share) + high * share)
        found[f"{name}/p{level:g}"] = jnp.where(counted.any(), between, 0)
    return found


def summarize(
    tree: PyTree,
    prefix: str,
    percentiles: tuple[int, ...] | None,
    counted: Bool[Array, "..."] | None = None,
) -> dict[str, Float[Array, ""]]:
    """Flattens a tree and reduces every leaf: scalars stay, arrays become distributions.

    Args:
      tree: the metrics.
      prefix: beginning of their names.
      percentiles: see :func:`distribution`.
      counted: which entries count, in leaves that lead with its axes; others count as a whole.
    """
    found: dict[str, Array] = {}
    for name, value in flatten_metrics(tree, prefix).items():
        leads = counted is not None and value.shape[: counted.ndim] == counted.shape
        found |= (
            {name: value}
            if value.ndim == 0
            else distribution(name, value, percentiles, counted if leads else None)
        )
    return found


def _step(entry: Any) -> str:
    """The plain name of one step of a tree path."""
    for attribute in ("key", "name", "idx"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)
