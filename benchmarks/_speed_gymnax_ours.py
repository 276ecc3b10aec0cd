"""Trains with nnx-ppo-train for `speed_vs_rejax.py` and `speed_vs_memorax.py`.

Runs in the environment of the peer, which has our packages and gymnax.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import nnx_stateful
from _gymnax_cartpole import GymnaxCartPole
from _published import as_published
from _speed_gymnax import (
    CLIP,
    DISCOUNT,
    ENTROPY_WEIGHT,
    GAE_LAMBDA,
    MEMORAX_TASKS,
    REJAX_TASKS,
    Task,
    every,
)
from _speed_worker import timed
from flax import nnx
from nnx_ppo_train import (
    CategoricalSampler,
    EvalConfig,
    PPOAdapter,
    TrainConfig,
    train_ppo,
)

CELLS = {"lstm": nnx_stateful.LSTM, "gru": nnx_stateful.GRU}
TASKS = {"rejax": REJAX_TASKS, "memorax": MEMORAX_TASKS}
PPO: dict[str, dict[str, Any]] = {
    "rejax": {"recompute_advantages": False, "value_clip_range": CLIP, "critic_loss_weight": 0.5},
    "memorax": {"recompute_advantages": False, "normalize_over": "rollout"},
}
"""What each peer does where our defaults differ."""


def make_network(task: Task, env: Any, rngs: nnx.Rngs) -> Any:
    """Actor and critic of the task, without shared parts."""
    activation = getattr(nnx, task.activation)

    def hidden() -> list[Any]:
        first = nnx_stateful.Dense(env.observation_size, task.width, rngs, activation=activation)
        if task.network == "mlp":
            second = nnx_stateful.Dense(task.width, task.width, rngs, activation=activation)
        else:
            second = CELLS[task.network](task.width, task.width, rngs)
        return [first, second]

    logits = nnx_stateful.Dense(task.width, env.action_size, rngs)
    sampler = CategoricalSampler(rngs, entropy_weight=ENTROPY_WEIGHT)
    return PPOAdapter(
        action=nnx_stateful.Sequential([*hidden(), logits, sampler]),
        value=nnx_stateful.Sequential([*hidden(), nnx_stateful.Dense(task.width, 1, rngs)]),
    )


def main(peer: str, name: str) -> None:
    task = TASKS[peer][name]
    ppo = as_published(
        n_envs=task.n_envs,
        rollout_length=task.rollout_length,
        total_steps=10**12,
        n_epochs=task.n_epochs,
        n_minibatches=task.n_minibatches,
        learning_rate=task.learning_rate,
        gradient_clipping=task.gradient_clipping,
        discounting_factor=DISCOUNT,
        gae_lambda=GAE_LAMBDA,
        clip_range=CLIP,
        **PPO[peer],
    )
    config = TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False))

    def train(tell: Callable[..., None]) -> None:
        env = GymnaxCartPole()
        network = make_network(task, env, nnx.Rngs(0))
        train_ppo(env, network, config, log_fn=every(task.chunk, tell))

    timed(train)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
