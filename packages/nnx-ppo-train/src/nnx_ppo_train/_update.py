"""One training iteration as two functions of plain arrays: collect, and learn from it."""

import dataclasses
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Key
from nnx_stateful import PyTree, StatefulModule, counting_only, rebuild

from ._compiler import calls_python, to_run_often
from ._episodes import EpisodeTally, tally_episodes
from ._epochs import FIRST_LEAF, SKIPPED, UPDATES, Epochs, Learner
from ._estimates import samples_counted
from ._hyperparameters import Hyperparameters
from ._learning_rewards import scaled_rewards, units_told, with_normalized_values
from ._logging_level import LoggingLevel
from ._loop_state import LoopState
from ._metrics import PackedMetrics, summarize
from ._nonfinite import KINDS, SAMPLES, unless_newly_nonfinite
from ._optimizer import Optimizer
from ._ppo_config import PPOConfig
from ._rollout import RolloutOptions, unroll_env
from ._stored_once import StoredOnce
from ._types import Transition


@dataclasses.dataclass(frozen=True)
class CompiledIteration:
    """An iteration, compiled.

    Attributes:
      run: from a state, which is donated to it, and hyperparameters to the next and the metrics.
      seconds: what tracing and compiling took.
    """

    run: Callable[[LoopState, Hyperparameters], tuple[LoopState, PackedMetrics]]
    seconds: float


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Experience:
    """Result of collecting: a rollout to learn from, and the state in which the next one begins.

    Attributes:
      rollout: without actions and metrics, which learning does not need; leaves (T, B, ...).
      extras: its rollout_extras, apart.
      variables: the network's variables, whose RNG streams may have advanced.
      network_states: carry state after the rollout, leaves (B, ...).
      env_states: environment states after it, leaves (B, ...).
      tally: training episodes under way after it.
      shuffle_key: key of the minibatches.
      key: key of the next iteration.
      metrics: of the rollout and of the episodes that ended.
    """

    rollout: Transition
    extras: StoredOnce
    variables: PyTree
    network_states: PyTree
    env_states: Any
    tally: EpisodeTally
    shuffle_key: Key[Array, ""]
    key: Key[Array, ""]
    metrics: PackedMetrics


