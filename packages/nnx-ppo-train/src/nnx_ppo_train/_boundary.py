"""The boundary between network and environment, checked by shapes before anything compiles."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from nnx_stateful import (
    PyTree,
    StatefulModule,
    check_same_state,
    initial_state,
    rebuild,
    reset_rows,
)

from ._actions import for_environment, steps_with
from ._env_batch import EnvBatch
from ._pairing import leaf_names, match_likelihoods, match_rewards
from ._types import PPONetworkOutput

_SELF_RESET_MARKS = ("first_obs", "first_state", "first_pipeline_state")


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
    check_env(env)
    batch = EnvBatch(env, n_envs)
    states = jax.eval_shape(batch.reset, jax.eval_shape(lambda: jax.random.key(0)))
    output = _checked_output(networks, states.obs, n_envs)
    _check_rows(output.loglikelihoods, "log-likelihood", n_envs)
    _check_rows(output.value_estimates, "value", n_envs)
    stepped = _stepped(env, states, output.actions)
    check_same_state(
        states,
        stepped,
        f"{type(env).__name__}.step",
        "an environment must return states of one type: make reset and step agree",
    )
    _check_rows(stepped.reward, "reward", n_envs)
    match_rewards(output.value_estimates, stepped.reward)
    jax.eval_shape(
        lambda rewards, likelihoods: match_likelihoods(rewards, likelihoods, combine_advantages),
        stepped.reward,
        output.loglikelihoods,
    )


def check_env(env: Any) -> None:
    """Raises TypeError unless ``env`` is a single environment that leaves resets to its caller."""
    name = type(env).__name__
    for method in ("reset", "step"):
        if not callable(getattr(env, method, None)):
            raise TypeError(
                f"{name}: expected an environment with reset(rng) and step(state, action), got "
                f"one without {method}; see the protocol of MuJoCo Playground"
            )
    state = _reset_shapes(env)
    missing = [f for f in ("obs", "reward", "done", "info", "metrics") if not hasattr(state, f)]
    if missing:
        raise TypeError(
            f"{name}.reset: expected a state with obs, reward, done, info and metrics, got "
            f"{type(state).__name__} without {', '.join(missing)}"
        )
    if getattr(state.done, "shape", ()) != ():
        raise TypeError(
            f"{name}: expected a single environment, whose done is a scalar, got one with done of "
            f"shape {state.done.shape}: it is vectorised already; pass the environment inside the "
            "vectorising wrapper, n_envs copies are made here"
        )
    entries = map(str, state.info) if isinstance(state.info, Mapping) else ()
    marks = [entry for entry in entries if entry.endswith(_SELF_RESET_MARKS)] + [
        wrapper for wrapper in _wrapper_names(env) if "autoreset" in wrapper.lower()
    ]
    if marks:
        raise TypeError(
            f"{name}: expected an environment that stays where its episode ended, got one that "
            f"resets itself ({', '.join(marks)}): the last observation, from which a time limit "
            "is bootstrapped, would be lost; pass the environment inside that wrapper (use "
            "EpisodeWrapper for a time limit)"
        )


def _reset_shapes(env: Any) -> Any:
    """Shapes of a fresh state."""
    try:
        return jax.eval_shape(env.reset, jax.eval_shape(lambda: jax.random.key(0)))
    except Exception as error:
        raise TypeError(
            f"{type(env).__name__}.reset: expected a single environment that is reset with one "
            f"key, got {type(error).__name__}: {error}. If it is vectorised already, pass the "
            "environment inside the vectorising wrapper, n_envs copies are made here"
        ) from error


def _wrapper_names(env: Any) -> list[str]:
    """Class names from the outermost wrapper inwards."""
    names = [type(env).__name__]
    while len(names) < 32:
        held = getattr(env, "__dict__", {})
        env = held.get("env", held.get("_env"))
        if env is None:
            break
        names.append(type(env).__name__)
    return names


def _checked_output(networks: StatefulModule, obs: PyTree, n_envs: int) -> PPONetworkOutput:
    """Shapes of the network's output, or an error about the network or what it is given."""
    if not isinstance(networks, StatefulModule):
        raise TypeError(
            f"expected a network that is a StatefulModule, got {type(networks).__name__}; wrap an "
            "nnx layer in a StatefulModule subclass, a pure function in Apply"
        )
    graphdef, variables = nnx.split(networks)

    def call(obs: PyTree) -> Any:
        network = rebuild(graphdef, variables)
        state = initial_state(network, n_envs)
        out = network(state, obs)
        return state, out.next_state, out.output

    try:
        state, next_state, output = jax.eval_shape(call, obs)
    except RuntimeError:  # a forbidden write: nothing to do with the environment
        raise
    except Exception as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"the network cannot take the environment's observation: {error}. The environment "
            f"gives {_describe(obs)} for {n_envs} environments"
        ) from error
    if not isinstance(output, PPONetworkOutput):
        raise TypeError(
            f"expected a network whose output is a PPONetworkOutput, got {type(output).__name__}; "
            "end it with a PPOAdapter"
        )
    check_same_state(
        state,
        next_state,
        f"{type(networks).__name__}.__call__",
        "next_state must be of the type that initialize_state decides",
    )
    ones = jnp.ones(n_envs, bool)
    jax.eval_shape(lambda rows: reset_rows(rebuild(graphdef, variables), rows, ones), state)
    return output


def _stepped(env: Any, states: Any, actions: PyTree) -> Any:
    """Shapes of the stepped state, or an error that names what the environment wants."""
    name = type(env).__name__
    given = for_environment(env, states, actions)
    wanted = getattr(env, "action_size", None)
    if isinstance(wanted, int | np.integer | Mapping):
        _check_actions(name, given, wanted, getattr(env, "action_kind", "continuous"))
    problem = steps_with(env, states, given)
    if problem is not None:
        raise ValueError(
            f"{name}.step cannot take the network's actions: the network gives "
            f"{_describe(given)}, and the environment says: {problem}; change the width of the "
            "layer before the sampler, or the names of the action port"
        ) from problem
    return jax.eval_shape(jax.vmap(env.step), states, given)


def _check_actions(env_name: str, actions: PyTree, wanted: Any, kind: str) -> None:
    """Compares a tree of actions with the sizes, a number or a dict of them, that are wanted."""
    sizes, given = _by_path(wanted), _by_path(actions)
    if set(sizes) != set(given):
        raise ValueError(
            f"{env_name}: the environment wants actions {leaf_names(wanted)}, the network gives "
            f"{leaf_names(actions)}; name the samplers of the action port like that"
        )
    for path, action in given.items():
        discrete = jnp.issubdtype(action.dtype, jnp.integer)
        if discrete != (kind == "discrete"):
            raise ValueError(
                f"{env_name}: action{path}: the environment wants {kind} actions, the network "
                f"gives dtype {action.dtype}; use "
                + ("CategoricalSampler" if kind == "discrete" else "NormalTanhSampler")
            )
        size = sizes[path]
        if not discrete and action.shape[1:] != (size,):
            raise ValueError(
                f"{env_name}: action{path}: the environment wants {size} per row, the network "
                f"gives shape {action.shape}; the layer before a Gaussian sampler has width "
                f"2 * {size} = {2 * size}"
            )


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


def _describe(tree: PyTree) -> str:
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", tree))
