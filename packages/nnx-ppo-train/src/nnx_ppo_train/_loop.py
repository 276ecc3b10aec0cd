"""The training loop: compiled iterations, and what happens between them on the host."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from flax import nnx
from nnx_stateful import StatefulModule

from ._boundary import check_boundary
from ._config import LoggingLevel, TrainConfig
from ._episode_recording import record_episode
from ._evaluation import deterministic, make_evaluate
from ._interrupt import InterruptRequest
from ._keys import Purpose, key_for
from ._loop_state import copy_arrays, fresh_state, resumed_state
from ._optimizer import make_optimizer
from ._types import TrainingState, TrainResult, VideoData
from ._update import make_iteration

LogFn = Callable[[dict[str, Any], int], None]
VideoFn = Callable[[VideoData], None]
CheckpointFn = Callable[[TrainingState, int], None]


def train_ppo(
    env: Any,
    networks: StatefulModule,
    config: TrainConfig | None = None,
    *,
    total_steps: int | None = None,
    seed: int | None = None,
    log_fn: LogFn | None = None,
    video_fn: VideoFn | None = None,
    checkpoint_fn: CheckpointFn | None = None,
    eval_env: Any = None,
    initial_state: TrainingState | None = None,
) -> TrainResult:
    """Trains a network with PPO.

    The network that is passed in is left alone while training runs and holds the trained values
    afterwards, also after an interrupt or an error in a callback.

    Args:
      env: the environment, not vectorised, without automatic resets.
      networks: any stateful module whose output is a PPONetworkOutput.
      config: the run; defaults to ``TrainConfig()``.
      total_steps: overrides ``config.ppo.total_steps``.
      seed: overrides ``config.seed``.
      log_fn: called with (metrics, steps) after every iteration; metrics are Python floats.
      video_fn: called with a VideoData; needs an environment with ``render``.
      checkpoint_fn: called with (training_state, steps); the state is a copy.
      eval_env: environment of evaluations and videos; defaults to ``env``.
      initial_state: a training state from which to go on.

    Returns:
      The final state, metrics and evaluations.

    Raises:
      TypeError, ValueError: if network, environment and config do not fit together.
      KeyboardInterrupt: after Ctrl-C, once the iteration is finished, ``checkpoint_fn`` was called
        and the network was written back. A second Ctrl-C does not wait.

    Example:
      >>> from flax import nnx
      >>> from nnx_ppo_train import EvalConfig, PPOConfig, TrainConfig
      >>> from nnx_ppo_train.envs import make_env
      >>> from nnx_ppo_train.presets import make_mlp_actor_critic
      >>> env = make_env("cartpole")
      >>> net = make_mlp_actor_critic(env.observation_size, env.action_size, nnx.Rngs(0))
      >>> config = TrainConfig(
      ...     ppo=PPOConfig(n_envs=8, rollout_length=4, total_steps=64),
      ...     eval=EvalConfig(enabled=False),
      ... )
      >>> train_ppo(env, net, config).total_steps
      64
    """
    config = config or TrainConfig()
    if total_steps is not None:
        ppo = dataclasses.replace(config.ppo, total_steps=total_steps)
        config = dataclasses.replace(config, ppo=ppo)
    if seed is not None:
        config = dataclasses.replace(config, seed=seed)
    eval_env = env if eval_env is None else eval_env
    check_boundary(env, networks, config.ppo.n_envs, config.ppo.combine_advantages)
    if eval_env is not env:
        check_boundary(eval_env, networks, config.eval.n_envs, config.ppo.combine_advantages)
    _check_video(config, video_fn, eval_env)
    with InterruptRequest() as interrupt:
        session = _Session(env, eval_env, networks, config, initial_state)
        session.log_fn, session.video_fn, session.checkpoint_fn = log_fn, video_fn, checkpoint_fn
        try:
            session.run(interrupt)
        finally:
            session.write_back()
    return session.result()


class _Session:
    """One call of train_ppo: the loop state, the step count, and what is due when."""

    log_fn: LogFn | None
    video_fn: VideoFn | None
    checkpoint_fn: CheckpointFn | None

    def __init__(
        self,
        env: Any,
        eval_env: Any,
        networks: StatefulModule,
        config: TrainConfig,
        start: TrainingState | None,
    ):
        self._networks = networks
        self._eval_env = eval_env
        self._config = config
        self._optimizer = make_optimizer(config.ppo)
        self._graphdef = nnx.split(networks)[0]
        if start is None:
            self._steps = 0
            self._state = fresh_state(env, networks, self._optimizer, config)
        else:
            self._steps = start.steps_taken
            self._state = resumed_state(start, env, networks, self._optimizer, config)
        self._iterate = make_iteration(env, self._graphdef, self._optimizer, config.ppo)
        eval_graphdef = nnx.split(deterministic(networks))[0]
        self._evaluate = make_evaluate(eval_env, eval_graphdef, config.eval)
        self._iterations = 0
        self._last_run: dict[str, int] = {}
        self._metrics: dict[str, Any] = {}
        self._evaluations: list[dict[str, Any]] = []

    def run(self, interrupt: InterruptRequest) -> None:
        """Iterates until the step count is reached or an interrupt is asked for.

        Metrics of an iteration are fetched only when the next one has been dispatched, so the
        device never waits for the host; no more than two iterations are under way.
        """
        metrics = self._between_iterations(final=False)
        if metrics:
            self._log(metrics, self._steps)
        pending: tuple[dict[str, Any], int] | None = None
        while self._steps < self._config.ppo.total_steps and not interrupt.requested:
            metrics = self._iteration()
            if pending is not None:
                self._log(*pending)
            final = self._steps >= self._config.ppo.total_steps or interrupt.requested
            pending = (metrics | self._between_iterations(final), self._steps)
        if pending is not None:
            self._log(*pending)
        if interrupt.requested:
            if self._last_run.get("checkpoint") != self._steps:
                self._checkpoint()
            raise KeyboardInterrupt

    def _iteration(self) -> dict[str, Any]:
        """Dispatches one iteration; its metrics are arrays that may still be under way."""
        ppo = self._config.ppo
        started = time.perf_counter()
        self._state, arrays = self._iterate(self._state)
        metrics: dict[str, Any] = dict(arrays)
        self._steps += ppo.n_envs * ppo.rollout_length
        self._iterations += 1
        if LoggingLevel.THROUGHPUT in ppo.logging_level:
            jax.block_until_ready(metrics)
            elapsed = time.perf_counter() - started
            metrics["throughput/train_sps"] = ppo.n_envs * ppo.rollout_length / elapsed
        return metrics

    def _between_iterations(self, final: bool) -> dict[str, Any]:
        """Runs what is due at this step count; returns metrics to log."""
        config = self._config
        metrics: dict[str, Any] = {}
        if config.eval.enabled and self._due("eval", config.eval.every_steps, final):
            metrics = jax.device_get(
                self._evaluate(self._variables(), key_for(config.seed, Purpose.EVALUATION))
            )
            metrics = {name: float(value) for name, value in metrics.items()}
            self._evaluations.append({"step": self._steps, **metrics})
        if config.video.enabled and self._due("video", config.video.every_steps, final):
            self._render()
        if self._due("checkpoint", config.checkpoint_every_steps, final):
            self._checkpoint()
        return metrics

    def _due(self, task: str, every_steps: int, final: bool) -> bool:
        last = self._last_run.get(task)
        due = last is None or self._steps // every_steps > last // every_steps
        due = due or (final and last != self._steps)
        if due:
            self._last_run[task] = self._steps
        return due

    def _log(self, metrics: dict[str, Any], steps: int) -> None:
        self._metrics = {name: float(value) for name, value in jax.device_get(metrics).items()}
        if self.log_fn is not None:
            self.log_fn(dict(self._metrics), steps)

    def _variables(self) -> Any:
        return nnx.merge_state(self._state.params, self._state.variables)

    def _checkpoint(self) -> None:
        if self.checkpoint_fn is not None:
            self.checkpoint_fn(self._training_state(), self._steps)

    def _render(self) -> None:
        if self.video_fn is None:
            return
        video = self._config.video
        key = jax.random.fold_in(key_for(self._config.seed, Purpose.VIDEO), self._iterations)
        state = self._training_state()
        trajectory = record_episode(self._eval_env, state.networks, video.episode_length, key)
        frames = self._eval_env.render(trajectory, **video.render_kwargs)
        reward = sum(np.sum(leaf) for s in trajectory[1:] for leaf in jax.tree.leaves(s.reward))
        self.video_fn(VideoData(np.stack(frames), self._steps, float(reward), len(trajectory) - 1))

    def _training_state(self) -> TrainingState:
        state = copy_arrays(self._state)
        return TrainingState(
            networks=nnx.merge(self._graphdef, state.params, state.variables),
            network_states=state.network_states,
            env_states=state.env_states,
            optimizer=state.optimizer,
            rng_key=state.key,
            steps_taken=self._steps,
            episodes=state.tally,
        )

    def write_back(self) -> None:
        """Puts the trained values into the network that the user passed in."""
        nnx.update(self._networks, *copy_arrays((self._state.params, self._state.variables)))

    def result(self) -> TrainResult:
        """Returns the outcome; its network is the user's own."""
        latest = {k: v for k, v in (self._evaluations or [{}])[-1].items() if k != "step"}
        return TrainResult(
            training_state=dataclasses.replace(self._training_state(), networks=self._networks),
            final_metrics=self._metrics | latest,
            eval_history=self._evaluations,
            total_steps=self._steps,
            total_iterations=self._iterations,
        )


def _check_video(config: TrainConfig, video_fn: VideoFn | None, eval_env: Any) -> None:
    if not config.video.enabled:
        return
    if video_fn is None:
        raise ValueError("VideoConfig.enabled is set, but there is no video_fn to receive videos")
    if not callable(getattr(eval_env, "render", None)):
        raise ValueError(
            f"VideoConfig.enabled is set, but {type(eval_env).__name__} has no render method; "
            "give it render(trajectory, **render_kwargs) or disable videos"
        )
