"""Tied: one module, with one set of weights, for several inputs side by side."""

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx

from .._guards import watch_copies
from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._routing import Call, Container
from .._state import initial_state
from .._statistics import counting_repeated
from .._unroll import rebuild
from .._validate import check_int


class Tied(Container):
    """Runs copies of a module that share all weights, each on an input and with a carry of its own.

    Leaves of the input and of the output are (B, copies, ...): entry i of that axis belongs to copy
    i. All copies are one batched operation, and a sequence goes through the module's own
    ``unroll``. Copies draw noise of their own.

    The module is the child ``"module"``. Leaves of its carry and of its rollout_extras are
    (B, copies, ...); its metrics, and what :func:`with_recording` records of it, have the copies
    along a new *last* axis, so that they lead with what they led with. A row's loss is the sum of
    those of its copies, as it is for the children of other containers. ``update_statistics`` takes
    the copies for further rows, (T, B * copies, ...).

    Args:
      module: what to run. It holds no RNG streams, which copies side by side could not take turns
        to draw from; a noise state in the carry is fine, see :class:`StochasticModule`.
      copies: how many there are.

    Raises:
      TypeError: if ``module`` is no StatefulModule or holds an RNG stream, or ``copies`` is no int.
      ValueError: if ``copies`` is less than 1; on call, if the input has another number of them.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> from nnx_stateful import GRU
      >>> legs = Tied(GRU(3, 8, nnx.Rngs(0)), copies=6)
      >>> out = legs(legs.initialize_state(2), jnp.ones((2, 6, 3)))
      >>> out.output.shape, out.next_state["module"].shape
      ((2, 6, 8), (2, 6, 8))
    """

    def __init__(self, module: StatefulModule, copies: int):
        super().__init__({"module": module})
        check_int("Tied", "copies", copies)
        _check_no_streams(module)
        self.copies = int(copies)

    @property
    def module(self) -> StatefulModule:
        """What is run."""
        return self.children["module"]

    def route(self, call: Call, x: PyTree) -> PyTree:
        return call("module", x)

    def initialize_state(self, batch_size: int) -> dict[str, PyTree]:
        # As rows of one batch, for each row has noise of its own.
        rows = initial_state(self.module, batch_size * self.copies)
        lead = (batch_size, self.copies)
        return {"module": jax.tree.map(lambda leaf: leaf.reshape(lead + leaf.shape[1:]), rows)}

    def reset_state(self, prev_state: dict[str, PyTree]) -> dict[str, PyTree]:
        reset = jax.vmap(self.module.reset_state, axis_size=self.copies)
        return {"module": reset(prev_state["module"])}

    def update_statistics(self, rollout_extras: dict[str, PyTree]) -> None:
        as_rows = jax.tree.map(
            lambda leaf: leaf.reshape((leaf.shape[0], -1, *leaf.shape[3:])),
            rollout_extras["module"],
        )
        with counting_repeated(self.copies, axis=1):
            self.module.update_statistics(as_rows)

    def unroll(
        self,
        state: dict[str, PyTree],
        xs: PyTree,
        done: Any = None,
        rollout_extras: dict[str, PyTree] | None = None,
    ) -> StatefulModuleOutput:
        # Said anew, since a class that defines reset_state does not inherit an unroll.
        return super().unroll(state, xs, done, rollout_extras)

    def run_child(
        self, child: StatefulModule, state: PyTree, x: PyTree, rollout_extras: PyTree
    ) -> StatefulModuleOutput:
        graphdef, variables = nnx.split(child)

        def run(*inputs: PyTree) -> StatefulModuleOutput:
            with watch_copies():
                return rebuild(graphdef, variables)(*inputs)

        return self._side_by_side(run, ("B",), state, x, rollout_extras)

    def unroll_child(
        self, child: StatefulModule, state: PyTree, xs: PyTree, done: Any, rollout_extras: PyTree
    ) -> StatefulModuleOutput:
        graphdef, variables = nnx.split(child)

        def run(state: PyTree, xs: PyTree, extras: PyTree) -> StatefulModuleOutput:
            return rebuild(graphdef, variables).unroll(state, xs, done, extras)

        return self._side_by_side(run, ("T", "B"), state, xs, rollout_extras)

    def _side_by_side(
        self,
        run: Callable[..., StatefulModuleOutput],
        lead: tuple[str, ...],
        state: PyTree,
        x: PyTree,
        rollout_extras: PyTree,
    ) -> StatefulModuleOutput:
        """Maps ``run`` over the axis of copies, which comes after those of ``lead``."""
        self._check_copies(x, lead)

        def fields(*inputs: PyTree) -> tuple[PyTree, ...]:
            out = run(*inputs)
            shown = out.regularization_loss, out.metrics
            return out.next_state, (out.output, out.rollout_extras), shown

        axis = len(lead)
        mapped = jax.vmap(fields, (1, axis, axis), (1, axis, -1), axis_size=self.copies)
        next_state, (output, extras), (losses, metrics) = mapped(state, x, rollout_extras)
        return StatefulModuleOutput(next_state, output, losses.sum(axis=-1), metrics, extras)

    def _check_copies(self, x: PyTree, lead: tuple[str, ...]) -> None:
        for path, leaf in jax.tree_util.tree_leaves_with_path(x):
            if leaf.shape[len(lead) : len(lead) + 1] != (self.copies,):
                raise ValueError(
                    f"Tied: expected an input with {self.copies} copies side by side, shape "
                    f"({', '.join(lead)}, {self.copies}, ...), got {tuple(leaf.shape)} at "
                    f"input{jax.tree_util.keystr(path)}; stack what the copies get along that "
                    "axis, or change the number of copies given to the constructor"
                )


def _check_no_streams(module: StatefulModule) -> None:
    for path, node in nnx.iter_graph(module):
        if isinstance(node, nnx.RngState):
            raise TypeError(
                f"Tied: module: expected a module without RNG streams, got a "
                f"{type(module).__name__} with one at {'/'.join(map(str, path[:-1]))!r}: copies "
                "side by side cannot take turns to draw from it. Draw from a noise state in the "
                "carry, as StochasticModule does, or use a Map of modules"
            )