class Iteration:
    """One iteration in its two phases, each to be compiled: to collect, and to learn.

    Two programs take a compiler less memory than one, and a profile tells them apart.

    Args:
      env: the environment, not vectorised.
      graphdef: structure of the network, from ``nnx.split(networks, nnx.Param, ...)``.
      optimizer: from gradients to parameters.
      config: the algorithm.
      rewards_graphdef: structure of the RewardNormalizer, None without one.
    """

    def __init__(
        self,
        env: Any,
        graphdef: Any,
        optimizer: Optimizer,
        config: PPOConfig,
        rewards_graphdef: Any,
    ):
        self._env = env
        self.graphdef = graphdef
        self._optimizer = optimizer
        self.config = config
        self._rewards_graphdef = rewards_graphdef

    def __call__(self, state: LoopState, hyper: Hyperparameters) -> tuple[LoopState, PackedMetrics]:
        """Collects and learns."""
        return self.learn(state, hyper, self.collect(state))

    def collect(self, state: LoopState) -> Experience:
        """Runs the network in the environments for ``rollout_length`` steps."""
        config = self.config
        key, reset_key, shuffle_key = jax.random.split(state.key, 3)
        network = rebuild(self.graphdef, state.params, state.variables)
        network_states, env_states, rollout = self.rollout(state, network, reset_key)
        tally, episodes = tally_episodes(
            state.tally, rollout.rewards, rollout.done, rollout.truncated, rollout.nonfinite
        )
        return Experience(
            rollout=dataclasses.replace(
                rollout,
                network_output=dataclasses.replace(rollout.network_output, actions=None),
                metrics={},
                rollout_extras=None,
            ),
            extras=StoredOnce.of(rollout.rollout_extras, rollout.obs),
            variables=nnx.split(network, nnx.Param, ...)[2],
            network_states=network_states,
            env_states=env_states,
            tally=tally,
            shuffle_key=shuffle_key,
            key=key,
            metrics=PackedMetrics.of(
                _of_rollout(rollout, config) | episodes | _nonfinite_counts(rollout)
            ),
        )

    def rollout(
        self, state: LoopState, network: StatefulModule, reset_key: Key[Array, ""]
    ) -> tuple[PyTree, Any, Transition]:
        """Returns what :func:`unroll_env` does for a state and a network."""
        config = self.config
        return unroll_env(
            self._env,
            state.env_states,
            network,
            state.network_states,
            config.rollout_length,
            reset_key,
            RolloutOptions(config.truncation, config.env_resets, config.nonfinite),
        )

    def learn(
        self, state: LoopState, hyper: Hyperparameters, experience: Experience
    ) -> tuple[LoopState, PackedMetrics]:
        """Takes the epochs of minibatch updates, then updates the running statistics."""
        config = self.config
        extras = experience.extras.joined(experience.rollout.obs)
        rollout = dataclasses.replace(experience.rollout, rollout_extras=extras)
        with _counted(rollout, config):
            rewards, learnable = scaled_rewards(
                self._rewards_graphdef, state.rewards, rollout, hyper
            )
        values, values_kept, learnable = with_normalized_values(
            state.values, learnable, config, hyper
        )
        learner = Learner(
            state.params,
            experience.variables,
            state.optimizer,
            state.schedules,
            jnp.zeros((), bool),
        )
        epochs = Epochs(
            self.graphdef, self._optimizer, config, hyper, learnable, state.network_states
        )
        learner, updates = epochs.run(learner, experience.shuffle_key)
        network = rebuild(self.graphdef, learner.params, learner.variables)
        with _counted(rollout, config):
            network.update_statistics(rollout.rollout_extras)
        _, params, variables = nnx.split(network, nnx.Param, ...)
        told: dict[str, Array] = {}
        if config.nonfinite != "ignore":
            variables, kept = unless_newly_nonfinite(variables, learner.variables)
            told["nonfinite/statistics"] = ~(kept & values_kept)
        if values is not None and LoggingLevel.CRITIC_EXTRA in config.logging_level:
            told |= units_told(values, rollout.rewards)
        following = LoopState(
            params=params,
            variables=variables,
            optimizer=learner.optimizer,
            schedules=dataclasses.replace(
                learner.schedules, learning_rate_scale=learner.schedules.coming_scale
            ),
            network_states=experience.network_states,
            env_states=experience.env_states,
            rewards=rewards,
            values=values,
            tally=experience.tally,
            key=experience.key,
        )
        metrics = [
            _over_updates(updates),
            experience.metrics,
            PackedMetrics.of(told),
            _of_weights(params, config),
        ]
        return following, PackedMetrics.joined(metrics)

    def compile(self, state: LoopState, hyper: Hyperparameters) -> CompiledIteration:
        """Compiles both phases for arguments of these shapes."""
        begun = time.perf_counter()
        collecting = jax.jit(self.collect).trace(state)
        with ThreadPoolExecutor(1) as beside:  # the compiler needs no Python while it works
            collect = beside.submit(collecting.lower().compile, to_run_often())
            keep = self.config.nonfinite == "raise" or calls_python(collecting.jaxpr)
            learning = trace_donating(self.learn, keep, state, hyper, collecting.out_info).lower()
            collect = collect.result()
        learn = learning.compile(to_run_often())
        return CompiledIteration(
            lambda state, hyper: learn(state, hyper, collect(state)), time.perf_counter() - begun
        )


def compile_whole(
    iterate: Callable[[LoopState, Hyperparameters], tuple[LoopState, PackedMetrics]],
    config: PPOConfig,
    state: LoopState,
    hyper: Hyperparameters,
) -> CompiledIteration:
    """Compiles an iteration, or many of them at once, as one program."""
    begun = time.perf_counter()
    traced = trace_donating(iterate, config.nonfinite == "raise", state, hyper)
    return CompiledIteration(traced.lower().compile(to_run_often()), time.perf_counter() - begun)


