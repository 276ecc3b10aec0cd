"""The routing base: state, extras, metrics, losses, statistics and resets of children."""

import abc
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from ._output import PyTree, StatefulModuleOutput
from ._protocol import StatefulModule
from ._unroll import has_rng_streams, scan_unroll, sequence_length

Call = Callable[[str, PyTree], PyTree]
"""``call(name, x)`` runs the child of that name on ``x`` and returns its output."""


class Container(StatefulModule):
    """A module made of named children; a subclass says only which input goes where.

    Carry state, rollout_extras and metrics are dicts keyed by the child's name. The subclass
    implements :meth:`route`, which serves a step and a whole sequence alike: leaves of ``x`` lead
    with (B,) in the one case and with (T, B) in the other, so it must touch trailing axes only.

    Args:
      children: the children by name, at least one.

    Raises:
      ValueError: if there are no children.
      TypeError: if a name is not a str or a child is not a StatefulModule.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> from nnx_stateful import Dense
      >>> class Residual(Container):
      ...     def __init__(self, inner):
      ...         super().__init__({"inner": inner})
      ...
      ...     def route(self, call, x):
      ...         return x + call("inner", x)
      >>> net = Residual(Dense(3, 3, nnx.Rngs(0)))
      >>> net(net.initialize_state(2), jnp.ones((2, 3))).output.shape
      (2, 3)
    """

    def __init__(self, children: Mapping[str, StatefulModule]):
        kind = type(self).__name__
        if not children:
            raise ValueError(f"{kind}: expected at least one child module, got none; pass some")
        for name, child in children.items():
            if not isinstance(name, str):
                raise TypeError(
                    f"{kind}: expected child names of type str, got {name!r} of type "
                    f"{type(name).__name__}; use {str(name)!r}"
                )
            if not isinstance(child, StatefulModule):
                raise TypeError(
                    f"{kind}: child {name!r}: expected a StatefulModule, got "
                    f"{type(child).__name__}; wrap a pure function in Apply(fn), an nnx layer in "
                    "a StatefulModule subclass"
                )
        self.child_names = tuple(children)
        self.child_modules = nnx.List(list(children.values()))

    @property
    def children(self) -> dict[str, StatefulModule]:
        """The children by name, in the order of construction."""
        return dict(zip(self.child_names, self.child_modules, strict=True))

    @abc.abstractmethod
    def route(self, call: Call, x: PyTree) -> PyTree:
        """Returns the output for ``x``, running each child at most once through ``call``."""

    def run_child(
        self, child: StatefulModule, state: PyTree, x: PyTree, rollout_extras: PyTree
    ) -> StatefulModuleOutput:
        """Runs a child for one step, leaves (B, ...): calls it.

        A container that runs its children otherwise overrides this and :meth:`unroll_child`.
        """
        return child(state, x, rollout_extras)

    def unroll_child(
        self, child: StatefulModule, state: PyTree, xs: PyTree, done: Any, rollout_extras: PyTree
    ) -> StatefulModuleOutput:
        """Runs a child for a sequence, leaves (T, B, ...); equals :meth:`run_child` T times."""
        return child.unroll(state, xs, done, rollout_extras)

    def initialize_state(self, batch_size: int) -> dict[str, PyTree]:
        return {name: child.initialize_state(batch_size) for name, child in self.children.items()}

    def reset_state(self, prev_state: dict[str, PyTree]) -> dict[str, PyTree]:
        return {name: child.reset_state(prev_state[name]) for name, child in self.children.items()}

    def carry_written(self, next_state: dict[str, PyTree]) -> dict[str, PyTree]:
        return {
            name: child.carry_written(next_state[name]) for name, child in self.children.items()
        }

    def update_statistics(self, rollout_extras: dict[str, PyTree]) -> None:
        for name, child in self.children.items():
            child.update_statistics(rollout_extras[name])

    def __call__(
        self, state: dict[str, PyTree], x: PyTree, rollout_extras: dict[str, PyTree] | None = None
    ) -> StatefulModuleOutput:
        routing = Routing(self, self.run_child, state, rollout_extras, _lead(x, state))
        return routing.result(self.route(routing.call, x))

    def unroll(
        self,
        state: dict[str, PyTree],
        xs: PyTree,
        done: Any = None,
        rollout_extras: dict[str, PyTree] | None = None,
    ) -> StatefulModuleOutput:
        if has_rng_streams(self):  # children draw in turn: only stepping keeps their order
            return scan_unroll(self, state, xs, done, rollout_extras)

        def sequence(child: StatefulModule, *inputs: PyTree) -> StatefulModuleOutput:
            child_state, child_xs, child_extras = inputs
            return self.unroll_child(child, child_state, child_xs, done, child_extras)

        steps = sequence_length(self, xs, done, rollout_extras)
        routing = Routing(self, sequence, state, rollout_extras, _lead(xs, state, steps))
        return routing.result(self.route(routing.call, xs))


