"""train_ppo: one training run."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx
from nnx_stateful import StatefulModule

from ._callbacks import (
    Callback,
    callback_states,
    check_callbacks,
    restore_callbacks,
    stop_at_return,
)
from ._check_training import check_functions, check_training, check_video
from ._checkpoint_saver import CheckpointSaver
from ._config import TrainConfig
from ._diagnosis import first_nonfinite
from ._episode_recording import record_episode
from ._evaluation import deterministic, make_evaluate, without_empty_groups
from ._hyperparameters import Hyperparameters
from ._interrupt import InterruptRequest
from ._keys import Purpose, evaluation_key, key_for
from ._loop import LogFn, Metrics, Task, TrainingLoop
from ._loop_state import LoopState, StateFactory, as_training_state, copy_arrays, set_learned_units
from ._nonfinite import NonFiniteError
from ._optimizer import Optimizer
from ._types import TrainingState, TrainResult, VideoData
from ._update import Iteration
from ._validate import shown

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
    optimizer: optax.GradientTransformation | None = None,
    callbacks: Sequence[Callback] = (),
) -> TrainResult:
    """Trains a network with PPO.

    The network that is passed in is left alone while training runs and holds the trained values
    afterwards, also after an interrupt or an error: then those of the last iteration that can be
    read.

    Args:
      env: the environment, not vectorised, without automatic resets.
      networks: any stateful module whose output is a PPONetworkOutput.
      config: the run; defaults to ``TrainConfig()``.
      total_steps: overrides ``config.ppo.total_steps``.
      seed: overrides ``config.seed``.
      log_fn: called with (metrics, steps) after every iteration; metrics are Python floats.
      video_fn: called with a VideoData; needs an environment with ``render``.
      checkpoint_fn: called with (training_state, steps); the state is a copy. If it has
        ``is_due(metrics, steps)``, it is also called when that returns True after an evaluation;
        if it has ``wait()``, that is called at the end. See :func:`make_checkpoint_fn`.
      eval_env: environment of evaluations and videos; defaults to ``env``.
      initial_state: a training state from which to go on.
      optimizer: an optax transformation to use instead of Adam, complete with its learning rate;
        the config's options of the optimiser must be left alone then.
      callbacks: functions (metrics, steps) that may return ``Stop()`` or
        ``ScaleLearningRate(factor)``. One iteration may already be under way when they are
        called; it is finished. A run that goes on does not show them its first step again, and
        gives back the state of those that have ``state_dict`` and ``load_state_dict``.

    Returns:
      The final state, metrics and evaluations.

    Raises:
      TypeError, ValueError: if network, environment and config do not fit together.
      NonFiniteError: if ten iterations in a row took no update since values were not finite, or at
        the first such value with ``nonfinite="raise"``; ``checkpoint_fn`` was called by then. Its
        attribute ``result`` holds the TrainResult.
      KeyboardInterrupt: after Ctrl-C, once the iteration is finished, ``checkpoint_fn`` was called
        and the network was written back. A second Ctrl-C does not wait.
      SystemExit: likewise after SIGTERM (code 143) and SIGUSR1 (138), where the process has no
        handler of its own for them.

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
    config = config_with(config, total_steps, seed)
    eval_env = env if eval_env is None else eval_env
    check_callbacks(callbacks)
    transformation = Optimizer(config.ppo, optimizer)
    check_training(env, eval_env, networks, config, transformation)
    check_functions(log_fn=log_fn, video_fn=video_fn, checkpoint_fn=checkpoint_fn)
    check_video(config, video_fn, eval_env)
    if isinstance(checkpoint_fn, CheckpointSaver):
        checkpoint_fn.note_config(config)
    callbacks = all_callbacks(config, callbacks)
    with InterruptRequest() as interrupt:
        run = _Run(env, eval_env, networks, config, transformation)
        run.log_fn, run.video_fn, run.checkpoint_fn = log_fn, video_fn, checkpoint_fn
        loop = run.loop(initial_state, callbacks)
        try:
            with waiting_for(checkpoint_fn):
                loop.run(interrupt)
        except NonFiniteError as error:
            run.write_back(loop.state)
            error.result = run.result(loop)
            raise
        except BaseException:
            with contextlib.suppress(Exception):  # the state may be lost, the error must not be
                run.write_back(loop.state)
            raise
    run.write_back(loop.state)
    return run.result(loop)


@contextlib.contextmanager
def waiting_for(checkpoint_fn: Any) -> Iterator[None]:
    """Context that waits at its end for what is still being saved."""
    try:
        yield
    finally:
        wait = getattr(checkpoint_fn, "wait", None)
        if wait is not None:
            wait()


def checkpoint_task(
    config: TrainConfig, checkpoint_fn: Any, save: Callable[[LoopState, int], Metrics]
) -> Task:
    """Returns the task that saves: by steps, by time, and when ``checkpoint_fn`` asks for it."""
    minutes = config.checkpoint_every_minutes
    return Task(
        "checkpoint",
        config.checkpoint_every_steps,
        save,
        saves=True,
        every_seconds=None if minutes is None else 60.0 * minutes,
        wanted=getattr(checkpoint_fn, "is_due", None),
    )


def config_with(
    config: TrainConfig | None, total_steps: int | None, seed: int | None = None
) -> TrainConfig:
    """The config, or the default one, with what overrides it."""
    config = TrainConfig() if config is None else config
    if not isinstance(config, TrainConfig):
        raise TypeError(
            f"config: expected a TrainConfig, such as TrainConfig(ppo=PPOConfig()), got "
            f"{shown(config)}"
        )
    if total_steps is not None:
        ppo = dataclasses.replace(config.ppo, total_steps=total_steps)
        config = dataclasses.replace(config, ppo=ppo)
    return config if seed is None else dataclasses.replace(config, seed=seed)


