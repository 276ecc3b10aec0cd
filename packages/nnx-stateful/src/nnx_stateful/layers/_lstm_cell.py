"""The step of an LSTM and its derivative."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ._gated_sequence import GatedCell, Rows, with_slope


class LSTMCell(GatedCell):
    """The step of :class:`LSTM`, with the carry (c, h).

    With s and t the nonlinearities of the gates and of the activations, s' and t' their
    derivatives, and d the gradients, (dc, dh) on the right those of the next carry (c', h')::

        i, f, g, o = a + b
        c' = s(f) * c + s(i) * t(g)
        h' = s(o) * t(c')

        e  = dc + dh * [s(o) * t'(c')]          all that reaches c'
        di = e * [s'(i) * t(g)]
        df = e * [s'(f) * c]
        dg = e * [s(i) * t'(g)]
        do = dh * [s'(o) * t(c')]
        dc = e * [s(f)]

    The slopes are the factors in brackets.
    """

    def advance(
        self, carry: Rows, a: Float[Array, "B gates"], b: Float[Array, "B gates"]
    ) -> tuple[Rows, Float[Array, "B gates"], Rows]:
        c, _ = carry
        i, f, g, o = jnp.split(a + b, 4, axis=-1)
        i, i_slope = with_slope(self.gate_fn, i)
        f, f_slope = with_slope(self.gate_fn, f)
        g, g_slope = with_slope(self.activation_fn, g)
        o, o_slope = with_slope(self.gate_fn, o)
        new_c = f * c + i * g
        shown, shown_slope = with_slope(self.activation_fn, new_c)
        slopes = [i_slope * g, f_slope * c, i * g_slope, o_slope * shown]
        return (new_c, o * shown), jnp.concatenate(slopes, axis=-1), (f, o * shown_slope)

    def pull_back(
        self, grads: Rows, slopes: Float[Array, "B gates"], others: Rows
    ) -> tuple[Float[Array, "B gates"], Rows, Rows]:
        (c, h), (forget, shown_slope) = grads, others
        c = c + h * shown_slope
        gates = jnp.concatenate([c, c, c, h], axis=-1) * slopes
        return gates, (c * forget, jnp.zeros_like(h)), ()