def trace_donating(function: Callable[..., Any], keep: bool, *arguments: Any) -> Any:
    """Traces a function for compilation; its first argument is donated, unless it must be kept.

    A program that calls Python may fail while it runs: then the state before it is all there is.
    ``nonfinite="raise"`` runs the iteration again to find what went wrong.

    Args:
      function: the function.
      keep: whether to keep the argument in any case.
      arguments: arguments, or their shapes.
    """
    if not keep:
        traced = jax.jit(function, donate_argnums=0).trace(*arguments)
        if not calls_python(traced.jaxpr):
            return traced
    return jax.jit(function).trace(*arguments)


def _counted(rollout: Transition, config: PPOConfig) -> AbstractContextManager[None]:
    """Samples that leave the losses leave the statistics, too."""
    counted = samples_counted(rollout, config)
    return nullcontext() if counted is None else counting_only(counted)


def _nonfinite_counts(rollout: Transition) -> dict[str, Array]:
    """Numbers of samples with values that are not finite: in all, and by kind of value."""
    if rollout.nonfinite is None:
        return {}
    found = rollout.metrics["nonfinite"]
    by_kind = {f"nonfinite/{kind}": found[kind].sum() for kind in KINDS}
    return {SAMPLES: rollout.nonfinite.sum(), **by_kind}


def _over_updates(updates: PackedMetrics) -> PackedMetrics:
    """Reduces the metrics of all updates to one value each.

    Averages are over the updates that were applied, and NaN if values that are not finite left
    none: losses of no samples are 0, which must not look like success.
    """
    names = np.array(updates.names)
    values = updates.values
    column = {name: values[:, place, None] for place, name in enumerate(updates.names)}
    computed = column["computed"]
    if SKIPPED in column:
        computed = computed * (1 - column[SKIPPED])
    mean = jnp.sum(jnp.where(computed > 0, values, 0.0), axis=0) / jnp.maximum(computed.sum(), 1)
    mean = jnp.where(computed.sum() > 0, mean, jnp.nan)
    reduced = jnp.where(np.isin(names, (UPDATES, SKIPPED)), jnp.sum(values, axis=0), mean)
    reduced = jnp.where(names == "replay/ratio_deviation", values[0], reduced)
    first = jnp.take_along_axis(values, jnp.argmax(values > 0, axis=0)[None], axis=0)[0]
    reduced = jnp.where(names == FIRST_LEAF, first, reduced)
    shown = names != "computed"
    names = np.where(names == "replay/ratio_deviation", "replay/ratio_max_deviation", names)
    return PackedMetrics(reduced[np.flatnonzero(shown)], tuple(map(str, names[shown])))


def _of_rollout(rollout: Transition, config: PPOConfig) -> dict[str, Array]:
    """Whatever the logging level asks for of the rollout."""
    wanted = {
        LoggingLevel.ENV_METRICS: ("env", rollout.metrics["env"]),
        LoggingLevel.NETWORK_METRICS: ("net", rollout.metrics["net"]),
        LoggingLevel.ROLLOUT_OBS: ("rollout_batch/obs", rollout.obs),
        LoggingLevel.ROLLOUT_STATS: (
            "rollout_batch",
            {
                "reward": rollout.rewards,
                "action": rollout.network_output.actions,
                "done_rate": rollout.done.mean(),
                "truncation_rate": rollout.truncated.mean(),
            },
        ),
    }
    metrics: dict[str, Array] = {}
    counted = None if rollout.nonfinite is None else ~rollout.nonfinite
    for group, (prefix, tree) in wanted.items():
        if group in config.logging_level:
            metrics |= summarize(tree, prefix, config.logging_percentiles, counted)
    return metrics


def _of_weights(params: PyTree, config: PPOConfig) -> PackedMetrics:
    """The parameters' distributions, where the logging level asks for them."""
    if LoggingLevel.WEIGHTS not in config.logging_level:
        return PackedMetrics.of({})
    return PackedMetrics.of(summarize(params, "weights", config.logging_percentiles))
