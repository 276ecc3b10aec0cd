"""Learning beside the unit of rewards: normalized values, normalized rewards, clipped gradients.

Run with `uv run python benchmarks/reward_units.py`. First table: mean return of a mass in the
plane, of most likely actions, with the defaults of `PPOConfig` and with `normalize_rewards` in
their place; a constant that is added to rewards is taken off the return again. Second table: the
action that a bandit without entropy bonus ends at.
"""

import argparse
import statistics
from typing import Any

import jax
import jax.numpy as jnp
from _results import print_table
from jaxtyping import Array
from nnx_ppo_train import EvalConfig, PPOConfig, TrainConfig, deterministic, train_ppo_many
from nnx_ppo_train.envs import State
from nnx_ppo_train.presets import NetworkOptions, make_network

STEPS = 50
ADDED = 20.0
ROWS = [("mlp", 0.0), ("lstm", 0.0), ("mlp", ADDED)]
FORMS: dict[str, dict[str, Any]] = {
    "`normalize_values`": {},
    "`normalize_rewards`": {"normalize_values": False, "normalize_rewards": True},
}
BANDIT: dict[str, dict[str, Any]] = {
    "defaults": {},
    "`gradient_clipping=1.0`": {"gradient_clipping": 1.0},
    "and `target_kl=0.05`": {"gradient_clipping": 1.0, "target_kl": 0.05},
    "and `desired_kl=0.02`": {"gradient_clipping": 1.0, "desired_kl": 0.02},
}


class MassState(State):
    """State of Mass: steps taken; the position is the observation."""

    steps: Array


class Mass:
    """A mass that moves by 0.2 times the action and earns minus its squared distance from 0."""

    observation_size, action_size = 2, 2

    def __init__(self, added: float):
        self.added = added

    def reset(self, rng: Any) -> MassState:
        return MassState(
            obs=jax.random.uniform(rng, (2,), minval=-1.5, maxval=1.5),
            reward=jnp.zeros(()),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={},
            steps=jnp.zeros((), jnp.int32),
        )

    def step(self, state: MassState, action: Any) -> MassState:
        position, steps = state.obs + 0.2 * action, state.steps + 1
        return state.replace(
            obs=position,
            reward=self.added - jnp.sum(jnp.square(position)),
            done=steps >= STEPS,
            info={"truncated": steps >= STEPS},
            steps=steps,
        )


class Bandit:
    """One step, which earns 1 - (action - 0.4)^2."""

    observation_size, action_size = 1, 1

    def reset(self, rng: Any) -> State:
        del rng
        return State(
            obs=jnp.ones(1),
            reward=jnp.zeros(()),
            done=jnp.zeros((), bool),
            info={"truncated": jnp.zeros((), bool)},
            metrics={},
        )

    def step(self, state: State, action: Any) -> State:
        reward = 1.0 - jnp.square(action[0] - 0.4)
        return state.replace(reward=reward, done=jnp.ones((), bool))


def main() -> None:
    parser = argparse.ArgumentParser(description="Learning beside the unit of rewards.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--total-steps", type=int, default=320_000)
    options = parser.parse_args()
    seeds = range(options.seeds)
    rows = []
    for network, added in ROWS:
        name = f"`{network}`" + (f", {added:g} added to every reward" if added else "")
        found = [
            mass_returns(network, added, form, seeds, options.total_steps)
            for form in FORMS.values()
        ]
        rows.append([name, *map(text, found)])
    print_table(["mass in the plane", *FORMS], rows)
    print()
    print_table(["bandit", "most likely actions"], [[n, actions(o)] for n, o in BANDIT.items()])


def mass_returns(
    network: str, added: float, form: Any, seeds: Any, total_steps: int
) -> list[float]:
    config = TrainConfig(
        ppo=PPOConfig(total_steps=total_steps, **form),
        eval=EvalConfig(every_steps=total_steps, n_envs=256, max_episode_length=STEPS),
    )
    result = train_ppo_many(
        lambda: Mass(added), lambda env, rngs: make_network(network, env, rngs), config, seeds=seeds
    )
    returns = result.eval_history[-1]["eval/episode_reward/mean"]
    return [float(value) - STEPS * added for value in returns]


def actions(options: dict[str, Any]) -> str:
    """The most likely actions that four seeds end at."""
    network = NetworkOptions(hidden_size=16, entropy_weight=0.0, normalize_obs=False)
    ppo = PPOConfig(
        n_envs=64,
        rollout_length=8,
        total_steps=64 * 8 * 800,
        learning_rate=3e-3,
        learning_rate_schedule="linear",
        discounting_factor=0.9,
        **options,
    )
    result = train_ppo_many(
        Bandit,
        lambda env, rngs: make_network("mlp", env, rngs, network),
        TrainConfig(ppo=ppo, eval=EvalConfig(enabled=False)),
        seeds=range(4),
    )
    acting = [deterministic(state.networks) for state in result.training_states]
    found = [one(one.initialize_state(1), jnp.ones((1, 1))).output.actions for one in acting]
    return ", ".join(f"{float(action[0, 0]):.3f}" for action in found)


def text(returns: list[float]) -> str:
    each = ", ".join(f"{value:.1f}" for value in returns)
    return f"{statistics.fmean(returns):.1f} ({each})"


if __name__ == "__main__":
    main()
