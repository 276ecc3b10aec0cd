"""One module under test, with the inputs and dones that the laws try it on."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._state import initial_state
from ._compiled import CompiledFunctions, CompiledModule
from ._stepping import step_loop


@dataclasses.dataclass(frozen=True)
class Trial:
    """What every law receives.

    Attributes:
      module: the module as the user gave it; laws work on copies, from :meth:`copy`.
      xs: inputs, leaves (T, B, ...).
      done: (T, B) bool.
      batch_size: B.
      tolerance: relative and absolute, for results that may differ by rounding.
    """

    module: StatefulModule
    xs: PyTree
    done: Bool[Array, "T B"]
    batch_size: int
    tolerance: tuple[float, float]

    @property
    def x(self) -> PyTree:
        """The inputs of the first step, leaves (B, ...)."""
        return self.at(0)

    @property
    def steps(self) -> int:
        """T."""
        return self.done.shape[0]

    def at(self, step: int) -> PyTree:
        """Returns the inputs of one step."""
        return jax.tree.map(lambda leaf: leaf[step], self.xs)

    @functools.cached_property
    def functions(self) -> CompiledFunctions:
        """The module's compiled functions."""
        return CompiledFunctions(self.module)

    def copy(self) -> CompiledModule:
        """Returns a compiled copy of the module, whose variables and RNG streams are its own."""
        return CompiledModule(self.functions, nnx.state(self.module))

    @functools.cached_property
    def start(self) -> PyTree:
        """The initial carry state."""
        return initial_state(self.module, self.batch_size)

    @functools.cached_property
    def stepped(self) -> StatefulModuleOutput:
        """What a plain loop over the inputs gives, across resets."""
        return self.step(self.copy(), self.done)

    def step(self, module: CompiledModule, done: Any) -> StatefulModuleOutput:
        """Steps through the inputs in a plain loop; ``done`` is (T, B) or None."""
        inputs = [(self.at(t), None if done is None else done[t], None) for t in range(self.steps)]
        return step_loop(module, module.reset_rows, self.start, inputs)

    @functools.cached_property
    def used(self) -> PyTree:
        """A carry state that no longer is fresh: after two steps, without a reset."""
        module = self.copy()
        state = module(self.start, self.at(0)).next_state
        return module(state, self.at(-1)).next_state


def make_inputs(sample_input: PyTree, steps: int, seed: int) -> PyTree:
    """Makes (T, B, ...) inputs out of a sample (B, ...): rows change places, floats shrink.

    Every row stays a plausible input: integers are those of some row of the sample, floats are
    those of a row times a number between 1/2 and 1.
    """
    random = np.random.default_rng(seed)

    def sequence(leaf: Any) -> Array:
        leaf = jnp.asarray(leaf)
        rolled = jnp.stack([jnp.roll(leaf, step, axis=0) for step in range(steps)])
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return rolled
        shape = rolled.shape[:2] + (1,) * (rolled.ndim - 2)
        return rolled * jnp.asarray(random.uniform(0.5, 1, shape), leaf.dtype)

    return jax.tree.map(sequence, sample_input)


def make_done(steps: int, batch_size: int, seed: int) -> Bool[Array, "T B"]:
    """Draws where episodes end; one row ends at the last step, another one never."""
    done = np.random.default_rng(seed).random((steps, batch_size)) < 0.3
    done[:, -1] = False
    done[[steps // 3, steps - 1], 0] = True
    return jnp.asarray(done)
