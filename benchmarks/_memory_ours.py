"""All seeds of one network on one task of `memory.py` with nnx-ppo-train; prints JSON."""

import json
import sys
import time

from _memory_settings import SETTINGS, TASKS
from nnx_ppo_train import EvalConfig, PPOConfig, TrainConfig, train_ppo_many
from nnx_ppo_train.presets import NetworkOptions, make_network


def main(task: str, network: str, seeds: list[int], n_steps: int) -> dict[str, object]:
    make_env = TASKS[task]
    options = {
        "hidden_size": SETTINGS.hidden,
        "entropy_weight": SETTINGS.entropy_weight,
        "normalize_obs": False,
    }
    if network == "graph" and task == "repeat-previous":
        options["delay"] = make_env().delay
    ppo = PPOConfig(
        n_envs=SETTINGS.n_envs,
        rollout_length=SETTINGS.rollout_length,
        total_steps=n_steps,
        learning_rate=SETTINGS.learning_rate,
        learning_rate_schedule="linear",
        discounting_factor=SETTINGS.discount,
        gae_lambda=SETTINGS.gae_lambda,
        n_epochs=SETTINGS.n_epochs,
        n_minibatches=SETTINGS.n_minibatches,
        gradient_clipping=SETTINGS.gradient_clipping,
        clip_range=SETTINGS.clip_range,
    )
    evaluation = EvalConfig(
        every_steps=n_steps,
        n_envs=SETTINGS.eval_episodes,
        max_episode_length=make_env().episode_length,
    )
    started = time.perf_counter()
    result = train_ppo_many(
        make_env,
        lambda env, rngs: make_network(network, env, rngs, NetworkOptions(**options)),
        TrainConfig(ppo=ppo, eval=evaluation),
        seeds=seeds,
    )
    returns = result.final_metrics["eval/episode_reward/mean"].tolist()
    return {"returns": returns, "seconds": time.perf_counter() - started}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
