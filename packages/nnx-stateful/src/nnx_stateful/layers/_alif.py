"""ALIF: leaky integrate-and-fire units whose threshold adapts."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from .._validate import check_number
from ._per_unit import Decay, PerUnit, per_unit, time_range
from ._spiking import Factors, SpikingLayer, State
from ._surrogate import Surrogate


class ALIF(SpikingLayer):
    """Adaptive leaky integrate-and-fire units, those of an LSNN (Bellec et al., 2018).

    As :class:`LIF`, but the threshold rises with each spike and falls back with a time constant of
    its own, tau_a, usually a long one: it remembers for how long a unit has been active::

        decay_a = exp(-dt / tau_a)
        theta = threshold + adaptation_strength * a
        a' = decay_a * a + (1 - decay_a) * z

    with z the spikes that theta leads to. A soft reset subtracts theta. The gradient passes through
    a, over as many steps as it lasts.

    The carry has a further entry ``"adaptation": a', (B, size)``, 0 at the start of an episode.
    Metrics: firing_rate (B,) as of :class:`LIF`, and threshold (B,), the mean theta of the units.

    Args:
      size: number of units.
      rngs: the source of drawn time constants.
      adaptation_time_constant: tau_a, given like ``time_constant``.
      adaptation_strength: how much the threshold rises for a unit that fires in every step; with
        each spike it rises by ``1 - decay_a`` of that, about dt / tau_a. In the paper it is 180
        times the threshold, with a tau_a of 700 ms.
      time_constant: see :class:`LIF`, as for all that follow.
      learnable: whether tau and tau_a are trained.
      dt: duration of a step.
      threshold: the threshold of a unit that has not fired.
      reset: "soft" or "hard".
      detach_reset: whether the gradient leaves out the spike in the reset.
      refractory_steps: for how many steps after a spike a unit does not fire.
      surrogate: the gradient of a spike, or its name; that of the paper is
        ``Surrogate("triangular", slope=1 / threshold, height=0.3 / threshold)``.

    Attributes:
      decay: holds the parameter ``decay.logit``.
      adaptation_decay: holds the parameter ``adaptation_decay.logit``.

    Raises:
      TypeError: if an argument is of another kind; on call, if the input is no array.
      ValueError: if a number is out of range, there is another number of time constants than units,
        or an option has no such value; on call, if the input has another number of features.

    References:
      Bellec et al., Long short-term memory and learning-to-learn in networks of spiking neurons,
      2018.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> layer = ALIF(1, nnx.Rngs(0), time_constant=4.0, adaptation_time_constant=50.0)
      >>> out = layer.unroll(layer.initialize_state(1), jnp.full((20, 1, 1), 3.0))
      >>> jnp.flatnonzero(out.output).tolist()  # fires at longer and longer intervals
      [1, 4, 8, 13, 19]
    """

    def __init__(
        self,
        size: int,
        rngs: nnx.Rngs,
        *,
        adaptation_time_constant: PerUnit = 200.0,
        adaptation_strength: float = 20.0,
        time_constant: PerUnit = 20.0,
        learnable: bool = False,
        dt: float = 1.0,
        threshold: float = 1.0,
        reset: str = "soft",
        detach_reset: bool = True,
        refractory_steps: int = 0,
        surrogate: str | Surrogate = "fast_sigmoid",
    ):
        super().__init__(
            size,
            rngs,
            time_constant=time_constant,
            learnable=learnable,
            dt=dt,
            threshold=threshold,
            reset=reset,
            detach_reset=detach_reset,
            refractory_steps=refractory_steps,
            surrogate=surrogate,
        )
        check_number("ALIF", "adaptation_strength", adaptation_strength, "nonnegative")
        self.adaptation_strength = float(adaptation_strength)
        name = "adaptation_time_constant"
        tau = per_unit("ALIF", name, adaptation_time_constant, size, rngs, time_range(dt))
        self.adaptation_decay = Decay(tau, dt, learnable)

    @property
    def adaptation_time_constant(self) -> Float[Array, " size"]:
        """Tau_a, one for each unit, in the unit of dt."""
        return self.adaptation_decay.time_constants

    def fresh_row(self) -> State:
        row = super().fresh_row()
        return {**row, "adaptation": jnp.zeros_like(row["v"])}

    def factors(self) -> Factors:
        return {**super().factors(), "adaptation": self.adaptation_decay.factors()}

    def threshold_of(self, state: State) -> Float[Array, "B size"]:
        return self.threshold + self.adaptation_strength * state["adaptation"]

    def adapted(self, state: State, spikes: Float[Array, "B size"], factors: Factors) -> State:
        decay, rest = factors["adaptation"]
        return {"adaptation": decay * state["adaptation"] + rest * spikes}