def all_callbacks(config: TrainConfig, callbacks: Sequence[Callback]) -> list[Callback]:
    """The user's callbacks, and the one that the config stands for."""
    if config.target_return is None:
        return list(callbacks)
    return [*callbacks, stop_at_return(config.target_return)]


class _Run:
    """One call of train_ppo: what the loop does between iterations, and what comes of it."""

    log_fn: LogFn | None
    video_fn: VideoFn | None
    checkpoint_fn: CheckpointFn | None

    def __init__(
        self,
        env: Any,
        eval_env: Any,
        networks: StatefulModule,
        config: TrainConfig,
        optimizer: Optimizer,
    ):
        self._networks = networks
        self._eval_env = eval_env
        self._config = config
        self._graphdef = nnx.split(networks)[0]
        self._states = StateFactory(env, self._graphdef, optimizer, config)
        self._rewards_graphdef = nnx.split(self._states.normalizer)[0]
        self._iteration = Iteration(
            env, self._graphdef, optimizer, config.ppo, self._rewards_graphdef
        )
        acting = deterministic(networks) if config.eval.deterministic else networks
        self._evaluate = jax.jit(make_evaluate(eval_env, nnx.split(acting)[0], config.eval))
        self._evaluations: list[Metrics] = []
        self._callbacks: Sequence[Callback] = ()
        self._loop: TrainingLoop | None = None

    def loop(self, start: TrainingState | None, callbacks: Sequence[Callback]) -> TrainingLoop:
        """Returns the loop, ready to run."""
        self._callbacks = callbacks
        hyper = Hyperparameters.of(self._config.ppo).as_arrays()
        if start is None:
            state_later = self._states.fresh_soon(self._networks, self._config.seed)
            compiled = self._iteration.compile(self._states.shapes(self._networks), hyper)
            state, steps = state_later(), 0
        else:
            compiled = None
            state, steps = self._states.resumed(start, self._networks), start.steps_taken
            restore_callbacks(callbacks, start.callbacks)
        self._loop = TrainingLoop(
            lambda *arguments: compiled or self._iteration.compile(*arguments),
            state,
            hyper,
            self._config,
            steps=steps,
            resumed=start is not None,
            tasks=list(self._tasks()),
            log_fn=self.log_fn,
            callbacks=callbacks,
            diagnose=self._diagnose,
        )
        return self._loop

    def _diagnose(self, state: LoopState, steps: int, metrics: Metrics) -> str:
        return first_nonfinite(self._iteration, state, steps, metrics)

    def _tasks(self) -> list[Task]:
        config = self._config
        tasks = []
        if config.eval.enabled:
            tasks.append(Task("evaluation", config.eval.every_steps, self._run_evaluation))
        if config.video.enabled:
            tasks.append(Task("video", config.video.every_steps, self._render))
        if self.checkpoint_fn is not None:
            tasks.append(checkpoint_task(config, self.checkpoint_fn, self._checkpoint))
        return tasks

    def _run_evaluation(self, state: LoopState, steps: int) -> Metrics:
        variables = nnx.merge_state(state.params, state.variables)
        metrics = jax.device_get(self._evaluate(variables, evaluation_key(self._config, steps)))
        metrics = {name: float(value) for name, value in without_empty_groups(metrics).items()}
        self._evaluations.append({"step": steps, **metrics})
        return metrics

    def _checkpoint(self, state: LoopState, steps: int) -> Metrics:
        assert self.checkpoint_fn is not None
        self.checkpoint_fn(self._training_state(state, steps), steps)
        return {}

    def _render(self, state: LoopState, steps: int) -> Metrics:
        assert self.video_fn is not None
        video = self._config.video
        index = steps // self._config.ppo.steps_per_iteration
        key = jax.random.fold_in(key_for(self._config.seed, Purpose.VIDEO), index)
        networks = self._training_state(state, steps).networks
        trajectory = record_episode(self._eval_env, networks, video.episode_length, key)
        frames = self._eval_env.render(trajectory, **video.render_kwargs)
        reward = sum(np.sum(leaf) for s in trajectory[1:] for leaf in jax.tree.leaves(s.reward))
        self.video_fn(VideoData(np.stack(frames), steps, float(reward), len(trajectory) - 1))
        return {}

    def _training_state(self, state: LoopState, steps: int) -> TrainingState:
        own = as_training_state(copy_arrays(state), self._graphdef, self._rewards_graphdef, steps)
        states = callback_states(self._callbacks)
        metrics = dict(self._loop.metrics) if self._loop else {}
        if not self._evaluations or self._evaluations[-1]["step"] != steps:
            # An evaluation of other parameters must not make this checkpoint the best.
            metrics = {k: v for k, v in metrics.items() if not k.startswith("eval/")}
        return dataclasses.replace(own, callbacks=states, metrics=metrics)

    def write_back(self, state: LoopState) -> None:
        """Puts the trained values into the network that the user passed in, if they can be read."""
        copies = copy_arrays((state.params, state.variables))
        nnx.update(self._networks, *jax.block_until_ready(copies))
        set_learned_units(self._networks, state)

    def result(self, loop: TrainingLoop) -> TrainResult:
        """Returns the outcome; its network is the user's own."""
        state = self._training_state(loop.state, loop.steps)
        return TrainResult(
            training_state=dataclasses.replace(state, networks=self._networks),
            final_metrics=loop.metrics,
            eval_history=self._evaluations,
            total_steps=loop.steps,
            total_iterations=loop.iterations,
            stopped_by=loop.stop.reason if loop.stop else None,
        )
