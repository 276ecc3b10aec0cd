"""Whole episodes, for measuring."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key
from nnx_stateful import (
    PyTree,
    RowVariable,
    StatefulModule,
    initial_state,
    rebuild,
    rekey_noise,
    select_rows,
)

from ._actions import for_environment
from ._any_row import any_row
from ._config import EvalConfig
from ._env_batch import EnvBatch, ended
from ._logging_level import LoggingLevel
from ._metrics import distribution, flatten_metrics


def deterministic(networks: StatefulModule) -> StatefulModule:
    """Returns a copy of the network whose stochastic layers act by their mode or mean.

    The copy reads the same arrays; the network itself stays as it is, its RNG streams included.
    ``nnx.view`` would not do: it passes over modules that have ``deterministic`` but lack
    ``set_view``, such as samplers of one's own.
    """
    copy = nnx.merge(*nnx.split(networks))
    copy.eval()
    return copy


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Episodes:
    """Episodes under way.

    Attributes:
      env: environment states, leaves (B, ...).
      network: carry state, leaves (B, ...).
      streams: RNG streams of the network.
      step: () steps so far.
      over: (B,) the episode has ended.
      returns: tree of (B,) rewards summed up to the end.
      lengths: (B,) steps up to the end.
      sums: tree of (B, ...) metrics summed up to the end.
    """

    env: Any
    network: PyTree
    streams: PyTree
    step: Int[Array, ""]
    over: Bool[Array, " B"]
    returns: PyTree
    lengths: Int[Array, " B"]
    sums: PyTree


def eval_rollout(
    env: Any,
    networks: StatefulModule,
    n_envs: int,
    max_episode_length: int,
    key: Key[Array, ""],
    logging_percentiles: tuple[int, ...] | None = None,
    logging_level: LoggingLevel = LoggingLevel.NONE,
    *,
    stochastic: bool = False,
) -> dict[str, Float[Array, ""]]:
    """Runs one episode per environment and reports returns and lengths up to its first end.

    Args:
      env: the environment, not vectorised.
      networks: the network; evaluated through a deterministic copy.
      n_envs: episodes B.
      max_episode_length: steps after which episodes are cut.
      key: key of initial states and of noise that has no deterministic form.
      logging_percentiles: percentiles to report besides mean and standard deviation.
      logging_level: ENV_METRICS and NETWORK_METRICS add averages over the episodes.
      stochastic: whether stochastic layers draw, as in training, instead.

    Returns:
      Scalars under ``eval/``: ``eval/episode_reward/mean`` and so on (the return, summed over
      reward keys; per key below it where there are several), ``eval/lifespan/mean`` (steps).
    """
    acting = networks if stochastic else deterministic(networks)
    final = _run(env, acting, n_envs, max_episode_length, key, logging_level)
    total = sum(jax.tree.leaves(final.returns), jnp.zeros(n_envs))
    metrics = distribution("eval/episode_reward", total, logging_percentiles)
    if len(jax.tree.leaves(final.returns)) > 1:
        for name, value in flatten_metrics(final.returns, "eval/episode_reward").items():
            metrics |= distribution(name, value, logging_percentiles)
    metrics |= distribution("eval/lifespan", final.lengths.astype(float), logging_percentiles)
    for name, value in flatten_metrics(final.sums, "eval").items():
        steps = final.lengths.reshape((n_envs,) + (1,) * (value.ndim - 1))
        metrics[name] = jnp.mean(value / jnp.maximum(steps, 1))
    metrics["eval/deterministic"] = jnp.float32(not stochastic)
    return metrics


def _run(
    env: Any,
    networks: StatefulModule,
    n_envs: int,
    max_episode_length: int,
    key: Key[Array, ""],
    level: LoggingLevel,
) -> _Episodes:
    batch = EnvBatch(env, n_envs)
    graphdef, streams, rest = nnx.split(networks, nnx.RngState, ...)
    env_key, noise_key = jax.random.split(key)
    states = batch.reset(env_key)

    def step(episodes: _Episodes) -> _Episodes:
        network = rebuild(graphdef, episodes.streams, rest)
        out = network(episodes.network, episodes.env.obs)
        actions = for_environment(env, episodes.env, out.output.actions)
        stepped = batch.step(episodes.env, actions)
        going_on = ~episodes.over
        over = episodes.over | ended(stepped)[0]
        return _Episodes(
            env=batch.select(episodes.over, episodes.env, stepped),
            network=out.next_state,
            streams=nnx.state(network, nnx.RngState),
            step=episodes.step + 1,
            over=over,
            returns=_add(episodes.returns, stepped.reward, going_on),
            lengths=episodes.lengths + going_on,
            sums=_add(episodes.sums, _wanted(stepped.metrics, out.metrics, level), going_on),
        )

    network_state = rekey_noise(initial_state(networks, n_envs), noise_key)
    network_metrics = _per_row_metrics(networks, states.obs, n_envs)
    wanted = _wanted(states.metrics, network_metrics, level)
    start = _Episodes(
        env=states,
        network=network_state,
        streams=streams,
        step=jnp.int32(0),
        over=states.done.astype(bool),
        returns=jax.tree.map(lambda r: _zeros(r.shape, r.dtype), states.reward),
        lengths=jnp.zeros(n_envs, jnp.int32),
        sums=jax.tree.map(lambda s: _zeros(s.shape, s.dtype), wanted),
    )
    return jax.lax.while_loop(
        lambda e: (e.step < max_episode_length) & any_row(~e.over), step, start
    )


def _add(total: PyTree, increment: PyTree, mask: Bool[Array, " B"]) -> PyTree:
    """Adds per-row increments where the mask is set; the first end of an episode stops the sum."""

    def add(old: Array, new: Array) -> Array:
        return select_rows(mask, old + jnp.broadcast_to(new, old.shape).astype(old.dtype), old)

    return jax.tree.map(add, total, increment)


def _wanted(env_metrics: PyTree, network_metrics: PyTree, level: LoggingLevel) -> dict[str, PyTree]:
    wanted = {}
    if LoggingLevel.ENV_METRICS in level:
        wanted["env"] = env_metrics
    if LoggingLevel.NETWORK_METRICS in level:
        wanted["net"] = network_metrics
    return wanted


def _per_row_metrics(networks: StatefulModule, obs: PyTree, n_envs: int) -> PyTree:
    """Shapes of the network's metrics, with a row axis also where they have none.

    Metrics need not lead with the batch axis, and an axis of that size need not be it: whether a
    leaf has it shows when the batch has one row more; so has, then, what the network holds by row.
    """
    graphdef, by_row, rest = nnx.split(networks, RowVariable, ...)

    def metrics(by_row: PyTree, obs: PyTree, rows: int) -> PyTree:
        acting = rebuild(graphdef, by_row, rest)
        return acting(initial_state(acting, rows), obs).metrics

    def shapes(rows: int) -> PyTree:
        resized = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype), (by_row, obs)
        )
        return jax.eval_shape(partial(metrics, rows=rows), *resized)

    return jax.tree.map(
        lambda leaf, larger: (
            jax.ShapeDtypeStruct((n_envs, *leaf.shape), leaf.dtype)
            if leaf.shape == larger.shape
            else leaf
        ),
        shapes(n_envs),
        shapes(n_envs + 1),
    )


def _zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros to add up values of a dtype, which may be of ints or bools."""
    return jnp.zeros(shape, jnp.result_type(dtype, float))


def make_evaluate(env: Any, graphdef: Any, config: EvalConfig) -> Any:
    """Returns the ``evaluate(variables, key) -> metrics`` of a training loop, to be compiled.

    ``graphdef`` is that of the network as it acts: of a deterministic copy, or of itself.
    """

    def evaluate(variables: PyTree, key: Key[Array, ""]) -> dict[str, Array]:
        return eval_rollout(
            env,
            rebuild(graphdef, variables),
            config.n_envs,
            config.max_episode_length,
            key,
            config.logging_percentiles,
            config.logging_level,
            stochastic=not config.deterministic,
        )

    return evaluate
