"""Trains with nnx-ppo-train for `time_to_return_vs_brax.py`.

Runs in the environment of the peer, which has our packages and MuJoCo Playground.
"""

import contextlib
import itertools
import json
import sys
from typing import Any

import jax
from _published import as_published
from _time_to_return import (
    CLIP,
    GAE_LAMBDA,
    N_EPISODES,
    POLICY_LAYERS,
    VALUE_LAYERS,
    VALUE_WEIGHT,
    Curve,
    Reached,
    load_env,
    make_run,
)
from flax import nnx
from nnx_ppo_train import (
    EpisodeWrapper,
    EvalConfig,
    NormalTanhSampler,
    PPOAdapter,
    TrainConfig,
    TrainingState,
    deterministic,
    train_ppo,
)
from nnx_stateful import Dense, Normalizer, Sequential


def make_network(env: Any, entropy_weight: float, rngs: nnx.Rngs) -> Sequential:
    """Normaliser, actor and critic with the layers and initial weights of Brax."""
    init = nnx.initializers.lecun_uniform()

    def layers(hidden: tuple[int, ...], n_out: int) -> list[Dense]:
        sizes = [env.observation_size, *hidden]
        between = [
            Dense(n_in, width, rngs, activation=nnx.swish, kernel_init=init)
            for n_in, width in itertools.pairwise(sizes)
        ]
        return [*between, Dense(sizes[-1], n_out, rngs, kernel_init=init)]

    sampler = NormalTanhSampler(rngs, entropy_weight=entropy_weight)
    adapter = PPOAdapter(
        action=Sequential([*layers(POLICY_LAYERS, 2 * env.action_size), sampler]),
        value=Sequential(layers(VALUE_LAYERS, 1)),
    )
    return Sequential([Normalizer(env.observation_size), adapter])


def main(seed: int, **arguments: Any) -> dict[str, Any]:
    jax.config.update("jax_enable_compilation_cache", False)
    run = make_run(**arguments)
    settings = run.settings
    ppo = as_published(
        n_envs=settings.num_envs,
        rollout_length=run.steps_per_iteration // settings.num_envs,
        total_steps=run.n_evaluations * run.every,
        n_epochs=settings.num_updates_per_batch,
        n_minibatches=settings.num_minibatches,
        learning_rate=settings.learning_rate,
        discounting_factor=settings.discounting,
        gae_lambda=GAE_LAMBDA,
        clip_range=CLIP,
        critic_loss_weight=VALUE_WEIGHT,
        reward_scaling=settings.reward_scaling,
        truncation="mask",
    )
    config = TrainConfig(
        ppo=ppo, eval=EvalConfig(enabled=False), seed=seed, checkpoint_every_steps=run.every
    )
    env = EpisodeWrapper(load_env(), settings.episode_length)
    network = make_network(env, settings.entropy_cost, nnx.Rngs(seed))
    graphdef, _ = nnx.split(deterministic(network))

    def act(params: Any, carry: Any, obs: Any) -> tuple[Any, Any]:
        out = nnx.merge(graphdef, params)(carry, obs)
        return out.next_state, out.output.actions

    curve = Curve(run, act, network.initialize_state(N_EPISODES))

    def evaluate(state: TrainingState, steps: int) -> None:
        curve.add(steps, nnx.split(deterministic(state.networks))[1])

    with contextlib.suppress(Reached):
        train_ppo(env, network, config, checkpoint_fn=evaluate)
    return curve.result()


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
