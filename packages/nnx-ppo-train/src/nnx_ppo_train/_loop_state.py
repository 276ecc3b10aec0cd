"""State of a training loop between iterations, and its first value."""

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Key
from nnx_stateful import PyTree, StatefulModule, check_same_state, initial_state, rekey_noise

from ._adapter import adapters, set_value_units
from ._arguments import check_network
from ._compiler import to_run_once
from ._config import TrainConfig
from ._env_batch import EnvBatch
from ._episodes import EpisodeTally
from ._hyperparameters import Hyperparameters, ScheduleState
from ._keys import Purpose, key_for, new_episodes_key
from ._optimizer import Optimizer
from ._reward_normalizer import RewardNormalizer
from ._types import TrainingState
from ._validate import check_whole_number
from ._value_statistics import ValueStatistics


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RewardState:
    """A RewardNormalizer and its carry as plain arrays.

    Attributes:
      variables: the module's variables.
      sums: its carry state, leaves (B,).
    """

    variables: PyTree
    sums: PyTree


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LoopState:
    """Everything that an iteration reads and writes; donated to it.

    Attributes:
      params: the network's trainable parameters.
      variables: its other variables: statistics, keys, RNG streams.
      optimizer: state of the optimiser.
      schedules: how far the schedules have come.
      network_states: carry state, leaves (B, ...).
      env_states: environment states, leaves (B, ...).
      rewards: the normaliser of rewards, None without one.
      values: statistics of value targets, None if values are not normalized.
      tally: training episodes under way.
      key: key of the next iteration.
    """

    params: PyTree
    variables: PyTree
    optimizer: PyTree
    schedules: ScheduleState
    network_states: PyTree
    env_states: Any
    rewards: RewardState | None
    values: ValueStatistics | None
    tally: EpisodeTally
    key: Key[Array, ""]


_BESIDE = ThreadPoolExecutor(1)
"""Compiles beside the main thread: the compiler needs no Python while it works."""


class StateFactory:
    """Makes the states in which runs of one environment, network and config begin.

    Args:
      env: the environment.
      graphdef: structure of the networks.
      optimizer: the optimiser.
      config: the run; its seed is given later.
    """

    def __init__(self, env: Any, graphdef: Any, optimizer: Optimizer, config: TrainConfig):
        self._graphdef = graphdef
        self._optimizer = optimizer
        self._ppo = config.ppo
        self._seed = config.seed
        self._batch = EnvBatch(env, config.ppo.n_envs)
        self._rewards = jax.eval_shape(env.reset, jax.eval_shape(lambda: jax.random.key(0))).reward
        self.normalizer = self._reward_normalizer()
        self._begin = jax.jit(self._first_state, compiler_options=to_run_once())

    def fresh(self, networks: StatefulModule, seed: int) -> LoopState:
        """Returns the state in which a run begins; it shares no buffer with ``networks``."""
        return self._begin(*_beginnings(networks, seed))

    def shapes(self, networks: StatefulModule) -> LoopState:
        """Returns the shapes and dtypes of such a state."""
        return jax.eval_shape(self._first_state, *_beginnings(networks, 0))

    def fresh_soon(self, networks: StatefulModule, seed: int) -> Callable[[], LoopState]:
        """Begins to compile what makes :meth:`fresh`, beside other work; the result returns it."""
        beginnings = _beginnings(networks, seed)
        compiling = _BESIDE.submit(self._begin.lower(*beginnings).compile)
        return lambda: compiling.result()(*beginnings)

    def _first_state(
        self, params: PyTree, variables: PyTree, keys: dict[Purpose, Key[Array, ""]]
    ) -> LoopState:
        n_envs = self._ppo.n_envs
        networks = nnx.merge(self._graphdef, params, variables)
        values = None
        if self._ppo.normalize_values:
            values = ValueStatistics.start(self._rewards, _units_of(networks))
            params, variables = _learning_arrays(networks)
        state = LoopState(
            params=params,
            variables=variables,
            optimizer=self._optimizer.init(params),
            schedules=ScheduleState.start(),
            network_states=rekey_noise(initial_state(networks, n_envs), keys[Purpose.NOISE]),
            env_states=self._batch.reset(keys[Purpose.ENV_RESET]),
            rewards=self._reward_state(),
            values=values,
            tally=EpisodeTally.zero(n_envs),
            key=keys[Purpose.ITERATIONS],
        )
        return jax.tree.map(jnp.copy, state)

    def resumed(
        self, start: TrainingState, networks: StatefulModule, seed: int | None = None
    ) -> LoopState:
        """Returns the state in which a run goes on from ``start``.

        Args:
          start: the state; new episodes begin where parts of it are None.
          networks: the network of the run.
          seed: the run's seed, from which, with the step count, new episodes draw; None for the
            config's.

        Raises:
          ValueError: if a run with this network, environment and config has states of another
            kind.
        """
        if not isinstance(start, TrainingState):
            raise TypeError(
                "initial_state: expected a TrainingState, from load_checkpoint or "
                f"result.training_state, got {start!r}"
            )
        state, shapes = as_loop_state(start), self.shapes(networks)
        if _episodes_lacking(state):
            _check_resumable(_networks_of(shapes), _networks_of(state))
            state = self._with_new_episodes(state, self._seed if seed is None else seed, start)
        _check_resumable(shapes, state)
        return copy_arrays(state)

    def _with_new_episodes(self, state: LoopState, seed: int, start: TrainingState) -> LoopState:
        """The state with new episodes where it has none."""
        keys = {purpose: new_episodes_key(seed, start.steps_taken, purpose) for purpose in Purpose}
        fresh = self._begin(state.params, state.variables, keys)
        rewards = state.rewards
        if rewards is not None and rewards.sums is None and fresh.rewards is not None:
            rewards = RewardState(rewards.variables, fresh.rewards.sums)
        parts = ("network_states", "env_states", "tally")
        new = {name: getattr(fresh, name) for name in parts if getattr(state, name) is None}
        return dataclasses.replace(state, **new, rewards=rewards)

    def _reward_normalizer(self) -> RewardNormalizer | None:
        if not self._ppo.normalize_rewards:
            return None
        discounts = Hyperparameters.of(self._ppo).discounts(self._rewards)
        return RewardNormalizer(self._rewards, discounts)

    def _reward_state(self) -> RewardState | None:
        if self.normalizer is None:
            return None
        sums = initial_state(self.normalizer, self._ppo.n_envs)
        return RewardState(nnx.split(self.normalizer)[1], sums)


