"""Whether an object is an environment that a rollout can use."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

_SELF_RESET_MARKS = ("first_obs", "first_state", "first_pipeline_state")


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
        wrapper for wrapper in _class_names(env) if "autoreset" in wrapper.lower()
    ]
    if marks:
        raise resets_itself(env, marks)


def resets_itself(env: Any, marks: list[str]) -> TypeError:
    """The error for an environment that resets itself, which ``marks`` show."""
    return TypeError(
        f"{type(env).__name__}: expected an environment that stays where its episode ended, got "
        f"one that resets itself ({', '.join(marks)}): the last observation, from which a time "
        "limit is bootstrapped, would be lost; pass the environment inside that wrapper (use "
        "EpisodeWrapper for a time limit)"
    )


@contextlib.contextmanager
def calls_reset(env: Any) -> Iterator[list[str]]:
    """Context that notes the classes whose ``reset`` is called, on any level of wrappers."""
    called: list[str] = []
    levels = [level for level in _levels(env) if isinstance(getattr(level, "__dict__", None), dict)]
    own = [level.__dict__.get("reset") for level in levels]

    def watched(level: Any) -> Callable[..., Any]:
        reset = level.reset

        def noted(*args: Any, **kwargs: Any) -> Any:
            called.append(type(level).__name__)
            return reset(*args, **kwargs)

        return noted

    for level in levels:
        level.__dict__["reset"] = watched(level)
    try:
        yield called
    finally:
        for level, before in zip(levels, own, strict=True):
            if before is None:
                level.__dict__.pop("reset", None)
            else:
                level.__dict__["reset"] = before


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


def _class_names(env: Any) -> list[str]:
    return [type(level).__name__ for level in _levels(env)]


def _levels(env: Any) -> list[Any]:
    """The environment and those inside it, from the outermost wrapper inwards."""
    levels = [env]
    while len(levels) < 32:
        held = getattr(levels[-1], "__dict__", {})
        inner = held.get("env", held.get("_env"))
        if inner is None:
            break
        levels.append(inner)
    return levels
