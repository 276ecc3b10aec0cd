"""Repeat: several steps of a module for each step of the sequence."""

from typing import Any

import jax
import jax.numpy as jnp

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._routing import Call, Container
from .._statistics import counting_repeated
from .._unroll import scan_unroll, sequence_length
from .._validate import check_int


class Repeat(Container):
    """Runs a module ``n_steps`` times in a step, on the same input, and outputs the last result.

    The carry runs through all of these inner steps; a row is reset after the last one only. So in a
    graph whose connections take time, messages pass several connections before the network acts:
    where each takes one step, ``n_steps - 1`` of them.

    The loss is the mean of those of the inner steps. Metrics, and the activations that
    :func:`with_recording` keeps, are those of the last one, from which the output comes. The module
    is the child ``"module"``: its rollout_extras, of all inner steps, have leaves
    (B, n_steps, ...), and its ``update_statistics`` gets (T * n_steps, B, ...) in order of time.

    Args:
      module: what to run.
      n_steps: how often to run it in a step, at least 1.

    Raises:
      TypeError: if ``module`` is no StatefulModule or ``n_steps`` no int.
      ValueError: if ``n_steps`` is less than 1.

    Example:
      >>> from nnx_stateful import Delay
      >>> late = Repeat(Delay(jnp.zeros(1), k_steps=3), n_steps=3)
      >>> xs = jnp.arange(1.0, 5.0).reshape(4, 1, 1)
      >>> late.unroll(late.initialize_state(1), xs).output.ravel().tolist()
      [0.0, 1.0, 2.0, 3.0]
    """

    def __init__(self, module: StatefulModule, n_steps: int):
        super().__init__({"module": module})
        check_int("Repeat", "n_steps", n_steps)
        self.n_steps = int(n_steps)

    @property
    def module(self) -> StatefulModule:
        """What is run."""
        return self.children["module"]

    def route(self, call: Call, x: PyTree) -> PyTree:
        return call("module", x)

    def run_child(
        self, child: StatefulModule, state: PyTree, x: PyTree, rollout_extras: PyTree
    ) -> StatefulModuleOutput:
        xs = jax.tree.map(lambda leaf: _repeated(leaf, 0, self.n_steps), x)
        extras = _move_axis(rollout_extras, 1, 0)
        out = scan_unroll(child, state, xs, None, extras, length=self.n_steps)
        return _join(out, axis=0)

    def unroll_child(
        self, child: StatefulModule, state: PyTree, xs: PyTree, done: Any, rollout_extras: PyTree
    ) -> StatefulModuleOutput:
        steps, inner = sequence_length(self, xs, done, rollout_extras), self.n_steps

        def flat(leaf: Any) -> Any:
            return leaf.reshape((steps * inner, *leaf.shape[2:]))

        inputs = jax.tree.map(lambda leaf: flat(_repeated(leaf, 1, inner)), xs)
        extras = jax.tree.map(flat, _move_axis(rollout_extras, 2, 1))
        if done is not None:
            going_on = jnp.zeros((steps, inner, *done.shape[1:]), done.dtype)
            done = flat(going_on.at[:, -1].set(done))
        out = child.unroll(state, inputs, done, extras)
        by_step = jax.tree.map(
            lambda leaf: leaf.reshape((steps, inner, *leaf.shape[1:])), out.replace(next_state=None)
        )
        return _join(by_step.replace(next_state=out.next_state), axis=1)

    def update_statistics(self, rollout_extras: dict[str, PyTree]) -> None:
        in_time = jax.tree.map(
            lambda leaf: leaf.reshape((-1, *leaf.shape[2:])),
            _move_axis(rollout_extras["module"], 2, 1),
        )
        with counting_repeated(self.n_steps, axis=0):
            self.module.update_statistics(in_time)


def _repeated(leaf: Any, axis: int, times: int) -> Any:
    """Returns a leaf with a new axis along which it is the same ``times`` times."""
    shape = jnp.shape(leaf)
    return jnp.broadcast_to(jnp.expand_dims(leaf, axis), (*shape[:axis], times, *shape[axis:]))


def _move_axis(tree: PyTree, source: int, destination: int) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, source, destination), tree)


def _join(out: StatefulModuleOutput, axis: int) -> StatefulModuleOutput:
    """Makes one step of the inner steps, which lie along ``axis`` of all but next_state."""
    output, metrics = jax.tree.map(
        lambda leaf: leaf[(slice(None),) * axis + (-1,)], (out.output, out.metrics)
    )
    return StatefulModuleOutput(
        next_state=out.next_state,
        output=output,
        regularization_loss=jnp.mean(out.regularization_loss, axis=axis),
        metrics=metrics,
        rollout_extras=_move_axis(out.rollout_extras, axis, axis + 1),
    )