def _episodes_lacking(state: LoopState) -> bool:
    """Returns whether parts of the episodes under way are None."""
    rewards = state.rewards
    parts = (state.network_states, state.env_states, state.tally)
    return any(part is None for part in parts) or (rewards is not None and rewards.sums is None)


def _networks_of(state: LoopState) -> dict[str, PyTree]:
    return {"params": state.params, "variables": state.variables}


def _check_resumable(expected: PyTree, got: PyTree) -> None:
    """Raises ValueError unless a run can go on from a state of these shapes."""
    check_same_state(
        expected,
        got,
        "train_ppo: initial_state",
        "a run goes on with the network, environment, n_envs, optimizer settings, "
        "normalize_values and normalize_rewards that it began with",
    )


def _beginnings(
    networks: StatefulModule, seed: int
) -> tuple[PyTree, PyTree, dict[Purpose, Key[Array, ""]]]:
    """Returns parameters, other variables and keys, from which a first state is made."""
    _, params, variables = nnx.split(networks, nnx.Param, ...)
    return params, variables, {purpose: key_for(seed, purpose) for purpose in Purpose}


def as_loop_state(state: TrainingState) -> LoopState:
    """The arrays of a training state, as the loop carries them; nothing is copied.

    What is None in it, for new episodes to begin, stays None.
    """
    check_network(state.networks, "TrainingState.networks")
    check_whole_number(state.steps_taken, "TrainingState.steps_taken", 0)
    _, params, variables = nnx.split(state.networks, nnx.Param, ...)
    if state.values is not None:
        params, variables = _learning_arrays(nnx.clone(state.networks))
    rewards = None
    if state.reward_normalizer is not None:
        rewards = RewardState(nnx.split(state.reward_normalizer)[1], state.reward_sums)
    return LoopState(
        params=params,
        variables=variables,
        optimizer=state.optimizer,
        schedules=state.schedules,
        network_states=state.network_states,
        env_states=state.env_states,
        rewards=rewards,
        values=state.values,
        tally=cast(EpisodeTally, state.episodes),
        key=state.rng_key,
    )


def _learning_arrays(networks: StatefulModule) -> tuple[PyTree, PyTree]:
    """Clears the units of a network's values; returns parameters and other variables."""
    set_value_units(networks, {})
    _, params, variables = nnx.split(networks, nnx.Param, ...)
    return params, variables


def as_training_state(
    state: LoopState, graphdef: Any, rewards_graphdef: Any, steps: int
) -> TrainingState:
    """The loop's arrays as a training state with modules of its own; nothing is copied.

    Args:
      state: the arrays.
      graphdef: structure of the network.
      rewards_graphdef: structure of the RewardNormalizer, None without one.
      steps: environment steps taken.
    """
    normalizer, sums = None, None
    if state.rewards is not None:
        normalizer = nnx.merge(rewards_graphdef, state.rewards.variables)
        sums = state.rewards.sums
    networks = nnx.merge(graphdef, state.params, state.variables)
    set_learned_units(networks, state)
    return TrainingState(
        networks=networks,
        network_states=state.network_states,
        env_states=state.env_states,
        optimizer=state.optimizer,
        schedules=state.schedules,
        rng_key=state.key,
        steps_taken=steps,
        episodes=state.tally,
        reward_normalizer=normalizer,
        reward_sums=sums,
        values=state.values,
    )


def set_learned_units(networks: StatefulModule, state: LoopState) -> None:
    """Sets the units of a network's values to those of a state, if it has normalized values."""
    if state.values is not None:
        set_value_units(networks, state.values.units)


def _units_of(networks: StatefulModule) -> dict[str, Array]:
    """Returns the units of a network that was trained before, or an empty dict."""
    return next((adapter.value_units.get_value() for adapter in adapters(networks)), {})


def copy_arrays(tree: Any) -> Any:
    """Copies every array: donated buffers must not be anybody else's, nor appear twice."""
    arrays = jax.tree.map(jnp.asarray, tree)  # device_put alone may share NumPy's memory
    return jax.device_put(arrays, may_alias=False)  # unlike jnp.copy it compiles nothing
