"""Recording: the output of every module, by path, through the metrics channel."""

from collections.abc import Mapping
from typing import Any, TypeVar

from flax import nnx

from ._output import PyTree
from ._protocol import ACTIVATION_KEY, StatefulModule

M = TypeVar("M", bound=StatefulModule)


def with_recording(network: M) -> M:
    """Returns a copy of a network that records the output of each of its modules.

    The copy holds the same arrays and computes the same; ``network`` itself stays as it is.
    Outputs travel in ``metrics``; :func:`extract_activations` takes them out.

    Args:
      network: any stateful module.

    Returns:
      The recording copy, for a step or for ``unroll``.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> from nnx_stateful import Dense, Sequential
      >>> net = with_recording(Sequential([Dense(2, 3, nnx.Rngs(0)), Dense(3, 1, nnx.Rngs(1))]))
      >>> out = net(net.initialize_state(4), jnp.ones((4, 2)))
      >>> {path: a.shape for path, a in extract_activations(out.metrics).items()}
      {'0': (4, 3), '1': (4, 1), '': (4, 1)}
    """
    copy = nnx.merge(*nnx.split(network))
    for _, module in nnx.iter_modules(copy):
        if isinstance(module, StatefulModule):
            module.recording = True
    return copy


def extract_activations(metrics: Mapping[str, Any]) -> dict[str, PyTree]:
    """Takes the recorded outputs out of a recording network's metrics.

    Args:
      metrics: ``out.metrics`` of a network that :func:`with_recording` made.

    Returns:
      Outputs by path, child names joined with "/"; the network's own under "". Empty if
      nothing was recorded.

    Example:
      >>> extract_activations({"0": {ACTIVATION_KEY: 1.0, "kl": 2.0}, ACTIVATION_KEY: 3.0})
      {'0': 1.0, '': 3.0}
    """
    found: dict[str, PyTree] = {}

    def collect(node: Any, path: tuple[str, ...]) -> None:
        if not isinstance(node, Mapping):
            return
        for name, entry in node.items():
            if name != ACTIVATION_KEY:
                collect(entry, (*path, str(name)))
        if ACTIVATION_KEY in node:
            found["/".join(path)] = node[ACTIVATION_KEY]

    collect(metrics, ())
    return found
