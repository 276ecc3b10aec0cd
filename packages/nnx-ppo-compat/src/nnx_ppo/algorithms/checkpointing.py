"""Saving checkpoints of a training run.

Restoring differs from the published form, since a checkpoint holds the environments too:
``nnx_ppo_train.load_checkpoint(path, networks, env, config)`` returns a TrainingState.
"""

from nnx_ppo_train import make_checkpoint_fn

__all__ = ["make_checkpoint_fn"]
