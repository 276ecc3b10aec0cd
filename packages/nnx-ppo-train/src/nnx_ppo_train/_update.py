"""One training iteration as one compiled function of plain arrays."""

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Int, Key
from nnx_stateful import PyTree, counting_only, rebuild

from ._config import LoggingLevel, PPOConfig
from ._episodes import tally_episodes
from ._loop_state import LoopState
from ._loss import ppo_loss
from ._metrics import summarize
from ._rollout import RolloutOptions, unroll_env
from ._types import Transition

Iteration = Callable[[LoopState], tuple[LoopState, dict[str, Array]]]


def make_iteration(
    env: Any, graphdef: Any, optimizer: optax.GradientTransformation, config: PPOConfig
) -> Iteration:
    """Returns the compiled iteration: rollout, epochs of minibatch updates, statistics.

    Args:
      env: the environment, not vectorised.
      graphdef: structure of the network, from ``nnx.split(networks, nnx.Param, ...)``.
      optimizer: an optax transformation of the parameters.
      config: the algorithm.

    Returns:
      A function from LoopState to the next one and a dict of scalar metrics. Its argument's
      buffers are donated.
    """
    options = RolloutOptions(config.truncation, config.env_resets)

    def iteration(state: LoopState) -> tuple[LoopState, dict[str, Array]]:
        key, reset_key, shuffle_key = jax.random.split(state.key, 3)
        network = rebuild(graphdef, state.params, state.variables)
        network_states, env_states, rollout = unroll_env(
            env,
            state.env_states,
            network,
            state.network_states,
            config.rollout_length,
            reset_key,
            options,
        )
        _, params, variables = nnx.split(network, nnx.Param, ...)
        minibatches = _Minibatches(graphdef, optimizer, config, rollout, state.network_states)
        rows = shuffled_rows(shuffle_key, config)
        (params, variables, opt_state), losses = jax.lax.scan(
            minibatches.update, (params, variables, state.optimizer), rows
        )
        network = rebuild(graphdef, params, variables)
        with _counted(rollout, config):
            network.update_statistics(rollout.rollout_extras)
        _, params, variables = nnx.split(network, nnx.Param, ...)
        tally, episodes = tally_episodes(state.tally, rollout.rewards, rollout.done)
        metrics = _metrics(losses, rollout, params, config) | episodes
        following = LoopState(params, variables, opt_state, network_states, env_states, tally, key)
        return following, metrics

    return jax.jit(iteration, donate_argnums=0)


def _counted(rollout: Transition, config: PPOConfig) -> AbstractContextManager[None]:
    """Masked truncations leave the statistics, as they leave the losses."""
    return counting_only(~rollout.truncated) if config.truncation == "mask" else nullcontext()


def shuffled_rows(key: Key[Array, ""], config: PPOConfig) -> Int[Array, "updates rows"]:
    """Which environments each update sees: every epoch a new partition into minibatches."""
    keys = jax.random.split(key, config.n_epochs)
    rows = jax.vmap(lambda k: jax.random.permutation(k, config.n_envs))(keys)
    return rows.reshape(config.n_epochs * config.n_minibatches, -1)


class _Minibatches:
    """The update of one minibatch, closed over the rollout."""

    def __init__(
        self,
        graphdef: Any,
        optimizer: optax.GradientTransformation,
        config: PPOConfig,
        rollout: Transition,
        network_states: PyTree,
    ):
        self._graphdef = graphdef
        self._optimizer = optimizer
        self._config = config
        self._rollout = dataclasses.replace(rollout, metrics={})
        self._network_states = network_states

    def update(
        self, carry: tuple[PyTree, PyTree, PyTree], rows: Int[Array, " rows"]
    ) -> tuple[tuple[PyTree, PyTree, PyTree], dict[str, Array]]:
        """One gradient step on the environments ``rows``."""
        params, variables, opt_state = carry
        rollout = jax.tree.map(lambda leaf: leaf[:, rows], self._rollout)
        initial = jax.tree.map(lambda leaf: leaf[rows], self._network_states)

        def loss(params: PyTree) -> tuple[Array, tuple[dict[str, Any], PyTree]]:
            network = rebuild(self._graphdef, params, variables)
            value, metrics = ppo_loss(network, initial, rollout, self._config)
            return value, (metrics, nnx.split(network, nnx.Param, ...)[2])

        (value, (metrics, variables)), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, opt_state = self._optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        scalars: dict[str, Array] = {}
        for name, entry in metrics.items():
            scalars |= summarize(entry, name, self._config.logging_percentiles)
        if LoggingLevel.LOSSES in self._config.logging_level:
            scalars["losses/total"] = value
        if LoggingLevel.GRAD_NORM in self._config.logging_level:
            scalars["grad_norm"] = optax.tree.norm(grads)
        return (params, variables, opt_state), scalars


def _metrics(
    losses: dict[str, Array], rollout: Transition, params: PyTree, config: PPOConfig
) -> dict[str, Array]:
    """Averages over the updates, and whatever else the logging level asks for."""
    level, percentiles = config.logging_level, config.logging_percentiles
    deviation = losses.pop("replay/ratio_deviation")
    metrics = {name: jnp.mean(values) for name, values in losses.items()}
    metrics["replay/ratio_max_deviation"] = deviation[0]
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
        LoggingLevel.WEIGHTS: ("weights", params),
    }
    for group, (prefix, tree) in wanted.items():
        if group in level:
            metrics |= summarize(tree, prefix, percentiles)
    return metrics
