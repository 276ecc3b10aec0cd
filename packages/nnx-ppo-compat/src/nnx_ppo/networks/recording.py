"""Recording of activations, taken out of the metrics as a nested tree."""

from collections.abc import Mapping
from typing import Any

from nnx_stateful import ACTIVATION_KEY, with_recording

__all__ = ["ACTIVATION_KEY", "extract_activations", "with_recording"]

_GRAPH_PARTS = frozenset({"populations", "transforms", "computes"})


def extract_activations(metrics: Any) -> Any:
    """Takes the recorded outputs of a network's innermost modules out of its metrics.

    :func:`nnx_stateful.extract_activations` returns those of containers, too, by flat path.

    Args:
      metrics: ``out.metrics`` of a network that ``with_recording`` made.

    Returns:
      A tree of dicts in the shape of the network: keyed by position (int) below a Sequential, by
      name below other containers and by population below a graph, whose connections are left
      out. None if nothing was recorded.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> from nnx_stateful import Dense, Parallel, Sequential
      >>> rngs = nnx.Rngs(0)
      >>> heads = Parallel(a=Dense(3, 1, rngs), b=Dense(3, 2, rngs))
      >>> net = with_recording(Sequential([Dense(2, 3, rngs), heads]))
      >>> found = extract_activations(net(net.initialize_state(4), jnp.ones((4, 2))).metrics)
      >>> found[0].shape, found[1]["b"].shape
      ((4, 3), (4, 2))
    """
    if not isinstance(metrics, Mapping):
        return None
    names = metrics.keys() - {ACTIVATION_KEY}
    if "populations" in names and names <= _GRAPH_PARTS:
        return extract_activations(metrics["populations"])
    inner = {name: extract_activations(metrics[name]) for name in metrics if name in names}
    inner = {name: found for name, found in inner.items() if found is not None}
    if not inner:
        return metrics.get(ACTIVATION_KEY)
    if all(str(name).isdecimal() for name in inner):
        return {int(name): found for name, found in inner.items()}
    return inner
