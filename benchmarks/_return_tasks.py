"""The tasks of `returns_vs_nnx_ppo.py`: environments, networks and hyperparameters.

Everything here serves both libraries. They share the names and signatures of their network parts,
so a network is written once, over a namespace of parts.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from flax import nnx
from _crossing import Crossing
from nnx_ppo_train import EpisodeWrapper, make_env
from nnx_ppo_train.envs import Recall

Build = Callable[[Any, Any, nnx.Rngs], Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """What is learnt, by which network, with which settings.

    Attributes:
        env: Name of the environment.
        options: Its options in training.
        eval_options: Its options in evaluation, where they differ.
        network: `(parts, env, rngs) -> network`, `parts` being a library's classes by name.
        ppo: Fields of `PPOConfig`, the same for both libraries.
        eval_steps: Steps of an evaluation episode at most.
        quick_steps: Training steps of a trial run.
    """

    env: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    eval_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    network: Build
    ppo: dict[str, Any]
    eval_steps: int
    quick_steps: int = 50_000

    def make_env(self) -> Any:
        return self._make(self.options)

    def make_eval_env(self) -> Any:
        return self._make(self.options | self.eval_options)

    def _make(self, options):
        return make_env(self.env, **options) if isinstance(self.env, str) else self.env(**options)


def small(scale: float = 0.01) -> Any:
    """Initialiser of action read-outs."""
    return nnx.initializers.variance_scaling(scale, "fan_in", "truncated_normal")


def mlp(parts: Any, env: Any, rngs: nnx.Rngs) -> Any:
    """Normaliser, separate MLPs for actor and critic."""
    size, n_actions = env.observation_size, env.action_size
    readout = parts.Dense(64, 2 * n_actions, rngs, kernel_init=small())
    sampler = parts.NormalTanhSampler(rngs, entropy_weight=1e-3)

    def trunk() -> list[Any]:
        return [
            parts.Dense(size, 64, rngs, activation=nnx.swish),
            parts.Dense(64, 64, rngs, activation=nnx.swish),
        ]

    adapter = parts.PPOAdapter(
        action=parts.Sequential([*trunk(), readout, sampler]),
        value=parts.Sequential([*trunk(), parts.Dense(64, 1, rngs)]),
    )
    return parts.Sequential([parts.Normalizer(size), adapter])


def lstm(parts: Any, env: Any, rngs: nnx.Rngs) -> Any:
    """Normaliser, dense layer, LSTM, read-outs, for continuous actions."""
    size, n_actions = env.observation_size, env.action_size
    readout = parts.Dense(32, 2 * n_actions, rngs, kernel_init=small())
    sampler = parts.NormalTanhSampler(rngs, entropy_weight=1e-3)
    return parts.Sequential(
        [
            parts.Normalizer(size),
            parts.Dense(size, 32, rngs, activation=nnx.swish),
            parts.LSTM(32, 32, rngs),
            parts.PPOAdapter(
                action=parts.Sequential([readout, sampler]), value=parts.Dense(32, 1, rngs)
            ),
        ]
    )


def discrete_lstm(parts: Any, env: Any, rngs: nnx.Rngs) -> Any:
    """Dense layer, LSTM, read-outs, for choices."""
    size, n_choices = env.observation_size, env.action_size
    readout = parts.Dense(64, n_choices, rngs, kernel_init=small())
    sampler = parts.CategoricalSampler(rngs, entropy_weight=3e-2)
    return parts.Sequential(
        [
            parts.Dense(size, 64, rngs, activation=nnx.swish),
            parts.LSTM(64, 64, rngs),
            parts.PPOAdapter(
                action=parts.Sequential([readout, sampler]), value=parts.Dense(64, 1, rngs)
            ),
        ]
    )


def per_body(parts: Any, env: Any, rngs: nnx.Rngs) -> Any:
    """One trunk over all bodies; a sampler and a value for each."""
    names, size = env.body_names, sum(env.observation_size.values())

    def head() -> Any:
        sampler = parts.NormalTanhSampler(rngs, entropy_weight=1e-3)
        return parts.Sequential([parts.Dense(64, 2, rngs, kernel_init=small()), sampler])

    return parts.Sequential(
        [
            parts.Flattener(),
            parts.Normalizer(size),
            parts.Dense(size, 64, rngs, activation=nnx.swish),
            parts.Dense(64, 64, rngs, activation=nnx.swish),
            parts.PPOAdapter(
                action=parts.Parallel({name: head() for name in names}),
                value=parts.Parallel({name: parts.Dense(64, 1, rngs) for name in names}),
            ),
        ]
    )


COMMON = {"gradient_clipping": 1.0, "n_epochs": 4, "n_minibatches": 4}


def crossing(limit: int) -> Task:
    """Four steps to a place worth staying at; episodes in training last hardly longer."""
    return Task(
        env=lambda **options: Crossing(**options),
        options={"episode_length": limit},
        eval_options={"episode_length": 50},
        network=mlp,
        ppo=COMMON
        | {
            "n_envs": 256,
            "rollout_length": 20,
            "total_steps": 400_000,
            "learning_rate": 1e-3,
            "discounting_factor": 0.95,
        },
        eval_steps=50,
    )


def recall_stream(n_trials: int) -> Task:
    """A stream of trials, cut by a limit in training, whole in evaluation."""
    return Task(
        env=lambda limit: EpisodeWrapper(Recall(n_trials=8), limit),
        options={"limit": 6 * n_trials},
        eval_options={"limit": 48},
        network=discrete_lstm,
        ppo=COMMON
        | {
            "n_envs": 256,
            "rollout_length": 24,
            "total_steps": 600_000,
            "learning_rate": 2e-3,
            "discounting_factor": 0.9,
        },
        eval_steps=48,
    )


TASKS: dict[str, Task] = {
    "cartpole": Task(
        env="cartpole",
        network=mlp,
        ppo=COMMON
        | {
            "n_envs": 256,
            "rollout_length": 32,
            "total_steps": 1_000_000,
            "learning_rate": 1e-3,
            "critic_loss_weight": 0.1,
        },
        eval_steps=500,
    ),
    "cartpole-positions": Task(
        env="cartpole-positions",
        network=lstm,
        ppo=COMMON
        | {
            "n_envs": 256,
            "rollout_length": 64,
            "total_steps": 3_000_000,
            "learning_rate": 2e-3,
            "critic_loss_weight": 0.02,
        },
        eval_steps=500,
    ),
    "recall": Task(
        env="recall",
        network=discrete_lstm,
        ppo=COMMON
        | {
            "n_envs": 256,
            "rollout_length": 18,
            "total_steps": 600_000,
            "learning_rate": 2e-3,
            "discounting_factor": 0.9,
        },
        eval_steps=6,
    ),
    "body-chain": Task(
        env="body-chain",
        network=per_body,
        ppo=COMMON
        | {
            "n_envs": 128,
            "rollout_length": 32,
            "total_steps": 600_000,
            "learning_rate": 1e-3,
            "discounting_factor": 0.97,
        },
        eval_steps=100,
    ),
    "crossing-20": crossing(20),
    "crossing-40": crossing(40),
    "crossing-4": crossing(4),
    "crossing-5": crossing(5),
    "crossing-6": crossing(6),
    "crossing-8": crossing(8),
    "recall-stream-1": recall_stream(1),
    "recall-stream-2": recall_stream(2),
    "recall-stream-4": recall_stream(4),
    "recall-stream-8": recall_stream(8),
}
