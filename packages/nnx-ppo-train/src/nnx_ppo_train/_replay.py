"""The replay of a rollout: through the whole of it, or with gradients cut on the way."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool
from nnx_stateful import PyTree, StatefulModule, StatefulModuleOutput, rebuild

from ._types import Transition


def replay(
    networks: StatefulModule,
    network_state: PyTree,
    rollout: Transition,
    bptt_length: int | None = None,
    burn_in: int = 0,
) -> StatefulModuleOutput:
    """Runs the network over a rollout again, with its resets and its rollout_extras.

    Args:
      networks: the network.
      network_state: carry state before the rollout's first step, leaves (B, ...).
      rollout: the rollout, leaves (T, B, ...).
      bptt_length: steps after which gradients through the carry state are cut; the carry itself
        goes on. None never cuts. Divides T - ``burn_in``.
      burn_in: steps at the beginning through which no gradient flows at all.

    Returns:
      The output with fields stacked in time: output leaves (T, B, ...), regularization_loss (T, B).
    """
    inputs = (rollout.obs, rollout.done, rollout.rollout_extras)
    steps = rollout.done.shape[0]
    if bptt_length in (None, steps - burn_in) and not burn_in:
        return _run(networks, network_state, inputs)
    parts = []
    if burn_in:
        burnt = _run(networks, network_state, jax.tree.map(lambda x: x[:burn_in], inputs))
        parts.append(jax.lax.stop_gradient(burnt))
        network_state = burnt.next_state
        inputs = jax.tree.map(lambda x: x[burn_in:], inputs)
    parts.append(_run_segments(networks, network_state, inputs, bptt_length or steps - burn_in))
    stacked = [part.replace(next_state=None) for part in parts]
    joined = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *stacked)
    return joined.replace(next_state=parts[-1].next_state)


def _run(networks: StatefulModule, state: PyTree, inputs: PyTree) -> StatefulModuleOutput:
    obs, done, extras = inputs
    out = networks.unroll(state, obs, done, extras)
    return out.replace(regularization_loss=_per_row(out.regularization_loss, done))


def _run_segments(
    networks: StatefulModule, state: PyTree, inputs: PyTree, length: int
) -> StatefulModuleOutput:
    """Replays segments one after the other; gradients stop where one begins."""
    graphdef, streams, rest = nnx.split(networks, nnx.RngState, ...)

    def segment(carry: PyTree, inputs: PyTree) -> tuple[PyTree, StatefulModuleOutput]:
        streams, state = carry
        local = rebuild(graphdef, streams, rest)
        out = _run(local, jax.lax.stop_gradient(state), inputs)
        return (nnx.state(local, nnx.RngState), out.next_state), out.replace(next_state=None)

    cut = jax.tree.map(lambda leaf: leaf.reshape((-1, length, *leaf.shape[1:])), inputs)
    (streams, state), out = jax.lax.scan(segment, (streams, state), cut)
    if jax.tree.leaves(streams):
        nnx.update(networks, streams)
    whole = jax.tree.map(lambda leaf: leaf.reshape((-1, *leaf.shape[2:])), out)
    return whole.replace(next_state=state)


def _per_row(loss: Any, done: Bool[Array, "T B"]) -> Array:
    """A regularization loss, (), (T,) or (T, B), as (T, B)."""
    loss = jnp.asarray(loss)
    return jnp.broadcast_to(loss.reshape(loss.shape + (1,) * (2 - loss.ndim)), done.shape)
