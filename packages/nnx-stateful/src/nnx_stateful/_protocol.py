"""The protocol: one class that every layer, container, graph and network implements."""

import abc
import functools
from collections.abc import Callable
from typing import Any, ClassVar

from flax import nnx

from ._diagnosis import explained
from ._guards import check_signature, forbid_writes, refuse_plain_collection
from ._output import PyTree, StatefulModuleOutput
from ._unroll import fold_unroll, has_carry, has_rng_streams, scan_unroll, vmap_unroll

ACTIVATION_KEY = "__activation__"
"""The entry of ``metrics`` under which a recording module puts its output."""


class StatefulModule(nnx.Module):
    """A network module with three channels that never mix.

    * **NNX state** on ``self`` (parameters, other variables, RNG streams) belongs to the network
      and survives episodes. A call writes none of it; only an RNG stream may advance.
    * **Carry state** is an argument and a result. It belongs to the rows of the batch and is
      reset, row by row, when the episode of a row ends.
    * **rollout_extras** is what a module must remember from the rollout so that the loss can
      replay it exactly. None means "act afresh, and emit"; a value means "replay this".

    A subclass writes ``__call__`` and, if it has carry state, ``initialize_state`` and
    ``reset_state``. Everything else has a default that works.

    Attributes:
      keeps_state_on_reset: says that the carry outlives episodes on purpose.
      folds_time: says that the module, which has no carry, treats rows independently, so that
        ``unroll`` may fold the time axis into the batch axis. Losses, metrics and extras must
        then lead with the batch axis (or be constants).
      recording: set by :func:`with_recording` on the modules of a copy.

    Example:
      >>> import jax.numpy as jnp
      >>> class Counter(StatefulModule):
      ...     def __call__(self, state, x, rollout_extras=None):
      ...         return StatefulModuleOutput(state + 1, x + state[:, None], 0.0, {})
      ...
      ...     def initialize_state(self, batch_size):
      ...         return jnp.zeros(batch_size)
      ...
      ...     def reset_state(self, prev_state):
      ...         return jnp.zeros_like(prev_state)
      >>> counter = Counter()
      >>> out = counter.unroll(counter.initialize_state(2), jnp.zeros((5, 2, 1)))
      >>> out.output[:, 0, 0].tolist()
      [0.0, 1.0, 2.0, 3.0, 4.0]
    """

    keeps_state_on_reset: ClassVar[bool] = False
    folds_time: ClassVar[bool] = False
    recording: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _restore_default_unroll(cls)
        call, unroll = _inherited(cls, "__call__"), _inherited(cls, "unroll")
        if call is not None:
            check_signature(cls, call)
            cls.__call__ = _guarded(call)
        if unroll is not None:
            cls.unroll = _recorded(unroll)

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except ValueError as error:
            refuse_plain_collection(self, name, value, error)
            raise

    @abc.abstractmethod
    def __call__(
        self, state: PyTree, x: PyTree, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        """Advances every row of the batch by one step.

        Args:
          state: carry state; every leaf leads with the batch axis B.
          x: input tree; every leaf leads with B.
          rollout_extras: None to act afresh and emit what a replay needs; the emitted value to
            replay that step.

        Returns:
          The output, with ``next_state`` of the tree, shapes and dtypes of ``state``.

        Raises:
          RuntimeError: if the call wrote a variable other than an RNG stream, or an array.
        """

    def initialize_state(self, batch_size: int) -> PyTree:
        """Returns the carry state of ``batch_size`` fresh rows; must be deterministic."""
        del batch_size
        return ()

    def reset_state(self, prev_state: PyTree) -> PyTree:
        """Returns the carry state of a fresh episode.

        Sees one row at a time (it runs under ``jax.vmap``): leaves come without the batch axis,
        and must go with the shapes and dtypes they came with.
        """
        return prev_state

    def carry_written(self, next_state: PyTree) -> PyTree:
        """Returns what the last step wrote into the carry state, leaves (B, ...).

        A check of every step for values that are not finite looks at this part alone. A module
        with a long memory, of which a step writes little, need not have all of it read each time.
        """
        return next_state

    def update_statistics(self, rollout_extras: PyTree) -> None:
        """Folds a rollout's extras, leaves (T, B, ...), into running statistics.

        Called once per iteration, after the gradient update: the one place besides the optimiser
        where variables are written. Where some steps shall not count, :func:`counted_steps` says
        which do.
        """

    def set_view(self, deterministic: bool | None = None) -> None:
        """Called by ``nnx.view``: sets the attribute ``deterministic`` of a module that has one."""
        if deterministic is not None and hasattr(self, "deterministic"):
            self.deterministic = deterministic

    def unroll(
        self,
        state: PyTree,
        xs: PyTree,
        done: Any = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        """Runs a whole sequence; equals calling step by step, to rounding.

        Args:
          state: carry state before the first step, leaves (B, ...).
          xs: inputs, leaves (T, B, ...).
          done: (T, B), true where the row's episode ends with that step: the carry of the row is
            reset after it. None means that no episode ends.
          rollout_extras: leaves (T, B, ...) to replay, or None.

        Returns:
          ``next_state`` after the last step (and its resets); every other field stacked in time.
        """
        run = fold_unroll if self.folds_time else vmap_unroll
        if has_rng_streams(self) or has_carry(state):
            run = scan_unroll
        given = {"state": state, "x": xs, "done": done, "rollout_extras": rollout_extras}
        with explained(self, given, lead=2):
            return run(self, state, xs, done, rollout_extras)


_STEP = ("state", "x", "rollout_extras")
_SEQUENCE = ("state", "xs", "done", "rollout_extras")


def _guarded(call: Callable[..., Any]) -> Callable[..., StatefulModuleOutput]:
    """Wraps ``__call__``: checks its result, forbids writes, records when asked to."""

    @functools.wraps(call)
    def guarded(self: StatefulModule, *args: Any, **kwargs: Any) -> StatefulModuleOutput:
        given = dict(zip(_STEP, args, strict=False)) | kwargs
        with explained(self, given, lead=1), forbid_writes(self):
            out = call(self, *args, **kwargs)
        if not isinstance(out, StatefulModuleOutput):
            raise TypeError(
                f"{type(self).__name__}.__call__ must return a StatefulModuleOutput, "
                f"got {type(out).__name__}; return StatefulModuleOutput(next_state, output, "
                "regularization_loss, metrics, rollout_extras)"
            )
        return _with_activation(self, out)

    return guarded


def _recorded(unroll: Callable[..., StatefulModuleOutput]) -> Callable[..., StatefulModuleOutput]:
    @functools.wraps(unroll)
    def recorded(self: StatefulModule, *args: Any, **kwargs: Any) -> StatefulModuleOutput:
        given = dict(zip(_SEQUENCE, args, strict=False)) | kwargs
        given["x"] = given.pop("xs", None)
        with explained(self, given, lead=2):
            return _with_activation(self, unroll(self, *args, **kwargs))

    return recorded


def _with_activation(module: StatefulModule, out: StatefulModuleOutput) -> StatefulModuleOutput:
    if not module.recording:
        return out
    return out.replace(metrics={**out.metrics, ACTIVATION_KEY: out.output})


def _restore_default_unroll(cls: type[StatefulModule]) -> None:
    """Makes sure that ``unroll`` never belongs to an ancestor of the class that acts.

    If ``__call__``, ``reset_state`` or ``initialize_state`` come from a more derived class than
    ``unroll`` (or ``folds_time``, ``carry_written``), what is inherited describes another module.
    """
    acting = min(_rank(cls, name) for name in ("__call__", "reset_state", "initialize_state"))
    if acting < _rank(cls, "unroll"):
        cls.unroll = StatefulModule.unroll
    if acting < _rank(cls, "carry_written"):
        cls.carry_written = StatefulModule.carry_written
    if acting < _rank(cls, "folds_time"):
        cls.folds_time = False


def _inherited(cls: type[StatefulModule], name: str) -> Callable[..., Any] | None:
    """Returns the method that ``cls`` gets from its own body or a mixin; None if it needs no wrap.

    A mixin is no StatefulModule, so what it defines has not been wrapped yet.
    """
    definer = cls.__mro__[_rank(cls, name)]
    method = vars(definer)[name]
    if (definer is cls or not issubclass(definer, StatefulModule)) and (
        method is not StatefulModule.unroll
    ):
        return method
    return None


def _rank(cls: type, name: str) -> int:
    """Position in the method resolution order of the class that defines ``name``."""
    return next(i for i, base in enumerate(cls.__mro__) if name in vars(base))
