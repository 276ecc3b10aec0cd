"""What the childless, stateless containers share: a pure function of the input."""

import abc

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule


class Stateless(StatefulModule):
    """A module that is a pure, row-wise function of its input: no carry, loss, or extras."""

    folds_time = True

    @abc.abstractmethod
    def transform(self, x: PyTree) -> PyTree:
        """Returns the output for ``x``, leaves (B, ...)."""

    def __call__(
        self, state: PyTree, x: PyTree, rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        del rollout_extras
        return StatefulModuleOutput(state, self.transform(x), 0.0, {})
