"""The plain loop against which ``unroll`` is judged."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._state import reset_rows
from .._unroll import sequence_length
from ._compare import to_numpy


def step_through(
    module: StatefulModule,
    state: PyTree,
    xs: PyTree,
    done: Any = None,
    rollout_extras: PyTree = None,
) -> StatefulModuleOutput:
    """Calls a module once per step in a Python loop, and resets rows in between.

    Args:
      module: the module; its RNG streams, if any, advance.
      state: carry state before the first step.
      xs: inputs, leaves (T, B, ...).
      done: (T, B), or None.
      rollout_extras: leaves (T, B, ...) to replay, or None.

    Returns:
      What ``module.unroll`` should return, as NumPy arrays.

    Example:
      >>> import jax.numpy as jnp
      >>> from nnx_stateful.testing import CounterProbe
      >>> probe = CounterProbe()
      >>> out = step_through(probe, probe.initialize_state(1), jnp.zeros((3, 1, 1)))
      >>> out.output[:, 0, 0].tolist()
      [0.0, 1.0, 2.0]
    """
    length = sequence_length(module, xs, done, rollout_extras)
    inputs = [_at((xs, done, rollout_extras), step) for step in range(length)]
    return step_loop(module, functools.partial(reset_rows, module), state, inputs)


def step_loop(
    call: Callable[..., StatefulModuleOutput],
    reset: Callable[[PyTree, Any], PyTree],
    state: PyTree,
    inputs: list[tuple[PyTree, Any, PyTree]],
) -> StatefulModuleOutput:
    """Runs ``call(state, x, rollout_extras)`` and ``reset(state, done)`` over (x, done, extras)."""
    outs = []
    for x, done, extras in inputs:
        out = call(state, x, extras)
        state = out.next_state if done is None else reset(out.next_state, done)
        outs.append(out.replace(next_state=None))
    stacked = jax.tree.map(lambda *leaves: np.stack([to_numpy(leaf) for leaf in leaves]), *outs)
    return stacked.replace(next_state=state)


def _at(tree: PyTree, step: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[step], tree)
