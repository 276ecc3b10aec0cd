"""The time loop: how a module that only knows one step runs a sequence."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from ._guards import watch_copies
from ._output import PyTree, StatefulModuleOutput, Steps
from ._state import check_same_state, reset_rows


def has_carry(state: PyTree) -> bool:
    """Whether a carry state holds any array."""
    return bool(jax.tree.leaves(state))


def has_rng_streams(module: nnx.Module) -> bool:
    """Whether calls of ``module`` may advance an RNG stream, so that their order matters."""
    return any(isinstance(node, nnx.RngState) for _, node in nnx.iter_graph(module))


def scan_unroll(
    module: Steps,
    state: PyTree,
    xs: PyTree,
    done: Any,
    rollout_extras: PyTree,
    length: int | None = None,
) -> StatefulModuleOutput:
    """Steps through time with one ``lax.scan``; RNG streams are carried and written back.

    ``length`` is T, and needed only where no other argument has a time axis.
    """
    graphdef, streams, rest = nnx.split(module, nnx.RngState, ...)
    where = f"{type(module).__name__}.__call__"

    def step(carry: PyTree, inputs: PyTree) -> tuple[PyTree, StatefulModuleOutput]:
        streams, state = carry
        x, ended, extras = inputs
        local = rebuild(graphdef, streams, rest)
        with watch_copies():
            out = local(state, x, extras)
        check_same_state(state, out.next_state, where, _STEP_HINT)
        next_state = out.next_state
        if ended is not None:
            next_state = reset_rows(local, next_state, ended)
        return (nnx.state(local, nnx.RngState), next_state), out.replace(next_state=None)

    if length is None or jax.tree.leaves((xs, done, rollout_extras)):
        length = sequence_length(module, xs, done, rollout_extras)
    (streams, state), stacked = jax.lax.scan(
        step, (streams, state), (xs, done, rollout_extras), length=length
    )
    if jax.tree.leaves(streams):
        nnx.update(module, streams)
    return stacked.replace(next_state=state)


def vmap_unroll(
    module: Steps, state: PyTree, xs: PyTree, done: Any, rollout_extras: PyTree
) -> StatefulModuleOutput:
    """Runs all steps of a module without carry at once; each step sees just its own batch."""
    if not jax.tree.leaves((xs, rollout_extras)):
        return scan_unroll(module, state, xs, done, rollout_extras)
    sequence_length(module, xs, done, rollout_extras)
    graphdef, variables = nnx.split(module)

    def step(x: PyTree, extras: PyTree) -> StatefulModuleOutput:
        with watch_copies():
            return rebuild(graphdef, variables)(state, x, extras)

    return jax.vmap(step)(xs, rollout_extras).replace(next_state=state)


def fold_unroll(
    module: Steps, state: PyTree, xs: PyTree, done: Any, rollout_extras: PyTree
) -> StatefulModuleOutput:
    """Runs all steps of a row-wise module without carry as one batch of T * B rows."""
    if not jax.tree.leaves((xs, rollout_extras)):
        return scan_unroll(module, state, xs, done, rollout_extras)
    steps = sequence_length(module, xs, done, rollout_extras)
    rows = jax.tree.leaves((xs, rollout_extras))[0].shape[1]

    def unfold(leaf: Any) -> Any:
        leaf = jnp.asarray(leaf)
        if leaf.ndim == 0:
            return jnp.broadcast_to(leaf, (steps,))
        return leaf.reshape((steps, rows, *leaf.shape[1:]))

    flat_xs, flat_extras = jax.tree.map(
        lambda leaf: leaf.reshape((steps * rows, *leaf.shape[2:])), (xs, rollout_extras)
    )
    out = module(state, flat_xs, flat_extras)
    return jax.tree.map(unfold, out.replace(next_state=None)).replace(next_state=state)


def rebuild(graphdef: Any, *variables: PyTree) -> Any:
    """Merges a module whose variables belong to the current trace level, so that a write is seen.

    NNX refuses, without naming the module, to write a variable of an outer level.
    """
    return nnx.merge(graphdef, *jax.tree.map(lambda leaf: leaf, variables))


def sequence_length(module: Any, xs: PyTree, done: Any, rollout_extras: PyTree) -> int:
    """Returns T, read off the first leaf that has a time axis.

    Raises:
      ValueError: if nothing has a time axis, the time axes differ, or ``done`` is not (T, B) for
        the B of the inputs.
    """
    lengths = {leaf.shape[0] for leaf in jax.tree.leaves((xs, done, rollout_extras))}
    if len(lengths) != 1:
        found = f"lengths {sorted(lengths)}" if lengths else "no array at all"
        raise ValueError(
            f"{type(module).__name__}.unroll: expected xs, done and rollout_extras to share one "
            f"time axis T as their first axis, got {found}; pass done of shape (T, B) where the "
            "module has no input"
        )
    length = lengths.pop()
    if done is not None:
        rows = {leaf.shape[1] for leaf in jax.tree.leaves(xs) if len(leaf.shape) > 1}
        if len(done.shape) != 2 or (rows and rows != {done.shape[1]}):
            batch = ", ".join(map(str, sorted(rows))) or "B"
            raise ValueError(
                f"{type(module).__name__}.unroll: expected done of shape ({length}, {batch}), the "
                f"(T, B) of xs, got {tuple(done.shape)}; pass one entry per step and row"
            )
    return length


_STEP_HINT = (
    "next_state must have the tree, shapes and dtypes of the state that went in; "
    "initialize_state decides them"
)
