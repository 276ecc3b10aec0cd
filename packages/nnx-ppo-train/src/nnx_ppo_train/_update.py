"""One training iteration as one function of plain arrays."""

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array
from nnx_stateful import counting_only, rebuild

from ._episodes import tally_episodes
from ._epochs import Epochs, Learner
from ._hyperparameters import Hyperparameters
from ._logging_level import LoggingLevel
from ._loop_state import LoopState, RewardState
from ._metrics import summarize
from ._optimizer import Optimizer
from ._ppo_config import PPOConfig
from ._rollout import RolloutOptions, unroll_env
from ._types import Transition

Iteration = Callable[[LoopState, Hyperparameters], tuple[LoopState, dict[str, Array]]]


def make_iteration(
    env: Any, graphdef: Any, optimizer: Optimizer, config: PPOConfig, rewards_graphdef: Any
) -> Iteration:
    """Returns the iteration: rollout, epochs of minibatch updates, statistics.

    Args:
      env: the environment, not vectorised.
      graphdef: structure of the network, from ``nnx.split(networks, nnx.Param, ...)``.
      optimizer: from gradients to parameters.
      config: the algorithm.
      rewards_graphdef: structure of the RewardNormalizer, None without one.

    Returns:
      A function from LoopState to the next one and a dict of scalar metrics; to be compiled.
    """
    options = RolloutOptions(config.truncation, config.env_resets)

    def iteration(state: LoopState, hyper: Hyperparameters) -> tuple[LoopState, dict[str, Array]]:
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
        with _counted(rollout, config):
            rewards, lesson = _learning_rewards(rewards_graphdef, state.rewards, rollout, hyper)
        _, params, variables = nnx.split(network, nnx.Param, ...)
        learner = Learner(params, variables, state.optimizer, state.schedules, jnp.zeros((), bool))
        epochs = Epochs(graphdef, optimizer, config, hyper, lesson, state.network_states)
        learner, updates = epochs.run(learner, shuffle_key)
        network = rebuild(graphdef, learner.params, learner.variables)
        with _counted(rollout, config):
            network.update_statistics(rollout.rollout_extras)
        _, params, variables = nnx.split(network, nnx.Param, ...)
        tally, episodes = tally_episodes(state.tally, rollout.rewards, rollout.done)
        metrics = _over_updates(updates) | _of_rollout(rollout, params, config) | episodes
        following = LoopState(
            params=params,
            variables=variables,
            optimizer=learner.optimizer,
            schedules=learner.schedules,
            network_states=network_states,
            env_states=env_states,
            rewards=rewards,
            tally=tally,
            key=key,
        )
        return following, metrics

    return iteration


def _learning_rewards(
    graphdef: Any, state: RewardState | None, rollout: Transition, hyper: Hyperparameters
) -> tuple[RewardState | None, Transition]:
    """The rollout with rewards as the losses see them: scaled, or normalised."""
    if state is None:
        rewards = jax.tree.map(lambda reward: reward * hyper.reward_scaling, rollout.rewards)
        return None, dataclasses.replace(rollout, rewards=rewards)
    normalizer = rebuild(graphdef, state.variables)
    normalizer.discount.set_value(hyper.discounts(rollout.rewards))
    out = normalizer.unroll(state.sums, rollout.rewards, rollout.done)
    normalizer.update_statistics(out.rollout_extras)
    rewards = normalizer.scaled(rollout.rewards)
    following = RewardState(nnx.split(normalizer)[1], out.next_state)
    return following, dataclasses.replace(rollout, rewards=rewards)


def _counted(rollout: Transition, config: PPOConfig) -> AbstractContextManager[None]:
    """Masked truncations leave the statistics, as they leave the losses."""
    return counting_only(~rollout.truncated) if config.truncation == "mask" else nullcontext()


def _over_updates(updates: dict[str, Array]) -> dict[str, Array]:
    """Averages over the updates that were computed; a few are better told by the first or last."""
    computed = updates.pop("computed")
    deviation = updates.pop("replay/ratio_deviation")
    applied = updates.pop("updates")
    metrics = {
        name: jnp.sum(jnp.where(computed > 0, values, 0.0)) / jnp.sum(computed)
        for name, values in updates.items()
    }
    return metrics | {"replay/ratio_max_deviation": deviation[0], "updates": jnp.sum(applied)}


def _of_rollout(rollout: Transition, params: Any, config: PPOConfig) -> dict[str, Array]:
    """Whatever the logging level asks for of the rollout and the parameters."""
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
    metrics: dict[str, Array] = {}
    for group, (prefix, tree) in wanted.items():
        if group in config.logging_level:
            metrics |= summarize(tree, prefix, config.logging_percentiles)
    return metrics
