"""The boundary between network and environment, checked by shapes before anything compiles."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from nnx_stateful import (
    PyTree,
    StatefulModule,
    StatefulModuleOutput,
    check_same_state,
    initial_state,
    rebuild,
    reset_rows,
)

from ._action_check import check_actions
from ._actions import for_environment, steps_with
from ._arguments import check_arrays, check_network, check_one_array, refused
from ._env_batch import EnvBatch
from ._env_check import check_reset, check_step_keeps, watched_step
from ._pairing import match_likelihoods, match_rewards
from ._types import PPONetworkOutput
from ._validate import check_bool, check_whole_number


def check_boundary(
    env: Any, networks: StatefulModule, n_envs: int, combine_advantages: bool
) -> None:
    """Raises unless the network can act in the environment and PPO can train it there.

    Args:
      env: the environment.
      networks: the network.
      n_envs: environments in parallel, B.
      combine_advantages: the config's option of that name.

    Raises:
      TypeError: if ``env`` is no environment, is vectorised, or resets itself; if the network is
        no StatefulModule, or its output no PPONetworkOutput.
      ValueError: if observations, actions, rewards or values do not fit; the message names the
        path, what the network gives and what the environment wants.
    """
    check_whole_number(n_envs, "check_boundary: n_envs", 1)
    check_bool(combine_advantages, "check_boundary: combine_advantages")
    check_reset(env)
    check_network(networks, "networks")
    with refused("check_boundary", "environment and network that fit", networks, ValueError):
        _check_shapes(env, networks, n_envs, combine_advantages)


def _check_shapes(
    env: Any, networks: StatefulModule, n_envs: int, combine_advantages: bool
) -> None:
    batch = EnvBatch(env, n_envs)
    states = jax.eval_shape(batch.reset, jax.eval_shape(lambda: jax.random.key(0)))
    output = _checked_output(networks, states.obs, n_envs)
    _check_rows(output.loglikelihoods, "log-likelihood", n_envs)
    _check_rows(output.value_estimates, "value", n_envs)
    stepped = _stepped(env, states, output.actions)
    check_step_keeps(env, states, stepped)
    _check_rows(stepped.reward, "reward", n_envs)
    match_rewards(output.value_estimates, stepped.reward)
    jax.eval_shape(
        lambda rewards, likelihoods: match_likelihoods(rewards, likelihoods, combine_advantages),
        stepped.reward,
        output.loglikelihoods,
    )


def _checked_output(networks: StatefulModule, obs: PyTree, n_envs: int) -> PPONetworkOutput:
    """Shapes of the network's output, or an error about the network or what it is given."""
    name = type(networks).__name__
    graphdef, variables = nnx.split(networks)

    def call(obs: PyTree) -> Any:
        network = rebuild(graphdef, variables)
        state = initial_state(network, n_envs)
        out = network(state, obs)
        _check_metrics(name, out.metrics)
        return state, out.replace(metrics={})

    try:
        state, out = jax.eval_shape(call, obs)
    except RuntimeError:  # a forbidden write: nothing to do with the environment
        raise
    except Exception as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"{name} failed on the environment's observation: {error}. The environment gives "
            f"{_describe(obs)} for {n_envs} environments; expected a network that takes that and "
            "returns a StatefulModuleOutput whose output is a PPONetworkOutput"
        ) from error
    if not isinstance(out.output, PPONetworkOutput):
        raise TypeError(
            "expected a network whose output is a PPONetworkOutput, got "
            f"{type(out.output).__name__}; "
            "end it with a PPOAdapter"
        )
    check_same_state(
        state,
        out.next_state,
        f"{name}.__call__",
        "next_state must be of the type that initialize_state decides",
    )
    ones = jnp.ones(n_envs, bool)
    jax.eval_shape(lambda rows: reset_rows(rebuild(graphdef, variables), rows, ones), state)
    _check_channels(name, out, n_envs)
    return out.output


def _check_metrics(name: str, metrics: Any) -> None:
    """Raises TypeError unless metrics are a dict, nested or not, with str keys."""
    if not isinstance(metrics, dict) or not all(isinstance(key, str) for key in metrics):
        raise TypeError(
            f"{name}: expected metrics to be a dict with str keys, got {metrics!r}; "
            "return {} where there are none"
        )
    for key, entry in metrics.items():
        if isinstance(entry, dict):
            _check_metrics(f"{name}: {key}", entry)


def _check_channels(name: str, out: StatefulModuleOutput, n_envs: int) -> None:
    """Raises ValueError unless rollout_extras lead with the batch axis and the loss is per row."""
    for path, leaf in _by_path(out.rollout_extras).items():
        if leaf.shape[:1] != (n_envs,):
            raise ValueError(
                f"{name}: rollout_extras{path}: expected an array that leads with the batch axis "
                f"({n_envs}, ...), got shape {leaf.shape}; minibatches split the environments, so "
                "emit one value per row"
            )
    check_one_array(out.regularization_loss, f"{name}: regularization_loss")
    loss = jnp.shape(out.regularization_loss)
    if loss not in ((), (n_envs,)):
        raise ValueError(
            f"{name}: regularization_loss: expected a scalar or one number per row ({n_envs},), "
            f"got shape {loss}; average over the other axes"
        )


def _stepped(env: Any, states: Any, actions: PyTree) -> Any:
    """Shapes of the stepped state, or an error that names what the environment wants."""
    name = type(env).__name__
    given = for_environment(env, states, actions)
    check_actions(env, given)
    problem = steps_with(env, states, given)
    if problem is not None:
        raise ValueError(
            f"{name}.step failed with the network's actions, {_describe(given)}: "
            f"{type(problem).__name__}: {problem}. Expected one that takes them; if these are not "
            "the actions that it wants, change the width of the layer before the sampler, or the "
            "names of the action port"
        ) from problem
    return watched_step(env, states, given)


def _by_path(tree: PyTree) -> dict[str, Any]:
    entries = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in entries}


def _check_rows(tree: PyTree, what: str, n_envs: int) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if leaf.shape != (n_envs,):
            raise ValueError(
                f"{what}{jax.tree_util.keystr(path)}: expected one number per environment, "
                f"shape ({n_envs},), got {leaf.shape}"
            )
    check_arrays(tree, what)


def _describe(tree: PyTree) -> str:
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", tree))
