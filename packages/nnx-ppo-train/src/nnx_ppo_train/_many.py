"""train_ppo_many: whole trainings side by side, over seeds and over numeric options."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx
from nnx_stateful import StatefulModule

from ._arguments import check_function
from ._callbacks import Callback, callback_states, check_callbacks, restore_callbacks
from ._check_training import check_functions, check_options, check_training
from ._config import TrainConfig
from ._diagnosis import first_nonfinite
from ._epochs import SKIPPED
from ._evaluation import deterministic, make_evaluate, without_empty_groups
from ._hyperparameters import Hyperparameters
from ._interrupt import InterruptRequest
from ._keys import evaluation_key
from ._loop import LogFn, Metrics, Task, TrainingLoop
from ._loop_state import LoopState, StateFactory, as_training_state
from ._members import make_networks, over_members, stacked
from ._nonfinite import SAMPLES
from ._optimizer import Optimizer
from ._sweep import Member, make_members
from ._train import all_callbacks, checkpoint_task, config_with, waiting_for
from ._types import TrainingState
from ._update import Iteration, compile_whole
from ._validate import shown

MemberCheckpointFn = Callable[[TrainingState, int, Member], None]


@dataclasses.dataclass(frozen=True)
class ManyResult:
    """Result of :func:`train_ppo_many`; N is the number of members.

    Attributes:
      members: seed, swept values and config of each.
      training_states: one per member, from which ``train_ppo`` can go on alone.
      final_metrics: the latest value of every metric, arrays (N,).
      eval_history: one dict of arrays (N,) per evaluation, with its "step".
      total_steps: environment steps taken by each member.
      total_iterations: iterations done in this call.
      stopped_by: why training ended before ``total_steps``, None if it did not.
    """

    members: tuple[Member, ...]
    training_states: tuple[TrainingState, ...]
    final_metrics: Metrics
    eval_history: list[Metrics]
    total_steps: int
    total_iterations: int
    stopped_by: str | None


def train_ppo_many(
    make_env: Callable[[], Any],
    make_network: Callable[[Any, nnx.Rngs], StatefulModule],
    config: TrainConfig | None = None,
    *,
    seeds: Iterable[int],
    sweep: Mapping[str, Iterable[Any]] | None = None,
    total_steps: int | None = None,
    log_fn: LogFn | None = None,
    checkpoint_fn: MemberCheckpointFn | None = None,
    eval_env: Any = None,
    initial_states: Sequence[TrainingState] | None = None,
    optimizer: optax.GradientTransformation | None = None,
    callbacks: Sequence[Callback] = (),
    vectorize: bool | None = None,
) -> ManyResult:
    """Runs many trainings at once, in one compiled program.

    Each member does what ``train_ppo(make_env(), make_network(env, nnx.Rngs(seed)), config,
    seed=seed)`` does, to rounding.

    Args:
      make_env: makes the environment, which all members share.
      make_network: makes a member's network for the environment from ``nnx.Rngs(seed)``.
      config: what the members share; its seed is not used.
      seeds: the members' seeds.
      sweep: values by name of a numeric option of PPOConfig; every seed runs with every
        combination of them.
      total_steps: overrides ``config.ppo.total_steps``, for each member.
      log_fn: called with (metrics, steps) after every iteration; metrics are arrays (N,), but for
        ``throughput/...``.
      checkpoint_fn: called with (training_state, steps, member) for every member.
      eval_env: environment of evaluations; by default the same.
      initial_states: training states from which to go on, one per member.
      optimizer: see ``train_ppo``.
      callbacks: see ``train_ppo``; they act on all members.
      vectorize: whether every operation runs over all members at once (``jax.vmap``), as suits an
        accelerator, or members take turns within an iteration (``jax.lax.map``), as suits a CPU,
        whose cores one member keeps busy. None chooses by JAX's default backend.

    Returns:
      Members, their training states, metrics and evaluations.

    Raises:
      TypeError, ValueError: if network, environment, config, seeds and sweep do not fit together.
      NonFiniteError: if ten iterations in a row took no update in any member, see ``train_ppo``.
      KeyboardInterrupt, SystemExit: as ``train_ppo``, once ``checkpoint_fn`` was called. These and
        any other exception from the loop carry what was trained as their attribute ``result``.

    Example:
      >>> from nnx_ppo_train import EvalConfig, PPOConfig, TrainConfig, envs, presets
      >>> config = TrainConfig(
      ...     ppo=PPOConfig(n_envs=8, rollout_length=4, total_steps=64),
      ...     eval=EvalConfig(enabled=False),
      ... )
      >>> result = train_ppo_many(
      ...     lambda: envs.make_env("cartpole"),
      ...     lambda env, rngs: presets.make_network("mlp", env, rngs),
      ...     config,
      ...     seeds=[0, 1],
      ...     sweep={"learning_rate": [1e-3, 1e-4]},
      ... )
      >>> [(member.seed, member.values["learning_rate"]) for member in result.members]
      [(0, 0.001), (1, 0.001), (0, 0.0001), (1, 0.0001)]
      >>> result.final_metrics["losses/actor"].shape
      (4,)
    """
    config = config_with(config, total_steps)
    over_all = over_members(vectorize)
    if config.video.enabled:
        raise ValueError(
            "VideoConfig.enabled: expected False for many trainings at once; record episodes of "
            "result.training_states[i].networks afterwards with record_episode"
        )
    check_callbacks(callbacks)
    members = make_members(config, seeds, sweep)
    check_function(make_env, "train_ppo_many: make_env")
    check_function(make_network, "train_ppo_many: make_network", "env", "rngs")
    env = make_env()
    eval_env = env if eval_env is None else eval_env
    networks = make_networks(env, make_network, members)
    check_functions(log_fn=log_fn, checkpoint_fn=checkpoint_fn)
    transformation = Optimizer(members[0].config.ppo, optimizer)
    check_training(env, eval_env, networks[0], members[0].config, transformation)
    for member in members[1:]:
        transformation = Optimizer(member.config.ppo, optimizer)
        check_options(env, networks[0], member.config, transformation)
    with InterruptRequest() as interrupt:
        run = _ManyRuns(env, eval_env, networks, members, transformation, over_all)
        loop = run.loop(initial_states, log_fn, checkpoint_fn, all_callbacks(config, callbacks))
        try:
            with waiting_for(checkpoint_fn):
                loop.run(interrupt)
        except BaseException as error:
            with contextlib.suppress(Exception):  # the state may be lost, the error must not be
                setattr(error, "result", run.result(loop))  # noqa: B010 - any exception
            raise
    return run.result(loop)


class _ManyRuns:
    """One call of train_ppo_many."""

    def __init__(
        self,
        env: Any,
        eval_env: Any,
        networks: Sequence[StatefulModule],
        members: Sequence[Member],
        optimizer: Optimizer,
        over_all: Callable[[Callable[..., Any]], Callable[..., Any]],
    ):
        shared = members[0].config
        self._networks = networks
        self._members = members
        self._config = shared
        self._graphdef = nnx.split(networks[0])[0]
        self._states = StateFactory(env, self._graphdef, optimizer, shared)
        self._rewards_graphdef = nnx.split(self._states.normalizer)[0]
        iteration = Iteration(env, self._graphdef, optimizer, shared.ppo, self._rewards_graphdef)
        self._iteration = iteration
        self._compile = functools.partial(compile_whole, over_all(iteration), shared.ppo)
        acting = deterministic(networks[0]) if shared.eval.deterministic else networks[0]
        evaluate = make_evaluate(eval_env, nnx.split(acting)[0], shared.eval)
        self._evaluate = jax.jit(over_all(evaluate))
        self._checkpoint_fn: MemberCheckpointFn | None = None
        self._evaluations: list[Metrics] = []
        self._callbacks: Sequence[Callback] = ()
        self._loop: TrainingLoop | None = None

    def loop(
        self,
        starts: Sequence[TrainingState] | None,
        log_fn: LogFn | None,
        checkpoint_fn: MemberCheckpointFn | None,
        callbacks: Sequence[Callback],
    ) -> TrainingLoop:
        """Returns the loop, ready to run."""
        states, steps = self._starts(starts)
        hypers = [Hyperparameters.of(member.config.ppo).as_arrays() for member in self._members]
        self._checkpoint_fn, self._callbacks = checkpoint_fn, callbacks
        tasks = []
        if self._config.eval.enabled:
            tasks.append(Task("evaluation", self._config.eval.every_steps, self._run_evaluation))
        if checkpoint_fn is not None:
            tasks.append(checkpoint_task(self._config, checkpoint_fn, self._checkpoint))
        if starts is not None:
            restore_callbacks(callbacks, starts[0].callbacks)
        self._loop = TrainingLoop(
            self._compile,
            stacked(states),
            stacked(hypers),
            self._config,
            steps=steps,
            resumed=starts is not None,
            tasks=tasks,
            log_fn=log_fn,
            callbacks=callbacks,
            diagnose=self._diagnose,
            members=len(self._members),
        )
        return self._loop

    def _diagnose(self, state: LoopState, steps: int, metrics: Metrics) -> str:
        for index, member in enumerate(self._members):
            own = {name: value[index] for name, value in metrics.items() if np.ndim(value)}
            if own[SAMPLES] or own[SKIPPED]:
                row = jax.tree.map(lambda leaf: leaf[index], state)  # noqa: B023
                found = first_nonfinite(self._iteration, row, steps, own)
                return f"seed {member.seed}, {found}"
        raise AssertionError("called though every member is finite")

    def _starts(self, given: Sequence[TrainingState] | None) -> tuple[list[LoopState], int]:
        pairs = list(zip(self._networks, self._members, strict=True))
        if given is None:
            return [self._states.fresh(network, member.seed) for network, member in pairs], 0
        if not isinstance(given, list | tuple) or not all(
            isinstance(start, TrainingState) for start in given
        ):
            raise TypeError(
                "train_ppo_many: initial_states: expected a list of TrainingState, one per member, "
                f"got {shown(given)}"
            )
        if len(given) != len(pairs) or len({start.steps_taken for start in given}) != 1:
            raise ValueError(
                f"train_ppo_many: initial_states: expected {len(pairs)} states (one per member) "
                f"after equally many steps, got {len(given)} after "
                f"{sorted({start.steps_taken for start in given})} steps"
            )
        resumed = [
            self._states.resumed(start, network)
            for start, (network, _) in zip(given, pairs, strict=True)
        ]
        return resumed, given[0].steps_taken

    def _run_evaluation(self, state: LoopState, steps: int) -> Metrics:
        variables = nnx.merge_state(state.params, state.variables)
        keys = [evaluation_key(member.config, steps) for member in self._members]
        metrics = jax.device_get(self._evaluate(variables, stacked(keys)))
        metrics = without_empty_groups(metrics)
        self._evaluations.append({"step": steps, **metrics})
        return metrics

    def _checkpoint(self, state: LoopState, steps: int) -> Metrics:
        assert self._checkpoint_fn is not None
        for member, own in zip(self._members, self._training_states(state, steps), strict=True):
            self._checkpoint_fn(own, steps, member)
        return {}

    def _training_states(self, state: LoopState, steps: int) -> tuple[TrainingState, ...]:
        def own(index: int) -> TrainingState:
            row = jax.tree.map(lambda leaf: leaf[index], state)
            own = as_training_state(row, self._graphdef, self._rewards_graphdef, steps)
            metrics = self._metrics_of(index)
            if not self._evaluations or self._evaluations[-1]["step"] != steps:
                metrics = {k: v for k, v in metrics.items() if not k.startswith("eval/")}
            return dataclasses.replace(own, callbacks=states, metrics=metrics)

        states = callback_states(self._callbacks)

        return tuple(own(index) for index in range(len(self._members)))

    def _metrics_of(self, index: int) -> dict[str, float]:
        metrics = self._loop.metrics if self._loop else {}
        every = {k: np.broadcast_to(v, len(self._members)) for k, v in metrics.items()}
        return {name: float(values[index]) for name, values in every.items()}

    def result(self, loop: TrainingLoop) -> ManyResult:
        """Returns the outcome."""
        return ManyResult(
            members=tuple(self._members),
            training_states=self._training_states(loop.state, loop.steps),
            final_metrics=loop.metrics,
            eval_history=self._evaluations,
            total_steps=loop.steps,
            total_iterations=loop.iterations,
            stopped_by=loop.stop.reason if loop.stop else None,
        )
