"""Whole episodes, for measuring."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
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
from ._arguments import check_arrays, check_key, check_network, explained
from ._boundary import check_boundary
from ._config import EvalConfig
from ._env_batch import EnvBatch, ended
from ._finiteness import StepCheck
from ._logging_level import LoggingLevel
from ._metrics import distribution, flatten_metrics
from ._programs import run_kept
from ._validate import check_bool


def deterministic(networks: StatefulModule) -> StatefulModule:
    """Returns a copy of the network whose stochastic layers act by their mode or mean.

    The copy reads the same arrays; the network itself stays as it is, its RNG streams included.
    ``nnx.view`` would not do: it passes over modules that have ``deterministic`` but lack
    ``set_view``, such as samplers of one's own.
    """
    check_network(networks, "deterministic")
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
      truncated: (B,) it ended by a limit of the environment.
      broken: (B,) it ended with a value that is not finite.
      returns: tree of (B,) rewards summed up to the end.
      lengths: (B,) steps up to the end.
      sums: tree of (B, ...) metrics summed up to the end.
    """

    env: Any
    network: PyTree
    streams: PyTree
    step: Int[Array, ""]
    over: Bool[Array, " B"]
    truncated: Bool[Array, " B"]
    broken: Bool[Array, " B"]
    returns: PyTree
    lengths: Int[Array, " B"]
    sums: PyTree


@dataclasses.dataclass(frozen=True)
class _Options:
    """How to evaluate; the fields are those of :class:`EvalConfig`."""

    n_envs: int
    max_episode_length: int
    percentiles: tuple[int, ...] | None
    level: LoggingLevel
    group_by: str | None
    group_names: tuple[str, ...]
    deterministic: bool


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
    group_by: str | None = None,
    group_names: tuple[str, ...] = (),
) -> dict[str, Float[Array, ""]]:
    """Runs one episode per environment and reports returns and lengths up to its first end.

    It is compiled once for an environment, a structure of networks and a set of options. It stops
    when all episodes have ended. Episodes with a value that is not finite are left out of means,
    deviations and percentiles; if they are more than half, these are NaN.

    Args:
      env: the environment, not vectorised.
      networks: the network; evaluated through a deterministic copy.
      n_envs: episodes B.
      max_episode_length: steps after which episodes are cut.
      key: key of initial states and of noise that has no deterministic form.
      logging_percentiles: percentiles to report besides mean and standard deviation.
      logging_level: ENV_METRICS and NETWORK_METRICS add averages over the episodes.
      stochastic: whether stochastic layers draw, as in training, instead.
      group_by: key of the environment's ``info`` with the index of an episode's group, an int.
      group_names: names of the groups.

    Returns:
      Scalars under ``eval/``: ``eval/episode_reward/mean`` and so on (the return, summed over
      reward keys; per key below it where there are several), ``eval/lifespan/mean`` (steps),
      ``eval/nonfinite`` (share of episodes that were left out), ``eval/ends/REASON`` (shares of
      terminated, truncated, cut and nonfinite); for each group the first of them and ``episodes``
      under ``eval/GROUP/``.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range (these are named as
        in EvalConfig), or network and environment do not fit together.
      KeyError: if ``group_by`` is no entry of ``info``.
    """
    check_network(networks, "eval_rollout")
    check_key(key, "eval_rollout")
    check_bool(stochastic, "eval_rollout: stochastic")
    config = EvalConfig(
        n_envs=n_envs,
        max_episode_length=max_episode_length,
        logging_percentiles=logging_percentiles,
        logging_level=logging_level,
        group_by=group_by,
        group_names=group_names,
        deterministic=not stochastic,
    )
    acting = networks if stochastic else deterministic(networks)
    with explained(lambda: check_boundary(env, networks, n_envs, combine_advantages=True)):
        return run_kept(env, _make_evaluation, (_options_of(config),), *nnx.split(acting), key)


def _make_evaluation(env: Any, options: _Options) -> Callable[..., dict[str, Array]]:
    """Returns ``evaluate(graphdef, variables, key) -> metrics``."""

    def evaluate(graphdef: Any, variables: PyTree, key: Key[Array, ""]) -> dict[str, Array]:
        final, groups = _run(env, rebuild(graphdef, variables), options, key)
        return _metrics_of(final, groups, options)

    return evaluate


def _metrics_of(
    final: _Episodes, groups: Int[Array, " B"] | None, options: _Options
) -> dict[str, Array]:
    counted = ~final.broken
    metrics = _returns(final, counted, options, "eval")
    for name, value in flatten_metrics(final.sums, "eval").items():
        steps = final.lengths.reshape((-1,) + (1,) * (value.ndim - 1))
        per_step = value / jnp.maximum(steps, 1)
        kept = counted.reshape((-1,) + (1,) * (value.ndim - 1))
        metrics[name] = jnp.sum(jnp.where(kept, per_step, 0)) / jnp.maximum(
            counted.sum() * (value[0].size), 1
        )
    metrics["eval/nonfinite"] = final.broken.mean()
    whole = final.over & counted
    metrics["eval/ends/terminated"] = (whole & ~final.truncated).mean()
    metrics["eval/ends/truncated"] = (whole & final.truncated).mean()
    metrics["eval/ends/cut"] = (~final.over).mean()
    metrics["eval/ends/nonfinite"] = final.broken.mean()
    metrics["eval/deterministic"] = jnp.float32(options.deterministic)
    for index, name in enumerate(options.group_names if groups is not None else ()):
        members = counted & (groups == index)
        metrics |= _returns(final, members, options, f"eval/{name}", groups == index)
        metrics[f"eval/{name}/{_EPISODES}"] = (groups == index).sum()
    return metrics


