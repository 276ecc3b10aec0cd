"""Trains with memorax for `speed_vs_memorax.py`, in the environment of that peer."""

import json
import sys
from collections.abc import Callable
from typing import Any

import gymnax
import jax
import optax
from _gymnax_cartpole import NAME
from _speed_gymnax import CLIP, DISCOUNT, ENTROPY_WEIGHT, GAE_LAMBDA, MEMORAX_TASKS, Task
from _speed_worker import timed
from flax import linen as nn
from memorax.algorithms import PPO, PPOConfig
from memorax.networks import MLP, RNN, FeatureExtractor, Network, heads

CELLS = {"lstm": nn.OptimizedLSTMCell, "gru": nn.GRUCell}


def make_agent(task: Task) -> PPO:
    """Dense layer and cell, for actor and critic each."""
    env, params = gymnax.make(NAME)

    def network(head: Any) -> Network:
        encoder = MLP(features=task.width, activation=getattr(nn, task.activation))
        extractor = FeatureExtractor(observation_extractor=encoder)
        return Network(extractor, RNN(CELLS[task.network](features=task.width)), head)

    config = PPOConfig(
        name="ppo",
        num_envs=task.n_envs,
        num_eval_envs=1,
        num_steps=task.rollout_length,
        gamma=DISCOUNT,
        gae_lambda=GAE_LAMBDA,
        num_minibatches=task.n_minibatches,
        update_epochs=task.n_epochs,
        normalize_advantage=True,
        clip_coef=CLIP,
        clip_vloss=False,
        ent_coef=ENTROPY_WEIGHT,
        vf_coef=1.0,
    )
    optimizer = optax.adam(task.learning_rate)
    return PPO(
        cfg=config,
        env=env,
        env_params=params,
        actor_network=network(heads.Categorical(env.num_actions)),
        critic_network=network(heads.VNetwork()),
        actor_optimizer=optimizer,
        critic_optimizer=optimizer,
    )


def main(name: str) -> None:
    task = MEMORAX_TASKS[name]

    def train(tell: Callable[..., None]) -> None:
        agent = make_agent(task)
        key, state = agent.init(jax.random.key(0))
        while True:
            key, state, _ = jax.block_until_ready(agent.train(key, state, task.steps))
            tell()

    timed(train)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
