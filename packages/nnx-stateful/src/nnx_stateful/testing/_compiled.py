"""A module behind compiled functions: laws call it often, and compiling once costs least."""

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Bool

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._state import reset_rows
from .._unroll import rebuild


class CompiledFunctions:
    """What the copies of one module share.

    Attributes:
      call, unroll, reset_rows: compiled; take the module's variables first.
      call_traces: how often ``call`` has been traced.
    """

    def __init__(self, module: StatefulModule):
        graphdef = nnx.graphdef(module)
        self.call_traces = 0

        def call(variables: Any, *inputs: PyTree) -> tuple[StatefulModuleOutput, Any]:
            self.call_traces += 1
            local = rebuild(graphdef, variables)
            return local(*inputs), nnx.state(local)

        def unroll(variables: Any, *inputs: PyTree) -> tuple[StatefulModuleOutput, Any]:
            local = rebuild(graphdef, variables)
            return local.unroll(*inputs), nnx.state(local)

        def reset(variables: Any, state: PyTree, done: Array) -> PyTree:
            return reset_rows(rebuild(graphdef, variables), state, done)

        self.call, self.unroll, self.reset_rows = jax.jit(call), jax.jit(unroll), jax.jit(reset)


class CompiledModule:
    """A copy of a module, with variables and RNG streams of its own.

    Attributes:
      variables: all of them, as the calls so far have left them.
    """

    def __init__(self, functions: CompiledFunctions, variables: Any):
        self._functions = functions
        self.variables = variables

    def __call__(
        self, state: PyTree, x: PyTree, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        out, self.variables = self._functions.call(self.variables, state, x, rollout_extras)
        return out

    def unroll(
        self, state: PyTree, xs: PyTree, done: Any = None, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        """Runs a sequence through the module's own unroll."""
        inputs = (state, xs, done, rollout_extras)
        out, self.variables = self._functions.unroll(self.variables, *inputs)
        return out

    def reset_rows(self, state: PyTree, done: Bool[Array, "B"]) -> PyTree:
        """Resets rows through the module's own reset_state."""
        return self._functions.reset_rows(self.variables, state, done)
