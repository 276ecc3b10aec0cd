"""One episode, state by state: for pictures, videos and analysis."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Key
from nnx_stateful import PyTree, StatefulModule, initial_state, rebuild, rekey_noise

from ._actions import for_environment
from ._arguments import check_key, check_network, explained
from ._boundary import check_boundary
from ._config import LARGEST_LENGTH
from ._env_batch import EnvBatch, ended
from ._evaluation import deterministic
from ._programs import run_kept
from ._validate import check_whole_number


def record_episode(
    env: Any, networks: StatefulModule, max_length: int, key: Key[Array, ""]
) -> list[Any]:
    """Runs one deterministic episode and returns its environment states.

    Args:
      env: the environment, not vectorised.
      networks: the network; evaluated through a deterministic copy.
      max_length: steps after which the episode is cut.
      key: key of the initial state.

    Returns:
      The states of a single environment as NumPy trees: the initial one, then one per step, up to
      and with the end of the episode.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range, or network and
        environment do not fit together.
    """
    check_network(networks, "record_episode")
    check_key(key, "record_episode")
    check_whole_number(max_length, "record_episode: max_length", 1, LARGEST_LENGTH)
    variables = nnx.split(deterministic(networks), nnx.RngState, ...)
    with explained(lambda: check_boundary(env, networks, 1, combine_advantages=True)):
        start, states = run_kept(env, _make_run, (max_length,), *variables, key)
        over = np.asarray(ended(states)[0])[:, 0]
    length = int(np.argmax(over)) + 1 if over.any() else max_length
    batch = EnvBatch(env, 1)
    initial = _plain(_first_row(batch, start))
    following = _plain(jax.vmap(lambda state: _first_row(batch, state))(states))
    return [initial, *(_at(following, t) for t in range(length))]


def _make_run(env: Any, max_length: int) -> Callable[..., tuple[Any, Any]]:
    """Returns ``run(graphdef, streams, rest, key)``: the first state, and all that follow."""

    def run(graphdef: Any, streams: PyTree, rest: PyTree, key: Key[Array, ""]) -> tuple[Any, Any]:
        batch = EnvBatch(env, 1)
        env_key, noise_key = jax.random.split(key)
        start = batch.reset(env_key)
        network_state = initial_state(rebuild(graphdef, streams, rest), 1)

        def step(carry: PyTree, _: None) -> tuple[PyTree, Any]:
            streams, network_state, state = carry
            network = rebuild(graphdef, streams, rest)
            out = network(network_state, state.obs)
            stepped = batch.step(state, for_environment(env, state, out.output.actions))
            return (nnx.state(network, nnx.RngState), out.next_state, stepped), stepped

        first = (streams, rekey_noise(network_state, noise_key), start)
        return start, jax.lax.scan(step, first, None, length=max_length)[1]

    return run


def _first_row(batch: EnvBatch, state: Any) -> Any:
    return batch.take(state, jnp.int32(0))


def _at(states: Any, step: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[step], states)


def _plain(tree: Any) -> Any:
    def to_numpy(leaf: Array) -> Any:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf)

    return jax.tree.map(to_numpy, tree)
