"""The optimiser that a config describes."""

import math

import optax

from ._config import PPOConfig


def make_optimizer(config: PPOConfig) -> optax.GradientTransformation:
    """Adam, or AdamW with ``weight_decay``, after clipping by global norm where asked for."""
    steps = []
    rate = learning_rate(config)
    if config.gradient_clipping is not None:
        steps.append(optax.clip_by_global_norm(config.gradient_clipping))
    if config.weight_decay is None:
        steps.append(optax.adam(rate))
    else:
        steps.append(optax.adamw(rate, weight_decay=config.weight_decay))
    return optax.chain(*steps)


def learning_rate(config: PPOConfig) -> float | optax.Schedule:
    """The step size, or the schedule of it by the number of updates."""
    if config.learning_rate_schedule == "constant":
        return config.learning_rate
    iterations = math.ceil(config.total_steps / (config.n_envs * config.rollout_length))
    updates = iterations * config.n_epochs * config.n_minibatches
    return optax.linear_schedule(config.learning_rate, 0.0, updates)
