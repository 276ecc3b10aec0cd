"""The optimiser that a config describes."""

import optax

from ._config import PPOConfig


def make_optimizer(config: PPOConfig) -> optax.GradientTransformation:
    """Adam, or AdamW with ``weight_decay``, after clipping by global norm where asked for."""
    steps = []
    if config.gradient_clipping is not None:
        steps.append(optax.clip_by_global_norm(config.gradient_clipping))
    if config.weight_decay is None:
        steps.append(optax.adam(config.learning_rate))
    else:
        steps.append(optax.adamw(config.learning_rate, weight_decay=config.weight_decay))
    return optax.chain(*steps)
