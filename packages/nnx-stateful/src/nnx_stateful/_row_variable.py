"""Variables of a network that have one entry for each row of the batch."""

from flax import nnx


class RowVariable(nnx.Variable):
    """What a network holds for each row of the batch: its value leads with the batch axis B.

    A network that holds one runs with a batch of B rows alone. Whoever needs to know how it would
    behave with another number of rows gives these variables as many.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> from nnx_stateful import StatefulModule, StatefulModuleOutput
      >>> class Dosed(StatefulModule):
      ...     def __init__(self, doses):
      ...         self.doses = RowVariable(doses)
      ...
      ...     def __call__(self, state, x, rollout_extras=None):
      ...         return StatefulModuleOutput(state, x + self.doses[:, None], 0.0, {})
      >>> net = Dosed(jnp.array([0.0, 1.0, 2.0]))
      >>> net(net.initialize_state(3), jnp.zeros((3, 1))).output.ravel().tolist()
      [0.0, 1.0, 2.0]
    """
