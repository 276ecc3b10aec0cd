"""Compatibility checks of an environment on its own."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from nnx_stateful import CheckReport, PyTree, check_same_state

from ._action_kinds import action_specs
from ._env_watch import levels, step_shapes

_SELF_RESET_MARKS = ("first_obs", "first_state", "first_pipeline_state")


def check_env(env: Any) -> CheckReport:
    """Checks that ``env`` is a single environment whose parts agree and that never resets itself.

    Only shapes are evaluated, and nothing of the environment's is changed: several threads may
    check one environment. A step needs an action, which is made after ``action_size`` and
    ``action_kind``; where the environment does not state them, the step is left to the checks of
    training, which have the network's action.

    Args:
      env: the environment.

    Returns:
      A report that says what was checked.

    Raises:
      TypeError: if it is no environment, is vectorized, or resets itself.
      ValueError: if ``observation_size`` or ``action_size`` contradict what ``reset`` gives and
        ``step`` takes, or if ``step`` returns a state of another tree, shape or dtype than
        ``reset``; the message names the path.

    Example:
      >>> from nnx_ppo_train.envs import CartPole
      >>> check_env(CartPole())
      check_env(CartPole): passed
        checked  reset: float32[4] observation, float32[] reward
        checked  observation_size: agrees with the observation
        checked  step: takes actions of action_size, keeps tree, shapes and dtypes of the state
        checked  resets: left to the caller
    """
    state, checked, skipped = check_reset(env)
    specs = action_specs(env)
    if specs is None:
        skipped += (
            "step: the environment does not state its action_size; training checks it with the "
            "network's action",
        )
    else:
        _check_step(env, state, jax.tree.map(_zero_action, specs))
        checked += (
            "step: takes actions of action_size, keeps tree, shapes and dtypes of the state",
            "resets: left to the caller",
        )
    return CheckReport(f"check_env({type(env).__name__})", checked, skipped)


def check_reset(env: Any) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """Checks what can be checked without a step.

    Returns:
      The shapes of a fresh state, and the lines of the report: what was checked, what was not.

    Raises:
      TypeError, ValueError: see :func:`check_env`.
    """
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
    if getattr(state.done, "shape", None) != ():
        raise TypeError(
            f"{name}: expected a single environment, whose done is a scalar, got one with done "
            f"{_shapes(state.done)}: it is vectorized already; pass the environment inside the "
            "vectorizing wrapper, n_envs copies are made here"
        )
    if not any(jnp.issubdtype(state.done.dtype, kind) for kind in (jnp.bool_, jnp.number)):
        raise TypeError(f"{name}: expected a done of bools or numbers, got {state.done.dtype}")
    entries = map(str, state.info) if isinstance(state.info, Mapping) else ()
    marks = [entry for entry in entries if entry.endswith(_SELF_RESET_MARKS)] + [
        wrapper
        for wrapper in (type(level).__name__ for level in levels(env))
        if "autoreset" in wrapper.lower()
    ]
    if marks:
        raise _resets_itself(env, marks)
    line = f"reset: {_shapes(state.obs)} observation, {_shapes(state.reward)} reward"
    size = getattr(env, "observation_size", None)
    if size is None:
        return state, (line,), ("observation_size: not stated",)
    _check_observation_size(name, size, state.obs, "")
    return state, (line, "observation_size: agrees with the observation"), ()


def _resets_itself(env: Any, marks: list[str]) -> TypeError:
    """The error for an environment that resets itself, which ``marks`` show."""
    return TypeError(
        f"{type(env).__name__}: expected an environment that stays where its episode ended, got "
        f"one that resets itself ({', '.join(marks)}): the last observation, from which a time "
        "limit is bootstrapped, would be lost; pass the environment inside that wrapper (use "
        "EpisodeWrapper for a time limit)"
    )


def watched_step(env: Any, states: Any, actions: PyTree) -> Any:
    """Shapes of the states after a vectorized step.

    Raises:
      TypeError: if the step calls ``reset``, on any level of wrappers.
    """
    stepped, called = step_shapes(lambda level: jax.vmap(level.step), env, states, actions)
    _refuse_calls(env, called)
    return stepped


def check_step_keeps(env: Any, before: Any, after: Any) -> None:
    """Raises ValueError unless a step returns the tree, shapes and dtypes of the state."""
    check_same_state(
        before,
        after,
        f"{type(env).__name__}.step",
        "an environment must return states of one type: make reset and step agree",
    )


def _check_step(env: Any, state: Any, action: PyTree) -> None:
    try:
        stepped, called = step_shapes(lambda level: level.step, env, state, action)
    except Exception as error:
        raise ValueError(
            f"{type(env).__name__}.step: expected it to take the actions that action_size = "
            f"{env.action_size!r} and action_kind = {getattr(env, 'action_kind', 'continuous')!r} "
            f"state, {_shapes(action)}, got {type(error).__name__}: {error}; make them agree"
        ) from error
    _refuse_calls(env, called)
    check_step_keeps(env, state, stepped)


def _refuse_calls(env: Any, called: list[str]) -> None:
    if called:
        raise _resets_itself(env, [f"its step calls {called[0]}.reset"])


def _zero_action(spec: Any) -> jax.ShapeDtypeStruct:
    dtype = jnp.result_type(float) if spec.kind == "continuous" else jnp.int32
    return jax.ShapeDtypeStruct(spec.shape, dtype)


def _check_observation_size(name: str, size: Any, obs: PyTree, path: str) -> None:
    """Raises ValueError if a stated size, a number or a shape, is not that of the observation."""
    if isinstance(size, Mapping):
        if not isinstance(obs, Mapping) or set(obs) != set(size):
            got = sorted(map(str, obs)) if isinstance(obs, Mapping) else _shapes(obs)
            raise ValueError(
                f"{name}.observation_size{path}: expected the entries of the observation, got "
                f"{sorted(map(str, size))}; the observation has {got}"
            )
        for key, part in size.items():
            _check_observation_size(name, part, obs[key], f"{path}[{key!r}]")
        return
    shape = _as_shape(size)
    if shape is None:  # another convention, such as a space
        return
    found = getattr(obs, "shape", None)
    agrees = found == shape
    if found is not None and len(shape) == 1:  # one number: of features, the last axis
        agrees = shape[0] == (found[-1] if found else 1)
    if not agrees:
        raise ValueError(
            f"{name}.observation_size{path}: expected the size of the observation, "
            f"{_shapes(obs)}, got {size!r}; make them agree"
        )


def _as_shape(size: Any) -> tuple[int, ...] | None:
    """A stated size as a shape; None if it is neither a number nor a shape."""
    numbers = tuple(size) if isinstance(size, tuple | list) else (size,)
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in numbers)
    return tuple(int(n) for n in numbers) if whole else None


def _reset_shapes(env: Any) -> Any:
    """Shapes of a fresh state."""
    try:
        return jax.eval_shape(env.reset, jax.eval_shape(lambda: jax.random.key(0)))
    except Exception as error:
        raise TypeError(
            f"{type(env).__name__}.reset: expected a single environment that is reset with one "
            f"key, got {type(error).__name__}: {error}. If it is vectorized already, pass the "
            "environment inside the vectorizing wrapper, n_envs copies are made here"
        ) from error


def _shapes(tree: PyTree) -> str:
    described = jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", tree)
    return str(described).replace("'", "") if not isinstance(described, str) else described
