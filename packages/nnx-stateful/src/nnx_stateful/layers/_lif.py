"""LIF: leaky integrate-and-fire units."""

from ._spiking import SpikingLayer, State


class LIF(SpikingLayer):
    """Leaky integrate-and-fire units with a surrogate gradient (Neftci et al., 2019).

    With potential v, threshold theta, and the exact leak of :class:`LeakyIntegrator`, a unit
    charges, fires and is reset within one step::

        decay = exp(-dt / tau)
        v = decay * v + (1 - decay) * x
        z = 1 if v >= theta else 0
        v' = v - theta * z           soft reset
        v' = v * (1 - z)             hard reset

    So an input that stays above theta makes a unit fire again and again. For ``refractory_steps``
    steps after a spike a unit holds its potential, whatever its input, and does not fire.

    The output is z, (B, size). The carry is ``{"v": v', (B, size)}`` and, with refractoriness,
    ``"refractory": (B, size) int32, steps left``; at the start of an episode both are 0. Metrics:
    firing_rate (B,), the share of units that fire in the step: divide it by dt for spikes per unit
    and time.

    The gradient of a spike is that of a :class:`Surrogate`. It does not pass through the z of the
    reset, unless asked to (Zenke and Vogels, 2021). ``unroll`` computes the input's part for the
    whole sequence at once and scans over the rest.

    Args:
      size: number of units.
      rngs: the source of drawn time constants.
      time_constant: tau, in the unit of ``dt``: a number, one for each unit (size,), or an
        initializer ``f(key, shape, dtype)`` that draws them.
      learnable: whether tau is trained, for each unit its own. The parameter is the logit of the
        decay, so that tau stays positive (as in Fang et al., 2021).
      dt: duration of a step.
      threshold: theta, in the unit of the potential.
      reset: "soft", which subtracts the threshold, or "hard", which sets the potential to 0.
      detach_reset: whether the gradient leaves out the spike in the reset.
      refractory_steps: for how many steps after a spike a unit does not fire.
      surrogate: the gradient of a spike, or its name.

    Attributes:
      decay: holds the parameter ``decay.logit``.

    Raises:
      TypeError: if an argument is of another kind; on call, if the input is no array.
      ValueError: if a number is not positive, a time constant longer than 2**23 steps, there is
        another number of them than units, or an option has no such value; on call, if the input has
        another number of features.

    References:
      Neftci et al., Surrogate gradient learning in spiking neural networks, 2019.
      Zenke and Vogels, The remarkable robustness of surrogate gradient learning for instilling
      complex function in spiking neural networks, 2021.
      Fang et al., Incorporating learnable membrane time constant to enhance learning of spiking
      neural networks, 2021.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> layer = LIF(1, nnx.Rngs(0), time_constant=4.0)
      >>> out = layer.unroll(layer.initialize_state(1), jnp.full((9, 1, 1), 2.0))
      >>> out.output.ravel().astype(int).tolist()
      [0, 0, 1, 0, 0, 1, 0, 0, 1]
    """

    def threshold_of(self, state: State) -> float:
        del state
        return self.threshold
