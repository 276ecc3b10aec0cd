"""Collecting experience: the network and the environments in one scan."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Key
from nnx_stateful import (
    PyTree,
    StatefulModule,
    check_same_state,
    initial_state,
    rebuild,
    reset_rows,
)

from ._actions import for_environment
from ._any_row import any_row
from ._arguments import check_key, check_network, explained, refused
from ._boundary import check_boundary
from ._env_batch import EnvBatch, EnvResets, ended
from ._finiteness import StepCheck
from ._pairing import match_rewards
from ._stored_once import StoredOnce
from ._types import Transition
from ._validate import check_instance, check_whole_number, one_of, shown


@dataclasses.dataclass(frozen=True)
class RolloutOptions:
    """How a rollout treats the ends of episodes; the fields are those of PPOConfig.

    Attributes:
      truncation: "bootstrap" stores the value of the true last observation, "mask" does not.
      env_resets: "pool" or "fresh".
      nonfinite: "skip" and "raise" check every step for values that are not finite and replace
        them, "ignore" does not. "raise" also reports them by leaf, as
        ``metrics["nonfinite"]["leaves"]``.
    """

    truncation: Literal["bootstrap", "mask"] = "bootstrap"
    env_resets: Literal["pool", "fresh"] = "pool"
    nonfinite: Literal["skip", "raise", "ignore"] = "skip"

    def __post_init__(self) -> None:
        one_of(self, "truncation", ("bootstrap", "mask"))
        one_of(self, "env_resets", ("pool", "fresh"))
        one_of(self, "nonfinite", ("skip", "raise", "ignore"))


def unroll_env(
    env: Any,
    env_state: Any,
    networks: StatefulModule,
    network_state: PyTree,
    unroll_length: int,
    rng_key_for_env_reset: Key[Array, ""],
    options: RolloutOptions | None = None,
) -> tuple[PyTree, Any, Transition]:
    """Runs the network in the environments for a number of steps.

    Where an episode ends, the row's environment and carry state are reset after the step. Where
    it ends by a limit, or the rollout ends before it, the value of its true next observation,
    computed with the carry of that very step, is stored first.

    A step in which an observation, an output, the new carry or a reward is not finite ends its
    episode, without bootstrap, and is marked in ``Transition.nonfinite``; its values are stored as
    zeros, so that a replay of it stays finite.

    Args:
      env: the environment, not vectorised.
      env_state: environment states, leaves (B, ...).
      networks: the network; its output is a PPONetworkOutput.
      network_state: carry state, leaves (B, ...).
      unroll_length: T.
      rng_key_for_env_reset: key of the resets in this rollout; used for nothing else.
      options: treatment of truncations and resets.

    Returns:
      The carry state and environment states after the last step, and the rollout with leaves
      (T, B, ...).

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range, or the states are
        not those of the environment and the network.

    Example:
      >>> import jax
      >>> from flax import nnx
      >>> from nnx_ppo_train.envs import make_env
      >>> from nnx_ppo_train.presets import make_mlp_actor_critic
      >>> from nnx_stateful import initial_state
      >>> env = make_env("cartpole")
      >>> net = make_mlp_actor_critic(env.observation_size, env.action_size, nnx.Rngs(0))
      >>> states = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 3))
      >>> _, _, rollout = unroll_env(env, states, net, initial_state(net, 3), 5, jax.random.key(1))
      >>> rollout.rewards.shape
      (5, 3)
    """
    options = RolloutOptions() if options is None else options
    check_instance(options, "unroll_env: options", RolloutOptions, "RolloutOptions()")
    check_whole_number(unroll_length, "unroll_env: unroll_length", 1)
    check_key(rng_key_for_env_reset, "unroll_env")
    check_network(networks, "unroll_env")
    n_envs = _n_envs(env_state)
    with explained(lambda: _check_states(env, env_state, networks, network_state)):
        return _unrolled(
            EnvBatch(env, n_envs),
            env_state,
            networks,
            network_state,
            unroll_length,
            rng_key_for_env_reset,
            options,
        )


def _unrolled(
    batch: EnvBatch,
    env_state: Any,
    networks: StatefulModule,
    network_state: PyTree,
    unroll_length: int,
    key: Key[Array, ""],
    options: RolloutOptions,
) -> tuple[PyTree, Any, Transition]:
    """As :func:`unroll_env`, of arguments that were checked."""
    env = batch.env
    resets = EnvResets(batch, options.env_resets)
    graphdef, streams, rest = nnx.split(networks, nnx.RngState, ...)

    check = StepCheck(batch.n_envs, options.nonfinite)

    def step(carry: PyTree, is_last: Array) -> tuple[PyTree, Transition]:
        streams, network_state, env_state, pool = carry
        network = rebuild(graphdef, streams, rest)
        obs = check.observation(env_state.obs)
        out = network(network_state, obs)
        found = check.network(network, env_state.obs, out)
        actions = check.replaced(out.output.actions)
        stepped = batch.step(env_state, for_environment(env, env_state, actions))
        next_obs = check.observation(stepped.obs)
        found = check.environment(found, stepped)
        ended_itself, truncated = ended(stepped)
        streams = nnx.state(network, nnx.RngState)
        cut = is_last & ~ended_itself
        if truncated is not None and options.truncation == "bootstrap":
            cut = cut | truncated
        value = _value_of(lambda: rebuild(graphdef, streams, rest), stepped.reward)
        bootstrap = _where_any(
            check.unless_found(cut, found), value, stepped.reward, out.next_state, next_obs
        )
        found = check.bootstrap(found, bootstrap)
        done = check.or_found(ended_itself, found)
        truncated = jnp.zeros_like(done) if truncated is None else truncated
        transition = Transition(
            obs=obs,
            network_output=out.output,
            rewards=stepped.reward,
            done=done,
            truncated=truncated,
            bootstrap_value=bootstrap,
            metrics={"env": stepped.metrics, "net": out.metrics},
            rollout_extras=StoredOnce.of(out.rollout_extras, obs),
        )
        transition = check.cleaned(transition, found)
        pool, env_state = resets(pool, stepped, done)
        network_state = reset_rows(network, out.next_state, done, check.resettable(out, found))
        return (streams, network_state, env_state, pool), transition

    start = (streams, network_state, env_state, resets.start(env_state, key))
    (streams, network_state, env_state, _), rollout = jax.lax.scan(
        step, start, jnp.arange(unroll_length) == unroll_length - 1
    )
    if jax.tree.leaves(streams):
        nnx.update(networks, streams)
    rollout = check.finished(rollout)
    extras = rollout.rollout_extras.joined(rollout.obs)
    return network_state, env_state, dataclasses.replace(rollout, rollout_extras=extras)


def _check_states(
    env: Any, env_state: Any, networks: StatefulModule, network_state: PyTree
) -> None:
    """Raises unless network and environment fit together and the states are of their kinds."""
    n_envs = _n_envs(env_state)
    check_boundary(env, networks, n_envs, combine_advantages=True)
    with refused("unroll_env: env_state", "states of the environment", env_state, ValueError):
        fresh = jax.eval_shape(EnvBatch(env, n_envs).reset, jax.random.key(0))
        hint = "make states with jax.vmap(env.reset)(keys)"
        check_same_state(fresh, env_state, "unroll_env: env_state", hint)
    with refused("unroll_env: network_state", "a carry state", network_state, ValueError):
        begun = jax.eval_shape(lambda: initial_state(networks, n_envs))
        hint = "begin with initial_state(networks, B)"
        check_same_state(begun, network_state, "unroll_env: network_state", hint)


def _n_envs(env_state: Any) -> int:
    """The number of environments, B."""
    shape = getattr(getattr(env_state, "done", None), "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 1 or not shape[0]:
        raise ValueError(
            "unroll_env: env_state: expected states of several environments, with a `done` of "
            f"shape (B,), got {shown(env_state)}; make them with jax.vmap(env.reset)(keys)"
        )
    return shape[0]


def _value_of(
    network: Callable[[], StatefulModule], rewards: PyTree
) -> Callable[[PyTree, PyTree], PyTree]:
    """Returns a function from (carry state, observation) to one value per reward."""

    def value(network_state: PyTree, obs: PyTree) -> PyTree:
        estimates = match_rewards(network()(network_state, obs).output.value_estimates, rewards)
        return jax.tree.map(lambda v, r: v.astype(_zero_values(r).dtype), estimates, rewards)

    return value


def _zero_values(reward: Array) -> Array:
    """Zeros in the shape of a reward; of floats also where rewards are ints or bools."""
    return jnp.zeros(reward.shape, jnp.result_type(reward.dtype, float))


def _where_any(
    mask: Bool[Array, "B"], value: Callable[..., PyTree], rewards: PyTree, *inputs: PyTree
) -> PyTree:
    """``value(*inputs)`` in the rows of ``mask``, computed if there are any; zero elsewhere."""
    zeros = jax.tree.map(_zero_values, rewards)

    def computed(*inputs: PyTree) -> PyTree:
        return jax.tree.map(lambda v, o: jnp.where(mask, v, o), value(*inputs), zeros)

    return jax.lax.cond(any_row(mask), computed, lambda *_: zeros, *inputs)
