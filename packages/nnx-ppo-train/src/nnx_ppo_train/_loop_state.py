"""What a training loop carries from iteration to iteration, and where it begins."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Key
from nnx_stateful import PyTree, StatefulModule, check_same_state, initial_state, rekey_noise

from ._config import TrainConfig
from ._env_batch import EnvBatch
from ._episodes import EpisodeTally
from ._keys import Purpose, key_for
from ._types import TrainingState


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LoopState:
    """Everything that an iteration reads and writes; donated to it.

    Attributes:
      params: the network's trainable parameters.
      variables: its other variables: statistics, keys, RNG streams.
      optimizer: state of the optax optimiser.
      network_states: carry state, leaves (B, ...).
      env_states: environment states, leaves (B, ...).
      tally: training episodes under way.
      key: key of the next iteration.
    """

    params: PyTree
    variables: PyTree
    optimizer: PyTree
    network_states: PyTree
    env_states: Any
    tally: EpisodeTally
    key: Key[Array, ""]


def fresh_state(
    env: Any,
    networks: StatefulModule,
    optimizer: optax.GradientTransformation,
    config: TrainConfig,
) -> LoopState:
    """Returns the state in which a run begins; it shares no buffer with ``networks``."""
    seed, n_envs = config.seed, config.ppo.n_envs
    _, params, variables = nnx.split(networks, nnx.Param, ...)
    network_states = rekey_noise(initial_state(networks, n_envs), key_for(seed, Purpose.NOISE))
    env_states = jax.jit(EnvBatch(env, n_envs).reset)(key_for(seed, Purpose.ENV_RESET))
    state = LoopState(
        params=params,
        variables=variables,
        optimizer=optimizer.init(params),
        network_states=network_states,
        env_states=env_states,
        tally=EpisodeTally.zero(n_envs),
        key=key_for(seed, Purpose.ITERATIONS),
    )
    return copy_arrays(state)


def resumed_state(
    start: TrainingState,
    env: Any,
    networks: StatefulModule,
    optimizer: optax.GradientTransformation,
    config: TrainConfig,
) -> LoopState:
    """Returns the state in which a run goes on from ``start``.

    Raises:
      ValueError: if a run with this network, environment and config has states of another kind.
    """
    _, params, variables = nnx.split(start.networks, nnx.Param, ...)
    state = LoopState(
        params=params,
        variables=variables,
        optimizer=start.optimizer,
        network_states=start.network_states,
        env_states=start.env_states,
        tally=start.episodes,
        key=start.rng_key,
    )
    check_same_state(
        jax.eval_shape(lambda: fresh_state(env, networks, optimizer, config)),
        state,
        "train_ppo: initial_state",
        "a run goes on with the network, environment, n_envs and optimiser settings that it "
        "began with",
    )
    return copy_arrays(state)


def copy_arrays(tree: Any) -> Any:
    """Copies every array: donated buffers must not be anybody else's, nor appear twice."""
    return jax.tree.map(jnp.copy, tree)
