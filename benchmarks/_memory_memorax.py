"""All seeds of one cell on one task of `memory.py` with memorax; prints JSON.

memorax has an actor and a critic apart, each with a memory of its own; encoder, cell and head have
the sizes of ours.
"""

import json
import sys
import time

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from _memory_settings import SETTINGS, TASKS
from gymnax.environments import spaces
from memorax.algorithms import PPO, PPOConfig
from memorax.networks import MLP, RNN, FeatureExtractor, Memoroid, Network, heads
from memorax.networks.sequence_models import LRUCell

HIDDEN = SETTINGS.hidden
CELLS = {
    "lstm": lambda: RNN(nn.LSTMCell(HIDDEN)),
    "gru": lambda: RNN(nn.GRUCell(HIDDEN)),
    "lru": lambda: Memoroid(LRUCell(features=HIDDEN, hidden_dim=HIDDEN)),
}


class GymnaxStyle:
    """An environment of ours as memorax takes it: resets itself, and gets a key in every step."""

    def __init__(self, env):
        self.env = env

    def reset(self, key, params=None):
        state = self.env.reset(key)
        return state.obs, state

    def step(self, key, state, action, params=None):
        stepped = self.env.step(state, action)
        fresh = self.env.reset(key)
        following = jax.tree.map(lambda new, old: jnp.where(stepped.done, new, old), fresh, stepped)
        return following.obs, following, stepped.reward, stepped.done, {}

    def action_space(self, params=None):
        return spaces.Discrete(self.env.action_size)


def make_agent(task: str, cell: str, n_steps: int) -> PPO:
    env = GymnaxStyle(TASKS[task]())
    config = PPOConfig(
        name=f"{cell} on {task}",
        num_envs=SETTINGS.n_envs,
        num_eval_envs=SETTINGS.eval_episodes,
        num_steps=SETTINGS.rollout_length,
        gamma=SETTINGS.discount,
        gae_lambda=SETTINGS.gae_lambda,
        num_minibatches=SETTINGS.n_minibatches,
        update_epochs=SETTINGS.n_epochs,
        normalize_advantage=True,
        clip_coef=SETTINGS.clip_range,
        clip_vloss=False,
        ent_coef=SETTINGS.entropy_weight,
        vf_coef=1.0,
    )

    def network(head: nn.Module) -> Network:
        encoder = FeatureExtractor(MLP(features=(HIDDEN,), activation=nn.swish))
        return Network(encoder, CELLS[cell](), head)

    iterations = n_steps // (SETTINGS.n_envs * SETTINGS.rollout_length)
    updates = iterations * SETTINGS.n_epochs * SETTINGS.n_minibatches
    optimizer = optax.chain(
        optax.clip_by_global_norm(SETTINGS.gradient_clipping),
        optax.adam(optax.linear_schedule(SETTINGS.learning_rate, 0.0, updates)),
    )
    return PPO(
        config,
        env,
        None,
        network(heads.Categorical(env.env.action_size)),
        network(heads.VNetwork()),
        optimizer,
        optimizer,
    )


def main(task: str, network: str, seeds: list[int], n_steps: int) -> dict[str, object]:
    agent = make_agent(task, network, n_steps)
    returns, started = [], time.perf_counter()
    for seed in seeds:
        key, state = agent.init(jax.random.key(seed))
        key, state, _ = agent.train(key, state, n_steps)
        _, transitions = agent.evaluate(key, state, agent.env.env.episode_length)
        returns.append(float(transitions.reward.sum(0).mean()))
    return {"returns": returns, "seconds": time.perf_counter() - started}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
