"""Trains with Rejax for `speed_vs_rejax.py`, in the environment of that peer."""

import json
import math
import sys
from collections.abc import Callable

import jax
from _gymnax_cartpole import NAME
from _speed_gymnax import CLIP, DISCOUNT, ENTROPY_WEIGHT, GAE_LAMBDA, REJAX_TASKS
from _speed_worker import timed
from rejax import PPO


def main(name: str) -> None:
    task = REJAX_TASKS[name]
    limit = math.inf if task.gradient_clipping is None else task.gradient_clipping

    def train(tell: Callable[..., None]) -> None:
        agent = PPO.create(
            env=NAME,
            agent_kwargs={
                "activation": task.activation,
                "hidden_layer_sizes": (task.width, task.width),
            },
            num_envs=task.n_envs,
            num_steps=task.rollout_length,
            num_epochs=task.n_epochs,
            num_minibatches=task.n_minibatches,
            learning_rate=task.learning_rate,
            max_grad_norm=limit,
            gamma=DISCOUNT,
            gae_lambda=GAE_LAMBDA,
            clip_eps=CLIP,
            ent_coef=ENTROPY_WEIGHT,
            vf_coef=0.5,
            total_timesteps=task.steps,
            eval_freq=task.steps,
            skip_initial_evaluation=True,
        ).replace(eval_callback=lambda *_: ())
        chunk = jax.jit(lambda state: agent.train(train_state=state)[0])
        state = jax.jit(agent.init_state)(jax.random.key(0))
        while True:
            state = jax.block_until_ready(chunk(state))
            tell()

    timed(train)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
