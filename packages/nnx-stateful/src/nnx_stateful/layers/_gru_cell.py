"""The step of a GRU and its derivative."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ._gated_sequence import GatedCell, Rows, with_slope


class GRUCell(GatedCell):
    """The step of :class:`GRU`, with the carry (h,).

    With s and t the nonlinearities of the gates and of the activation, s' and t' their
    derivatives, and d the gradients, dh on the right that of the next h'::

        r, z = s(a_r + b_r), s(a_z + b_z)
        m = a_n + r * b_n
        h' = (1 - z) * t(m) + z * h

        dm = dh * [(1 - z) * t'(m)]             the gradient of a_n
        dr = dh * [(1 - z) * t'(m) * b_n * s'(a_r + b_r)]
        dz = dh * [(h - t(m)) * s'(a_z + b_z)]
        dn = dh * [(1 - z) * t'(m) * r]         the gradient of b_n
        dh = dh * [z]

    The slopes are the factors in brackets, dr and dz the gradients of these parts of both a and b.
    """

    def advance(
        self, carry: Rows, a: Float[Array, "B gates"], b: Float[Array, "B gates"]
    ) -> tuple[Rows, Float[Array, "B gates"], Rows]:
        (h,) = carry
        both = 2 * h.shape[-1]  # one call for r and z: XLA would merge r alone into n, and crawl
        gates, gate_slopes = with_slope(self.gate_fn, a[..., :both] + b[..., :both])
        (r, z), (r_slope, z_slope) = (jnp.split(x, 2, axis=-1) for x in (gates, gate_slopes))
        bn = b[..., both:]
        n, n_slope = with_slope(self.activation_fn, a[..., both:] + r * bn)
        m_slope = (1 - z) * n_slope
        slopes = [m_slope * bn * r_slope, (h - n) * z_slope, m_slope * r]
        return ((1 - z) * n + z * h,), jnp.concatenate(slopes, axis=-1), (z, m_slope)

    def pull_back(
        self, grads: Rows, slopes: Float[Array, "B gates"], others: Rows
    ) -> tuple[Float[Array, "B gates"], Rows, Rows]:
        (h,), (z, m_slope) = grads, others
        return jnp.concatenate([h, h, h], axis=-1) * slopes, (h * z,), (h * m_slope,)

    def projected_grads(
        self, grads: Float[Array, "T B gates"], kept: tuple[Float[Array, "T B H"], ...]
    ) -> Float[Array, "T B gates"]:
        (m,) = kept
        return jnp.concatenate([grads[..., : 2 * m.shape[-1]], m], axis=-1)
