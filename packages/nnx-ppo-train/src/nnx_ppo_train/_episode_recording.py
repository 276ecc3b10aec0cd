"""One episode, state by state: for pictures, videos and analysis."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Key
from nnx_stateful import PyTree, StatefulModule, initial_state, rebuild, rekey_noise

from ._actions import for_environment
from ._env_batch import EnvBatch, ended
from ._evaluation import deterministic


def record_episode(
    env: Any, networks: StatefulModule, max_length: int, key: Key[Array, ""]
) -> list[Any]:
    """Runs one deterministic episode and returns its environment states.

    Args:
      env: the environment, not vectorised.
      networks: the network; evaluated through a deterministic view.
      max_length: steps after which the episode is cut.
      key: key of the initial state.

    Returns:
      The states of a single environment as NumPy trees: the initial one, then one per step, up to
      and with the end of the episode.
    """
    batch = EnvBatch(env, 1)
    view = deterministic(networks)
    graphdef, streams, rest = nnx.split(view, nnx.RngState, ...)

    def step(carry: PyTree, _: None) -> tuple[PyTree, Any]:
        streams, network_state, state = carry
        network = rebuild(graphdef, streams, rest)
        out = network(network_state, state.obs)
        stepped = batch.step(state, for_environment(env, state, out.output.actions))
        return (nnx.state(network, nnx.RngState), out.next_state, stepped), stepped

    @jax.jit
    def run(streams: PyTree, key: Key[Array, ""]) -> tuple[Any, Any]:
        env_key, noise_key = jax.random.split(key)
        start = batch.reset(env_key)
        network_state = rekey_noise(initial_state(view, 1), noise_key)
        _, states = jax.lax.scan(step, (streams, network_state, start), None, length=max_length)
        return start, states

    start, states = run(streams, key)
    over = np.asarray(ended(states)[0])[:, 0]
    length = int(np.argmax(over)) + 1 if over.any() else max_length
    rows = _plain(batch.take(start, 0)), _plain(_first_row(batch, states))
    return [rows[0], *(jax.tree.map(lambda leaf: leaf[t], rows[1]) for t in range(length))]


def _first_row(batch: EnvBatch, states: Any) -> Any:
    return jax.vmap(lambda state: batch.take(state, 0))(states)


def _plain(tree: Any) -> Any:
    def to_numpy(leaf: Array) -> Any:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf)

    return jax.tree.map(to_numpy, tree)