_EPISODES = "episodes"


def _returns(
    final: _Episodes,
    counted: Bool[Array, " B"],
    options: _Options,
    prefix: str,
    asked: Bool[Array, " B"] | None = None,
) -> dict[str, Array]:
    """Distributions of returns and lengths; NaN where more than half of the episodes are broken."""
    total = sum(jax.tree.leaves(final.returns), jnp.zeros(options.n_envs))
    values = {f"{prefix}/episode_reward": total, f"{prefix}/lifespan": final.lengths.astype(float)}
    if len(jax.tree.leaves(final.returns)) > 1:
        values |= flatten_metrics(final.returns, f"{prefix}/episode_reward")
    n_asked = options.n_envs if asked is None else asked.sum()
    trusted = 2 * counted.sum() >= n_asked
    metrics: dict[str, Array] = {}
    for name, value in values.items():
        found = distribution(name, value, options.percentiles, counted)
        metrics |= {k: jnp.where(trusted, v, jnp.nan) for k, v in found.items()}
    return metrics


def without_empty_groups(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves out the metrics of groups that no episode belonged to."""
    empty = [
        name.removesuffix(_EPISODES)
        for name, value in metrics.items()
        if name.startswith("eval/") and name.endswith(f"/{_EPISODES}") and not np.any(value)
    ]
    return {k: v for k, v in metrics.items() if not any(k.startswith(name) for name in empty)}


def _run(
    env: Any, networks: StatefulModule, options: _Options, key: Key[Array, ""]
) -> tuple[_Episodes, Int[Array, " B"] | None]:
    """Runs the episodes; returns their end, and the group of each."""
    n_envs = options.n_envs
    batch = EnvBatch(env, n_envs)
    check = StepCheck(n_envs, "skip")
    graphdef, streams, rest = nnx.split(networks, nnx.RngState, ...)
    env_key, noise_key = jax.random.split(key)
    states = batch.reset(env_key)

    def step(episodes: _Episodes) -> _Episodes:
        network = rebuild(graphdef, episodes.streams, rest)
        out = network(episodes.network, check.observation(episodes.env.obs))
        found = check.network(network, episodes.env.obs, out)
        actions = for_environment(env, episodes.env, check.replaced(out.output.actions))
        stepped = batch.step(episodes.env, actions)
        found = check.environment(found, stepped)
        done, truncated = ended(stepped)
        going_on = ~episodes.over
        broken = going_on & check.or_found(jnp.zeros_like(going_on), found)
        truncated = jnp.zeros_like(done) if truncated is None else truncated
        measured = _wanted(stepped.metrics, out.metrics, options.level)
        return _Episodes(
            env=batch.select(episodes.over, episodes.env, stepped),
            network=out.next_state,
            streams=nnx.state(network, nnx.RngState),
            step=episodes.step + 1,
            over=episodes.over | done | broken,
            truncated=jnp.where(going_on, truncated, episodes.truncated),
            broken=episodes.broken | broken,
            returns=_add(episodes.returns, stepped.reward, going_on & ~broken),
            lengths=episodes.lengths + going_on,
            sums=_add(episodes.sums, measured, going_on),
        )

    network_state = rekey_noise(initial_state(networks, n_envs), noise_key)
    network_metrics = _per_row_metrics(networks, states.obs, n_envs)
    wanted = _wanted(states.metrics, network_metrics, options.level)
    start = _Episodes(
        env=states,
        network=network_state,
        streams=streams,
        step=jnp.int32(0),
        over=states.done.astype(bool),
        truncated=jnp.zeros(n_envs, bool),
        broken=jnp.zeros(n_envs, bool),
        returns=jax.tree.map(lambda r: _zeros(r.shape, r.dtype), states.reward),
        lengths=jnp.zeros(n_envs, jnp.int32),
        sums=jax.tree.map(lambda s: _zeros(s.shape, s.dtype), wanted),
    )
    final = jax.lax.while_loop(
        lambda e: (e.step < options.max_episode_length) & any_row(~e.over), step, start
    )
    return final, None if options.group_by is None else states.info[options.group_by]


def _add(total: PyTree, increment: PyTree, mask: Bool[Array, " B"]) -> PyTree:
    """Adds per-row increments where the mask is set; the first end of an episode stops the sum."""

    def add(old: Array, new: Array) -> Array:
        return select_rows(mask, old + jnp.broadcast_to(new, old.shape).astype(old.dtype), old)

    return jax.tree.map(add, total, increment)


def _wanted(env_metrics: PyTree, network_metrics: PyTree, level: LoggingLevel) -> dict[str, PyTree]:
    wanted = {}
    if LoggingLevel.ENV_METRICS in level:
        check_arrays(env_metrics, "metrics of the environment")
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
    return partial(_make_evaluation(env, _options_of(config)), graphdef)


def _options_of(config: EvalConfig) -> _Options:
    return _Options(
        config.n_envs,
        config.max_episode_length,
        config.logging_percentiles,
        config.logging_level,
        config.group_by,
        config.group_names,
        config.deterministic,
    )
