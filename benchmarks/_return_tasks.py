"""The tasks of `returns_vs_nnx_ppo.py`: environments, networks and settings for both libraries."""

import dataclasses
from collections.abc import Callable
from typing import Any

import _return_networks as networks
from _crossing import Crossing
from nnx_ppo_train import EpisodeWrapper
from nnx_ppo_train.envs import BodyChain, CartPole, Recall

N_TRIALS, TRIAL = 8, 6  # of a stream of recall trials; steps of one


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What is learnt, by which network, with which settings.

    Attributes:
        env: The environment to train in.
        eval_env: The environment to evaluate in, the same where None.
        network: `(parts, env, rngs) -> network`, see `_return_networks`.
        settings: Fields of `PPOConfig` of both libraries, on top of `COMMON`.
    """

    env: Any
    eval_env: Any = None
    network: Callable[[Any, Any, Any], Any]
    settings: dict[str, Any]

    @property
    def evaluated(self) -> Any:
        return self.env if self.eval_env is None else self.eval_env

    def ppo(self, n_steps: int | None) -> dict[str, Any]:
        """All settings, with another number of training steps where one is given."""
        steps = {} if n_steps is None else {"total_steps": n_steps}
        return COMMON | self.settings | steps


COMMON = {"n_envs": 256, "gradient_clipping": 1.0, "n_epochs": 4, "n_minibatches": 4}
RECALL = {
    "rollout_length": 18,
    "total_steps": 300_000,
    "learning_rate": 2e-3,
    "discounting_factor": 0.9,
}


def recall_stream(limit: int) -> Task:
    """Trial after trial, cut by a limit in training, all eight in evaluation."""
    stream = Recall(n_trials=N_TRIALS)
    return Task(
        env=EpisodeWrapper(stream, limit),
        eval_env=stream,
        network=networks.discrete_lstm,
        settings=RECALL | {"rollout_length": 24},
    )


def crossing(limit: int) -> Task:
    """Three steps to a place worth staying at; evaluated over 50 steps."""
    return Task(
        env=Crossing(episode_length=limit),
        eval_env=Crossing(episode_length=50),
        network=networks.mlp,
        settings={
            "rollout_length": 20,
            "total_steps": 400_000,
            "learning_rate": 1e-3,
            "discounting_factor": 0.95,
        },
    )


TASKS: dict[str, Task] = {
    "cartpole": Task(
        env=CartPole(),
        network=networks.mlp,
        settings={
            "rollout_length": 32,
            "total_steps": 1_000_000,
            "learning_rate": 1e-3,
            "critic_loss_weight": 0.1,
        },
    ),
    "cartpole-positions": Task(
        env=CartPole(observe_velocities=False),
        network=networks.lstm,
        settings={
            "n_envs": 128,
            "rollout_length": 64,
            "n_minibatches": 8,
            "total_steps": 3_000_000,
            "learning_rate": 2e-3,
            "critic_loss_weight": 0.02,
        },
    ),
    "recall": Task(env=Recall(), network=networks.discrete_lstm, settings=RECALL),
    "body-chain": Task(
        env=BodyChain(),
        network=networks.per_body,
        settings={
            "n_envs": 128,
            "rollout_length": 32,
            "total_steps": 600_000,
            "learning_rate": 1e-3,
            "discounting_factor": 0.97,
        },
    ),
    "recall-limit-12": recall_stream(2 * TRIAL),
    "recall-limit-24": recall_stream(4 * TRIAL),
    "recall-no-limit": recall_stream(N_TRIALS * TRIAL),
    "crossing-limit-6": crossing(6),
    "crossing-limit-8": crossing(8),
    "crossing-limit-20": crossing(20),
}