class Routing:
    """One pass through the children of a container: hands out inputs, gathers results.

    Args:
      container: whose children run; any module with a ``children`` dict.
      run: ``run(child, state, x, rollout_extras) -> StatefulModuleOutput``.
      state: carry state by child name.
      rollout_extras: extras by child name, or None.
      lead: the leading axes (B,) or (T, B) to which losses are broadcast; None if unknown.
    """

    def __init__(
        self,
        container: Any,
        run: Callable[..., StatefulModuleOutput],
        state: Mapping[str, PyTree],
        rollout_extras: Mapping[str, PyTree] | None,
        lead: tuple[int, ...] | None,
    ):
        self._kind = type(container).__name__
        self._children = container.children
        self._run = run
        self._state = state
        self._extras = rollout_extras
        self._lead = lead
        self._outputs: dict[str, StatefulModuleOutput] = {}

    def call(self, name: str, x: PyTree) -> PyTree:
        """Runs one child and returns its output."""
        if name in self._outputs:
            raise RuntimeError(
                f"{self._kind}.route called child {name!r} twice in one step, which would leave "
                "two carry states; call it once, or add a second child (it may share weights)"
            )
        extras = (
            None
            if self._extras is None
            else self._entry(
                self._extras, name, "rollout_extras", "replay those that a rollout emitted"
            )
        )
        state = self._child_state(name)
        try:
            out = self._run(self._children[name], state, x, extras)
        except Exception as error:
            error.add_note(f"in child {name!r} of {self._kind}")
            raise
        self._outputs[name] = out
        return out.output

    def result(self, output: PyTree) -> StatefulModuleOutput:
        """Joins what the children returned with the container's own output."""
        outs = self._outputs
        losses = [self._per_row(name, out.regularization_loss) for name, out in outs.items()]
        return StatefulModuleOutput(
            next_state={
                name: outs[name].next_state if name in outs else self._child_state(name)
                for name in self._children
            },
            output=output,
            regularization_loss=sum(losses[1:], losses[0]) if losses else jnp.zeros(()),
            metrics={name: outs[name].metrics if name in outs else {} for name in self._children},
            rollout_extras={
                name: outs[name].rollout_extras if name in outs else None for name in self._children
            },
        )

    def _child_state(self, name: str) -> PyTree:
        hint = "start from initialize_state(batch_size) and pass on next_state"
        return self._entry(self._state, name, "a carry state", hint)

    def _entry(self, tree: Any, name: str, what: str, hint: str) -> PyTree:
        try:
            return tree[name]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            found = f"entries {list(tree)}" if isinstance(tree, Mapping) else type(tree).__name__
            raise ValueError(
                f"{self._kind}: expected {what} with an entry for each child, "
                f"{list(self._children)}, got {found} without {name!r}; {hint}"
            ) from error

    def _per_row(self, name: str, loss: Any) -> Any:
        """Broadcasts a child's loss, (), (T,), (B,) or (T, B), to the leading axes."""
        loss = jnp.asarray(loss)
        lead = self._lead
        if lead is None:
            return loss
        if loss.ndim > len(lead) or loss.shape != lead[: loss.ndim]:
            raise ValueError(
                f"{self._kind}: child {name!r}: expected a regularization_loss that is a scalar "
                f"or one value per row {lead}, got shape {loss.shape}; average over the other axes"
            )
        return jnp.broadcast_to(loss.reshape(loss.shape + (1,) * (len(lead) - loss.ndim)), lead)


def _lead(x: PyTree, state: PyTree, *steps: int) -> tuple[int, ...] | None:
    """Returns (B,), or (T, B) given T: from the input or, where there is none, from the state."""
    if jax.tree.leaves(x):
        return tuple(jax.tree.leaves(x)[0].shape[: len(steps) + 1])
    if jax.tree.leaves(state):
        return (*steps, jax.tree.leaves(state)[0].shape[0])
    return None
