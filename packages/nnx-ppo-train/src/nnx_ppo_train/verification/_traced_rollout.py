"""The rollout that is to be proved: run, traced, and held against what was stored of it."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from nnx_stateful import (
    PyTree,
    StatefulModule,
    has_carry,
    initial_state,
    rebuild,
    rekey_noise,
    reset_rows,
)

from .._env_batch import EnvBatch
from .._rollout import RolloutOptions, unroll_env
from .._types import Transition
from ._arrays import Deviations, key_kinds, leaf_deviations, without_keys
from ._probe import StepTrace, own_extras, trace_of, traced

MOST_ROLLOUTS = 10
"""Rollouts that are run, at most, until one has the ends that the proof wants."""

UnrollFn = Callable[..., tuple[PyTree, Any, Transition]]
"""A rollout function with the arguments and results of :func:`unroll_env`."""


@dataclasses.dataclass(frozen=True)
class RolloutSetup:
    """What a rollout is like.

    Attributes:
      n_envs: environments B.
      length: steps T.
      seed: of initial states, noise and resets.
      cast: applied to what the network observes.
    """

    n_envs: int
    length: int
    seed: int
    cast: Callable[[PyTree], PyTree]


@dataclasses.dataclass(frozen=True)
class RolledOut:
    """A rollout and what really happened in it; arrays on the host, keys as bits.

    Attributes:
      start: the carry state that the rollout function was given, leaves (B, ...).
      trace: what the network saw and did, leaves (T, B, ...).
      fresh: the carry after each step if every row was reset, leaves (T, B, ...).
      stored: the rollout as it was returned; its extras are the network's own.
      returned: the carry state that was returned, leaves (B, ...).
      variables: the network's variables after the rollout (on the device).
      changed: paths of variables that the rollout changed, RNG streams excepted.
      advanced: paths of RNG streams that it advanced.
      kinds: key implementations of (carry state, observations, extras).
    """

    start: PyTree
    trace: StepTrace
    fresh: PyTree
    stored: Transition
    returned: PyTree
    variables: Any
    changed: tuple[str, ...]
    advanced: tuple[str, ...]
    kinds: PyTree

    @property
    def steps(self) -> int:
        """T."""
        return self.stored.done.shape[0]

    def state_before(self, step: int) -> PyTree:
        """The carry state with which the network began a step, leaves (B, ...)."""
        return jax.tree.map(lambda leaf: leaf[step], self.trace.state)

    @property
    def states_after(self) -> PyTree:
        """The carry after each step and its resets, leaves (T, B, ...)."""
        return self.reset_by(self.stored.done)

    def reset_by(self, done: Any) -> PyTree:
        """The carry after each step with the rows of ``done`` (T, B) reset."""

        def pick(fresh: np.ndarray, kept: np.ndarray) -> np.ndarray:
            return np.where(done.reshape(done.shape + (1,) * (kept.ndim - 2)), fresh, kept)

        return jax.tree.map(pick, self.fresh, self.trace.next_state)


def roll_out(
    env: Any, networks: StatefulModule, setup: RolloutSetup, unroll_fn: UnrollFn
) -> RolledOut:
    """Runs the rollout function on a traced copy, again and again, each time from where it got to.

    So the rollout that is returned begins in the middle of episodes, as in training. It is the
    first but one in which episodes end inside and at the last step, terminated and truncated;
    or, where the environments or the rollout function do not let it come to that, some later one.
    """
    if unroll_fn is unroll_env:  # what is not finite is to be found, not to be replaced
        unroll_fn = functools.partial(unroll_env, options=RolloutOptions(nonfinite="ignore"))
    network = traced(networks, setup.cast)
    graphdef, before = nnx.split(network)
    kinds: list[PyTree] = []

    @jax.jit
    def begin(variables: Any, noise_key: Any, env_key: Any) -> tuple[PyTree, Any]:
        state = rekey_noise(initial_state(rebuild(graphdef, variables), setup.n_envs), noise_key)
        return state, EnvBatch(env, setup.n_envs).reset(env_key)

    @jax.jit
    def run(variables: Any, state: PyTree, env_state: Any, key: Any) -> Any:
        net = rebuild(graphdef, variables)
        returned, env_state, rollout = unroll_fn(env, env_state, net, state, setup.length, key)
        trace = trace_of(rollout.rollout_extras)
        kinds.append(key_kinds((state, trace.obs, own_extras(trace))))
        seen = (state, trace, _fresh(net, trace), _stored(rollout, setup.cast), returned)
        return (returned, env_state), without_keys(seen), nnx.state(net)

    noise_key, env_key, run_key = jax.random.split(jax.random.key(setup.seed), 3)
    keys = jax.random.split(run_key, MOST_ROLLOUTS)
    after, _, variables = run(before, *begin(before, noise_key, env_key), keys[0])
    for key in keys[1:]:
        earlier = variables
        after, seen, variables = run(earlier, *after, key)
        start, trace, fresh, stored, returned = jax.device_get(seen)
        if ends_everywhere(stored.done, stored.truncated):
            break
    changed, advanced = _changed(earlier, variables)
    return RolledOut(start, trace, fresh, stored, returned, variables, changed, advanced, kinds[-1])


def _stored(rollout: Transition, cast: Callable[[PyTree], PyTree]) -> Transition:
    return dataclasses.replace(
        rollout,
        obs=cast(rollout.obs),
        done=rollout.done.astype(bool),
        truncated=rollout.truncated.astype(bool),
        metrics={},
        rollout_extras=None,
    )


def _fresh(network: StatefulModule, trace: StepTrace) -> PyTree:
    """The carry after each step with every row reset, leaves (T, B, ...)."""
    if not has_carry(trace.next_state):
        return trace.next_state
    rows = jnp.ones(jax.tree.leaves(trace.next_state)[0].shape[1], bool)
    return jax.vmap(lambda state: reset_rows(network, state, rows))(trace.next_state)


def ends_everywhere(done: Any, truncated: Any) -> bool:
    """Whether rows (T, B) end inside and at the last step, and there are both kinds of ends."""
    ends = (done[:-1], done[-1], done & ~truncated, truncated)
    return all(bool(end.any()) for end in ends)


def rollout_deviations(rolled: RolledOut) -> Deviations:
    """Compares what was stored and returned with what the network saw and did.

    ``carry`` at step t compares the carry state with which the network began the step with the
    one that was given (t = 0), or that the step before left, reset where its ``done`` is set.
    ``returned`` does so with the carry state that was returned, at the last step.
    """
    found: Deviations = {}
    after = rolled.states_after
    expected = jax.tree.map(
        lambda first, later: np.concatenate([first[None], later[:-1]]), rolled.start, after
    )
    found |= leaf_deviations("carry", "", expected, rolled.trace.state)
    found |= leaf_deviations("obs", "", rolled.trace.obs, rolled.stored.obs)
    stored, given = rolled.stored.network_output, rolled.trace.output
    for kind, field in OUTPUT_FIELDS.items():
        found |= leaf_deviations(kind, "", getattr(given, field), getattr(stored, field))
    last = leaf_deviations(
        "returned",
        "",
        jax.tree.map(lambda leaf: leaf[-1:], after),
        jax.tree.map(lambda leaf: leaf[None], rolled.returned),
    )
    found |= {name: pad(row, rolled.steps - 1, rolled.steps) for name, row in last.items()}
    return found


OUTPUT_FIELDS = {
    "log_likelihood": "loglikelihoods",
    "value": "value_estimates",
    "action": "actions",
}
"""Kind of quantity -> field of PPONetworkOutput."""


def pad(part: np.ndarray, begin: int, steps: int) -> np.ndarray:
    """Places (W, B) at step ``begin`` of zeros (``steps``, B)."""
    padded = np.zeros((steps, part.shape[1]))
    padded[begin : begin + part.shape[0]] = part
    return padded


def shift_of_done(rolled: RolledOut) -> int:
    """Returns by how many steps ``done`` was stored late (or, below 0, early); 0 if not shifted."""
    began = jax.tree.map(lambda leaf: leaf[2:-1], rolled.trace.state)
    for shift in (1, -1):
        done = np.roll(rolled.stored.done, -shift, axis=0)
        reset = jax.tree.map(lambda leaf: leaf[1:-2], rolled.reset_by(done))
        deviations = leaf_deviations("carry", "", reset, began)
        if all(not leaf.any() for leaf in deviations.values()):
            return shift
    return 0


def _changed(before: Any, after: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Paths of the variables that differ: (RNG streams excepted, RNG streams alone)."""
    found: dict[bool, list[str]] = {False: [], True: []}
    pairs = zip(nnx.to_flat_state(before), nnx.to_flat_state(after), strict=True)
    for (path, old), (_, new) in pairs:
        leaves = zip(
            jax.tree.leaves(without_keys(old)), jax.tree.leaves(without_keys(new)), strict=True
        )
        if not all(np.array_equal(a, b) for a, b in leaves):
            found[isinstance(old, nnx.RngState)].append("/".join(map(str, path)))
    return tuple(found[False]), tuple(found[True])
