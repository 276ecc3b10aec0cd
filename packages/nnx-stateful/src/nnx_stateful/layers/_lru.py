"""LRU: the linear recurrent unit, all time steps at once."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Complex, Float

from .._output import PyTree, StatefulModuleOutput
from .._protocol import StatefulModule
from .._state import reset_rows
from .._unroll import sequence_length
from .._validate import as_compute_dtype, check_int, check_rngs, known_number
from ._inputs import check_features
from ._linear_recurrence import recurrence
from ._product import multiply_rows

Carry = tuple[Float[Array, "*B N"], Float[Array, "*B N"]]


class LRU(StatefulModule):
    """Linear recurrent unit: a diagonal complex recurrence (Orvieto et al., 2023).

    For N complex units h with eigenvalues inside the unit circle::

        lambda = exp(-exp(nu_log) + i * exp(theta_log))
        h' = lambda * h + exp(gamma_log) * (x @ B)
        y  = real(h' @ C) + x @ D

    ``gamma_log`` starts at ``log(sqrt(1 - |lambda|^2))``, which gives h unit variance on white
    noise. Because the recurrence is linear, its gradient is one too, from the last step to the
    first, and on an accelerator both are associative scans: O(log T) deep. A reset cuts them by
    setting the factor lambda of that row and step to zero. Differentiate ``unroll`` in reverse
    (``jax.grad``): ``jax.jvp`` of it is a TypeError.

    The carry is ``(real, imag)`` of h, each (B, N). Put a nonlinearity after the layer.

    Args:
      in_features: number of input features F.
      hidden_features: number of complex units N.
      rngs: the source of the initial parameters.
      out_features: number of outputs; ``hidden_features`` if None.
      r_min: smallest initial abs(lambda).
      r_max: largest initial abs(lambda), at most 1; a unit remembers about
        1 / (1 - abs(lambda)) steps.
      max_phase: largest initial phase of lambda, in radians per step.
      compute_dtype: type of the operands of matrix products, such as "bfloat16", in the gradients
        too; see :func:`multiply_rows`. Parameters, carry, recurrence and output keep theirs. None
        for the parameters' own type.

    Raises:
      TypeError: if an argument is of another kind; on call, if the input is no array.
      ValueError: if a size is not positive; unless 0 <= r_min < r_max <= 1 and
        0 < max_phase <= 2 pi; if ``compute_dtype`` will not do; on call, if the input has another
        number of features.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> lru = LRU(3, 8, nnx.Rngs(0), r_min=0.9, r_max=0.99)
      >>> lru.unroll(lru.initialize_state(2), jnp.ones((4, 2, 3))).output.shape
      (4, 2, 8)
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        rngs: nnx.Rngs,
        *,
        out_features: int | None = None,
        r_min: float = 0.0,
        r_max: float = 1.0,
        max_phase: float = 2 * math.pi,
        compute_dtype: DTypeLike | None = None,
    ):
        check_int("LRU", "in_features", in_features)
        check_int("LRU", "hidden_features", hidden_features)
        check_int("LRU", "out_features", hidden_features if out_features is None else out_features)
        check_rngs("LRU", rngs)
        r_min = known_number("LRU", "r_min", r_min)
        r_max = known_number("LRU", "r_max", r_max)
        max_phase = known_number("LRU", "max_phase", max_phase)
        if not 0 <= r_min < r_max <= 1:
            raise ValueError(
                f"LRU: expected 0 <= r_min < r_max <= 1, got r_min={r_min}, r_max={r_max}"
            )
        if not 0 < max_phase <= 2 * math.pi:
            raise ValueError(f"LRU: expected 0 < max_phase <= 2 pi, got {max_phase}")
        self.in_features = in_features
        self.hidden_features = hidden_features
        self.out_features = hidden_features if out_features is None else out_features
        self.compute_dtype = as_compute_dtype("LRU", compute_dtype)
        nu, theta, gamma = _initial_spectrum(rngs, hidden_features, (r_min, r_max), max_phase)
        self.nu_log, self.theta_log, self.gamma_log = map(nnx.Param, (nu, theta, gamma))

        def normal(rows: int, columns: int, variance: float) -> nnx.Param:
            values = jax.random.normal(rngs.params(), (rows, columns), jnp.float32)
            return nnx.Param(values * math.sqrt(variance))

        inputs, units, outputs = in_features, hidden_features, self.out_features
        self.input_real = normal(inputs, units, 1 / (2 * inputs))
        self.input_imag = normal(inputs, units, 1 / (2 * inputs))
        self.output_real = normal(units, outputs, 1 / units)
        self.output_imag = normal(units, outputs, 1 / units)
        self.skip = normal(inputs, outputs, 1 / inputs)

    def initialize_state(self, batch_size: int) -> Carry:
        zeros = jnp.zeros((batch_size, self.hidden_features), self.nu_log[...].dtype)
        return zeros, zeros

    def reset_state(self, prev_state: Carry) -> Carry:
        return jax.tree.map(jnp.zeros_like, prev_state)

    def eigenvalues(self) -> Complex[Array, " N"]:
        """Returns lambda."""
        return jnp.exp(jax.lax.complex(-jnp.exp(self.nu_log[...]), jnp.exp(self.theta_log[...])))

    def __call__(
        self, state: Carry, x: Float[Array, "B F"], rollout_extras: PyTree = None
    ) -> StatefulModuleOutput:
        del rollout_extras
        x, drive = self._drive(x)
        hidden = _pair(self.eigenvalues() * jax.lax.complex(*state) + jax.lax.complex(*drive))
        return StatefulModuleOutput(hidden, self._read(hidden, x), 0.0, {})

    def unroll(
        self,
        state: Carry,
        xs: Float[Array, "T B F"],
        done: Bool[Array, "T B"] | None = None,
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        length = sequence_length(self, xs, done, rollout_extras)
        xs, drive = self._drive(xs)
        joined = None
        if done is not None:  # a fresh row is zero: what came before no longer acts
            ended = done.astype(bool)
            joined = ~jnp.concatenate([jnp.zeros_like(ended[:1]), ended[:-1]])
        hidden = recurrence(_pair(self.eigenvalues()), drive, state, joined)
        state = jax.tree.map(lambda leaf: leaf[-1], hidden)
        if done is not None:
            state = reset_rows(self, state, done[-1])
        output = self._read(hidden, xs)
        return StatefulModuleOutput(state, output, jnp.zeros(length, output.dtype), {})

    def _drive(
        self, x: Float[Array, "*lead F"]
    ) -> tuple[Array, tuple[Float[Array, "*lead N"], Float[Array, "*lead N"]]]:
        """Returns the input in the parameters' dtype, and what it adds to the hidden units."""
        check_features(self, x, self.in_features)
        x = x.astype(self.skip[...].dtype)
        scale = jnp.exp(self.gamma_log[...])
        real, imag = scale * self.input_real[...], scale * self.input_imag[...]
        return x, (self._multiply(x, real), self._multiply(x, imag))

    def _read(
        self,
        hidden: tuple[Float[Array, "*lead N"], Float[Array, "*lead N"]],
        x: Float[Array, "*lead F"],
    ) -> Float[Array, "*lead O"]:
        real, imag = hidden
        shown = self._multiply(real, self.output_real[...])
        shown -= self._multiply(imag, self.output_imag[...])
        return shown + self._multiply(x, self.skip[...])

    def _multiply(self, x: Float[Array, "*lead F"], kernel: Array) -> Float[Array, "*lead O"]:
        return multiply_rows(x, kernel, self.compute_dtype)


def _pair(values: Complex[Array, "*lead N"]) -> Carry:
    return jnp.real(values), jnp.imag(values)


def _initial_spectrum(
    rngs: nnx.Rngs, units: int, radii: tuple[float, float], max_phase: float
) -> tuple[Array, Array, Array]:
    """Draws lambda uniformly on a ring; returns nu_log, theta_log and gamma_log.

    With u uniform in (0, 1], ``|lambda|^2 = u * (r_max^2 - r_min^2) + r_min^2``.
    """
    tiny = float(jnp.finfo(jnp.float32).tiny)
    low, high = radii[0] ** 2, radii[1] ** 2
    uniform = jax.random.uniform(rngs.params(), (units,), jnp.float32, minval=tiny)
    squared = uniform * (high - low) + low
    squared = jnp.clip(squared, tiny, 1 - 1e-6)  # finite logarithms at both ends
    phase = jax.random.uniform(rngs.params(), (units,), jnp.float32, minval=1e-6) * max_phase
    return jnp.log(-0.5 * jnp.log(squared)), jnp.log(phase), 0.5 * jnp.log(1 - squared)
