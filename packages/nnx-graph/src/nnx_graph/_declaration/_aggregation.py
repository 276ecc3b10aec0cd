"""Aggregation: how what arrives at a population over several connections becomes one array."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float
from nnx_stateful import PyTree, StatefulModule, StatefulModuleOutput

from ._hints import shown
from ._numbers import whole_number
from ._spec import Named

REDUCTIONS: dict[str, Callable[..., Array]] = {"max": jnp.max, "mean": jnp.mean}
"""Aggregations without parameters, by name; called with the axis of the messages."""

MakeAggregation = Callable[..., StatefulModule]
"""Called as ``make(n_messages, size, rngs=rngs, **options)``; returns a new module.

It maps the messages (B, n_messages, size), in the order in which the connections into the
population were declared, to (B, size).
"""


def is_module(aggregate: Named | None) -> bool:
    """Whether an aggregation has a module, unlike the sum and other reductions."""
    return aggregate is not None and aggregate.name not in REDUCTIONS


_LARGEST = (1 << 31) - 1
"""Of an axis; what needs more memory than there is, JAX refuses itself."""


def _checked(owner: str, n_messages: Any, size: Any, rngs: Any) -> tuple[int, int]:
    """Returns the sizes of an aggregation as ints; raises if an argument is of another kind."""
    if not isinstance(rngs, nnx.Rngs):
        raise TypeError(
            f"{owner}: expected rngs of type nnx.Rngs, got {type(rngs).__name__}; pass nnx.Rngs(0)"
        )
    found = (
        whole_number(f"{owner}: n_messages", n_messages, 1, "it counts connections"),
        whole_number(f"{owner}: size", size, 1, "give the number of units"),
    )
    if max(found) > _LARGEST:
        raise ValueError(
            f"{owner}: expected n_messages and size of at most {_LARGEST}, got {shown(n_messages)} "
            f"and {shown(size)}; use fewer"
        )
    return found


class GatedSum(StatefulModule):
    """A sum of messages, each weighted by a gate of its own content.

    ``sum_i sigmoid(m_i @ kernel + bias_i) * m_i``, elementwise: the gates are those of gated graph
    networks (Bresson and Laurent 2017, "Residual Gated Graph ConvNets"), computed from the
    message alone. One kernel serves all messages, each has a bias.

    Args:
      n_messages: number of connections into the population.
      size: of the population.
      rngs: source of the initial weights.

    Attributes:
      kernel: (size, size).
      bias: (n_messages, size).

    Raises:
      TypeError: if an argument is of another kind.
      ValueError: if a number is below 1.

    Example:
      >>> gate = GatedSum(2, 3, rngs=nnx.Rngs(0))
      >>> gate((), jnp.ones((4, 2, 3))).output.shape
      (4, 3)
    """

    folds_time = True

    def __init__(self, n_messages: int, size: int, *, rngs: nnx.Rngs):
        n_messages, size = _checked("GatedSum", n_messages, size, rngs)
        kernel = nnx.initializers.lecun_normal()(rngs.params(), (size, size), jnp.float32)
        self.kernel = nnx.Param(kernel)
        self.bias = nnx.Param(jnp.zeros((n_messages, size), jnp.float32))

    def __call__(
        self,
        state: PyTree,
        x: Float[Array, "B n_messages size"],
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        del rollout_extras
        gates = jax.nn.sigmoid(x @ self.kernel[...] + self.bias[...])
        return StatefulModuleOutput(state, jnp.sum(gates * x, axis=-2), 0.0, {})


class AttentionPooling(StatefulModule):
    """A weighted mean of messages, by the attention that a learnt query pays to each.

    Per head h with d = size / heads numbers, ``sum_i softmax_i(q_h . k_i / sqrt(d)) v_i`` with keys
    k_i and values v_i that are linear in the message m_i: the pooling by attention of Lee et al.
    2019, "Set Transformer", with one query for each head. It does not depend on the order of the
    messages.

    Args:
      n_messages: number of connections into the population; not used.
      size: of the population.
      rngs: source of the initial weights.
      heads: number of heads, a divisor of the size.

    Attributes:
      query: (heads, size / heads).
      key: (size, heads, size / heads).
      value: (size, heads, size / heads).

    Raises:
      TypeError: if an argument is of another kind.
      ValueError: if a number is below 1, or the heads do not divide the size.

    Example:
      >>> pool = AttentionPooling(5, 4, rngs=nnx.Rngs(0), heads=2)
      >>> pool((), jnp.ones((3, 5, 4))).output.shape
      (3, 4)
    """

    folds_time = True

    def __init__(self, n_messages: int, size: int, *, rngs: nnx.Rngs, heads: int = 1):
        _, size = _checked("AttentionPooling", n_messages, size, rngs)
        if isinstance(heads, bool) or not isinstance(heads, int) or heads < 1 or size % heads:
            raise ValueError(
                f"AttentionPooling: heads: expected a divisor of the size {size}, got "
                f"{shown(heads)}; for example 1"
            )
        width = size // heads
        normal = nnx.initializers.normal(1.0)
        project = nnx.initializers.normal(size**-0.5)
        shape = (size, heads, width)
        self.query = nnx.Param(normal(rngs.params(), (heads, width), jnp.float32))
        self.key = nnx.Param(project(rngs.params(), shape, jnp.float32))
        self.value = nnx.Param(project(rngs.params(), shape, jnp.float32))

    def __call__(
        self,
        state: PyTree,
        x: Float[Array, "B n_messages size"],
        rollout_extras: PyTree = None,
    ) -> StatefulModuleOutput:
        del rollout_extras
        query = self.query[...]
        attended = jnp.einsum("shw,hw->sh", self.key[...], query) / math.sqrt(query.shape[-1])
        weights = jax.nn.softmax(jnp.einsum("bms,sh->bmh", x, attended), axis=1)
        pooled = jnp.einsum("bmh,bms->bhs", weights, x)
        output = jnp.einsum("bhs,shw->bhw", pooled, self.value[...])
        return StatefulModuleOutput(state, output.reshape((x.shape[0], -1)), 0.0, {})
