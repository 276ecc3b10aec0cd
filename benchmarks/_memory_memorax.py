"""Trainings of `memory.py` with memorax: one network, several seeds; prints JSON.

Runs in the environment of that peer. Actor and critic are separate networks there, each with the
encoder, cell and sizes of our presets.
"""

import json
import math
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import optax
from _evaluation import N_EPISODES, mean_return
from _memory_tasks import (
    ENTROPY_WEIGHT,
    GRADIENT_NORM,
    HIDDEN,
    READOUT_INIT,
    make_task,
    settings,
)
from flax import linen as nn
from gymnax.environments import spaces
from memorax.algorithms import PPO, PPOConfig
from memorax.networks import (
    MLP,
    RNN,
    FeatureExtractor,
    LRUCell,
    Memoroid,
    Network,
    SequenceModelWrapper,
    heads,
)


class GymnaxEnv:
    """An environment of ours in the manner of gymnax: it resets itself when an episode ends."""

    def __init__(self, env: Any):
        self._env = env

    def action_space(self, params: Any = None) -> spaces.Discrete:
        return spaces.Discrete(self._env.action_size)

    def reset(self, key: Any, params: Any = None) -> tuple[Any, Any]:
        state = self._env.reset(key)
        return state.obs, state

    def step(self, key: Any, state: Any, action: Any, params: Any = None) -> tuple[Any, ...]:
        after = self._env.step(state, action)
        fresh = self._env.reset(key)
        following = jax.tree.map(lambda new, old: jnp.where(after.done, new, old), fresh, after)
        return following.obs, following, after.reward, after.done, {}


def torso(network: str) -> Any:
    """The recurrent part, or an MLP's second layer."""
    if network == "mlp":
        return SequenceModelWrapper(MLP(features=HIDDEN, activation=nn.swish))
    if network == "lru":
        return Memoroid(LRUCell(features=HIDDEN, hidden_dim=HIDDEN))
    cells = {"lstm": nn.OptimizedLSTMCell, "gru": nn.GRUCell}
    return RNN(cells[network](features=HIDDEN))


def make_agent(env: Any, network: str, ppo: dict[str, Any]) -> PPO:
    """The algorithm with the settings that both libraries share."""
    n_updates = ppo["n_epochs"] * ppo["n_minibatches"]
    n_iterations = math.ceil(ppo["total_steps"] / (ppo["n_envs"] * ppo["rollout_length"]))
    rate = optax.linear_schedule(ppo["learning_rate"], 0.0, n_iterations * n_updates)
    optimizer = optax.chain(optax.clip_by_global_norm(GRADIENT_NORM), optax.adam(rate))
    config = PPOConfig(
        name="ppo",
        num_envs=ppo["n_envs"],
        num_eval_envs=N_EPISODES,
        num_steps=ppo["rollout_length"],
        gamma=ppo["discounting_factor"],
        gae_lambda=ppo["gae_lambda"],
        num_minibatches=ppo["n_minibatches"],
        update_epochs=ppo["n_epochs"],
        normalize_advantage=True,
        clip_coef=ppo["clip_range"],
        clip_vloss=False,
        ent_coef=ENTROPY_WEIGHT,
        vf_coef=1.0,
    )
    encoder = FeatureExtractor(observation_extractor=MLP(features=HIDDEN, activation=nn.swish))
    policy = heads.Categorical(env.action_size, kernel_init=READOUT_INIT)
    return PPO(
        cfg=config,
        env=GymnaxEnv(env),
        env_params=None,
        actor_network=Network(encoder, torso(network), policy),
        critic_network=Network(encoder, torso(network), heads.VNetwork()),
        actor_optimizer=optimizer,
        critic_optimizer=optimizer,
    )


def trained_return(agent: PPO, state: Any, env: Any) -> float:
    """Mean return of the mode of the trained actor."""
    first = (agent.actor_network.initialize_carry((N_EPISODES, None)), jnp.array(True))

    def act(carry, obs):
        memory, start = carry
        rows = jnp.broadcast_to(start, (N_EPISODES, 1))
        memory, (choice, _) = agent.actor_network.apply(
            state.actor_params,
            observation=obs[:, None],
            mask=rows,
            action=jnp.zeros((N_EPISODES, 1), jnp.int32),
            reward=jnp.zeros((N_EPISODES, 1, 1)),
            done=rows,
            initial_carry=memory,
        )
        return (memory, jnp.array(False)), jnp.argmax(choice.logits, axis=-1)[:, 0]

    return mean_return(env, act, first)


def main(task: str, network: str, seeds: list[int], n_steps: int | None) -> dict[str, Any]:
    env = make_task(task)
    ppo = settings(task, n_steps)
    agent = make_agent(env, network, ppo)
    per_iteration = ppo["n_envs"] * ppo["rollout_length"]
    steps = math.ceil(ppo["total_steps"] / per_iteration) * per_iteration
    started = time.perf_counter()
    states = []
    for seed in seeds:
        key, state = agent.init(jax.random.key(seed))
        states.append(jax.block_until_ready(agent.train(key, state, steps)[1]))
    seconds = time.perf_counter() - started
    returns = [trained_return(agent, state, env) for state in states]
    return {"returns": returns, "seconds": seconds}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
