"""Short training runs for tests."""

from nnx_ppo.algorithms.config import EvalConfig, PPOConfig, TrainConfig
from nnx_ppo.algorithms.types import LoggingLevel

N_ENVS, LENGTH = 8, 6


def short_config(iterations: int, **options) -> TrainConfig:
    ppo = PPOConfig(
        n_envs=N_ENVS,
        rollout_length=LENGTH,
        total_steps=iterations * N_ENVS * LENGTH,
        learning_rate=1e-3,
        n_epochs=2,
        n_minibatches=2,
        **options,
    )
    evaluation = EvalConfig(
        every_steps=10**9, n_envs=4, max_episode_length=8, logging_level=LoggingLevel.ENV_METRICS
    )
    return TrainConfig(ppo=ppo, eval=evaluation, seed=3)
