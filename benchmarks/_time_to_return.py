"""Task, settings, evaluation and clock of `time_to_return_vs_brax.py`, for both libraries."""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.monitoring
import jax.numpy as jnp
from _speed_worker import peak_bytes
from mujoco_playground import registry
from mujoco_playground.config import dm_control_suite_params
from nnx_ppo_train import EpisodeWrapper

TASK = "CartpoleBalance"
POLICY_LAYERS, VALUE_LAYERS = (32,) * 4, (256,) * 5  # Brax's own; Playground names no others here
GAE_LAMBDA, CLIP, VALUE_WEIGHT = 0.95, 0.3, 0.5  # likewise
N_EPISODES, EVALUATION_SEED = 32, 20_000
COMPILE = "/jax/core/compile/"


def load_env() -> Any:
    """The task, on CPU with MuJoCo's JAX implementation, which is the faster one there."""
    overrides = {"impl": "jax"} if jax.default_backend() == "cpu" else None
    return registry.load(TASK, config_overrides=overrides)


@dataclasses.dataclass(frozen=True)
class Run:
    """How long to train and what for.

    Attributes:
        settings: Playground's, with what replaces them.
        n_iterations: Iterations from one evaluation to the next.
        n_evaluations: At most, after the first.
        target: Return at which to stop.
    """

    settings: Any
    n_iterations: int
    n_evaluations: int
    target: float

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of a rollout of all environments."""
        settings = self.settings
        return settings.batch_size * settings.num_minibatches * settings.unroll_length

    @property
    def every(self) -> int:
        """Environment steps from one evaluation to the next."""
        return self.n_iterations * self.steps_per_iteration


def make_run(overrides: dict[str, int], steps: int, every: int, target: float) -> Run:
    """Playground's settings, and steps rounded up to whole iterations."""
    settings = dm_control_suite_params.brax_ppo_config(TASK)
    settings.update(overrides)
    run = Run(settings, 1, 1, target)
    run = dataclasses.replace(run, n_iterations=math.ceil(every / run.steps_per_iteration))
    return dataclasses.replace(run, n_evaluations=math.ceil(steps / run.every))


class Reached(Exception):
    """The target return is reached: ends the training."""


class Clock:
    """Seconds of training so far, and how many of them JAX spent on tracing and compilation."""

    def __init__(self):
        self._compiling: list[tuple[float, float]] = []
        self._paused = False
        self._excluded = 0.0
        self._started = time.perf_counter()
        jax.monitoring.register_event_duration_secs_listener(self._note)

    def _note(self, event: str, duration_secs: float, **kwargs: Any) -> None:
        del kwargs
        if event.startswith(COMPILE) and not self._paused:
            now = time.perf_counter()
            self._compiling.append((now - duration_secs, now))

    def excluding(self, function: Callable[[], float]) -> tuple[float, dict[str, float]]:
        """Calls a function, whose time does not count; also returns the reading before it."""
        before = time.perf_counter()
        reading = {
            "seconds": before - self._started - self._excluded,
            "compile_seconds": union(self._compiling),
        }
        self._paused = True
        result = function()
        self._paused = False
        self._excluded += time.perf_counter() - before
        return result, reading


def union(intervals: list[tuple[float, float]]) -> float:
    """Seconds within any of the intervals: the tracing of a function holds that of its parts."""
    total, end = 0.0, -math.inf
    for first, last in sorted(intervals):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


class Curve:
    """Returns and times as training goes on; ends it at the target.

    The return is the mean over `N_EPISODES` whole episodes that start in the same states for
    everyone.

    Args:
        run: What is trained.
        act: `(params, carry, obs) -> (carry, actions)`, batched, without randomness.
        carry: The policy's memory at the start.
    """

    def __init__(self, run: Run, act: Callable[..., tuple[Any, Any]], carry: Any):
        length = run.settings.episode_length
        env = EpisodeWrapper(load_env(), length)
        keys = jax.random.split(jax.random.key(EVALUATION_SEED), N_EPISODES)

        def mean_return(params: Any, keys: Any) -> Any:
            def step(loop: Any, _: None) -> tuple[Any, Any]:
                state, carry, over = loop
                carry, action = act(params, carry, state.obs)
                state = jax.vmap(env.step)(state, action)
                reward = jnp.where(over, 0.0, state.reward)
                return (state, carry, over | state.done.astype(bool)), reward

            start = (jax.vmap(env.reset)(keys), carry, jnp.zeros(N_EPISODES, bool))
            return jax.lax.scan(step, start, None, length)[1].sum(0).mean()

        compiled = jax.jit(mean_return)
        self.points: list[dict[str, float]] = []
        self._evaluate = lambda params: float(compiled(params, keys))
        self._target = run.target
        self._clock = Clock()

    def add(self, steps: int, params: Any) -> None:
        """Evaluates; raises :class:`Reached` if that is enough, and training has begun."""
        value, reading = self._clock.excluding(lambda: self._evaluate(params))
        self.points.append({"steps": steps, "return": value, **reading})
        if value >= self._target and len(self.points) > 1:
            raise Reached

    def result(self) -> dict[str, Any]:
        """The curve and the largest memory of the process."""
        return {"points": self.points, "peak_bytes": peak_bytes()}
