"""CTRNN: a continuous-time recurrent network."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._state import reset_rows
from .._unroll import sequence_length
from .._validate import check_function, check_int
from ._inputs import check_features
from ._per_unit import Decay, PerUnit, check_units, per_unit, time_range
from ._product import multiply_rows
from ._recurrent import BIAS_INIT, KERNEL_INIT, RECURRENT_INIT, Initializer


class CTRNN(StatefulModule):
    """Continuous-time recurrent network: rate units that excite and inhibit each other.

    Units with potential v and rate f(v) follow (Beer, 1995)::

        tau dv/dt = -v + f(v) @ recurrent_kernel + x + bias

    and a step is one of Euler's, of length dt::

        v' = v + (dt / tau) * (-v + f(v) @ recurrent_kernel + x + bias)

    The output is f(v'), (B, size), the carry v'; v is 0 at the start of an episode. Without
    ``in_features`` the input x, (B, size), is added as it is: it is what reaches the units. With it
    the input is weighed first, ``x @ kernel``.

    ``unroll`` computes the input's part for the whole sequence at once and scans over the rest.

    Args:
      size: number of units.
      rngs: the source of the initial parameters.
      in_features: number of input features F; None for an input that is not weighed.
      activation: f; sees one batch, (B, size).
      time_constant: tau, in the unit of ``dt`` and longer than it: a number, one for each unit
        (size,), or an initializer ``f(key, shape, dtype)`` that draws them.
      learnable: whether tau is trained, for each unit its own. The parameter is the logit of
        1 - dt / tau, so that tau stays longer than dt, and a step never overshoots.
      dt: duration of a step.
      kernel_init: initialiser of the input weights (F, size).
      recurrent_kernel_init: initialiser of the recurrent weights (size, size).
      bias_init: initialiser of the bias (size,).

    Attributes:
      kernel: (F, size), or None.
      recurrent_kernel: (size, size), from row to column.
      bias: (size,).
      decay: holds the parameter ``decay.logit``.

    Raises:
      TypeError: if an argument is of another kind; on call, if the input is no array.
      ValueError: if a number is not positive, a time constant not above ``dt`` or longer than
        2**23 steps, or there is another number of them than units; on call, if the input has
        another number of features.

    References:
      Beer, On the dynamics of small continuous-time recurrent neural networks, 1995.
      Song et al., Training excitatory-inhibitory recurrent neural networks for cognitive tasks,
      2016.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> layer = CTRNN(8, nnx.Rngs(0), in_features=3, time_constant=5.0)
      >>> layer.unroll(layer.initialize_state(2), jnp.ones((4, 2, 3))).output.shape
      (4, 2, 8)
    """

    def __init__(
        self,
        size: int,
        rngs: nnx.Rngs,
        *,
        in_features: int | None = None,
        activation: Callable[[Array], Array] = nnx.tanh,
        time_constant: PerUnit = 10.0,
        learnable: bool = False,
        dt: float = 1.0,
        kernel_init: Initializer = KERNEL_INIT,
        recurrent_kernel_init: Initializer = RECURRENT_INIT,
        bias_init: Initializer = BIAS_INIT,
    ):
        check_units("CTRNN", size, rngs, learnable, dt)
        check_function("CTRNN", "activation", activation)
        if in_features is not None:
            check_int("CTRNN", "in_features", in_features)
        self.size = size
        self.in_features = size if in_features is None else in_features
        self.activation = activation

        def draw(init: Initializer, *shape: int) -> nnx.Param:
            return nnx.Param(init(rngs.params(), shape, jnp.float32))

        self.kernel = None if in_features is None else draw(kernel_init, in_features, size)
        self.recurrent_kernel = draw(recurrent_kernel_init, size, size)
        self.bias = draw(bias_init, size)
        between = time_range(dt, euler=True)
        tau = per_unit("CTRNN", "time_constant", time_constant, size, rngs, between)
        self.decay = Decay(tau, dt, learnable, euler=True)

    @property
    def time_constant(self) -> Float[Array, " size"]:
        """Tau, one for each unit, in the unit of dt."""
        return self.decay.time_constants

    def initialize_state(self, batch_size: int) -> Float[Array, "B size"]:
        return jnp.zeros((batch_size, self.size), self.bias[...].dtype)

    def reset_state(self, prev_state: Float[Array, " size"]) -> Float[Array, " size"]:
        return jnp.zeros_like(prev_state)

    def __call__(
        self, state: Float[Array, "B size"], x: Float[Array, "B F"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        del rollout_extras
        decay, weights, drive = self._scaled(x)
        v = decay * state + drive + self.activation(state) @ weights
        return StatefulModuleOutput(v, self.activation(v), 0.0, {})

    def unroll(
        self,
        state: Float[Array, "B size"],
        xs: Float[Array, "T B F"],
        done: Bool[Array, "T B"] | None = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        length = sequence_length(self, xs, done, rollout_extras)
        decay, weights, drive = self._scaled(xs)

        def step(v: Array, inputs: tuple[Array, Array | None]) -> tuple[Array, Array]:
            drive, ended = inputs
            v = decay * v + drive + self.activation(v) @ weights
            return (v if ended is None else reset_rows(self, v, ended)), v

        last, v = jax.lax.scan(step, state, (drive, done))
        output = jax.vmap(self.activation)(v)
        return StatefulModuleOutput(last, output, jnp.zeros(length, v.dtype), {})

    def _scaled(
        self, x: Float[Array, "*lead F"]
    ) -> tuple[Array, Float[Array, "size size"], Float[Array, "*lead size"]]:
        """Returns the decay, and the recurrent weights and the input's part, times dt / tau."""
        check_features(self, x, self.in_features)
        decay, rest = self.decay.factors()
        x = x.astype(rest.dtype)
        arriving = x if self.kernel is None else multiply_rows(x, self.kernel[...])
        return decay, self.recurrent_kernel[...] * rest, (arriving + self.bias[...]) * rest
